"""Programs whose layers of second derivatives run by blocks of rows, and calls with the bits of eager code."""

import itertools

import numpy as np

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.nn.functional import linear
from autograd_gpu.ops import layer_jets
from autograd_gpu.ops.nn.linear_activation import all_parameters

ROWS, WIDTH = 96, 16
STREAM, MATRIX = (1, ROWS, WIDTH), (ROWS, WIDTH)
ACTIVATIONS = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "silu": nn.SiLU, "gelu": nn.GELU, "softplus": nn.Softplus}


def numbers(*shapes, dtype=ag.float32):
    """Tensors on the CPU, small enough for tanh."""
    return [ag.randn(*shape, dtype=dtype, device="cpu") * 0.3 for shape in shapes]


def jet(saved, stream, weight, bias=None, activation="tanh"):
    """A layer of one tangent and one second derivative."""
    how = {"activation": activation, "parameters": all_parameters(activation, {}), "d": 1, "groups": (((0, 0),),)}
    return layer_jets.layer_jet(saved, stream, weight, bias, **how).after


def arrays(results):
    return [t.detach().numpy() for t in (results if isinstance(results, tuple) else (results,))]


def same(f, *arguments, calls=4):
    """A compiled function whose calls have the bits of eager code."""
    expected, compiled = arrays(f(*arguments)), ag.compile(f)
    for _ in range(calls):
        for mine, other in zip(arrays(compiled(*arguments)), expected, strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)
    assert compiled.counts.compiled == calls - 2
    return compiled


def chain(x, stream, layers):
    """Layers with a weight and a bias each."""
    for weight, bias in layers:
        x = (linear(x, weight) + bias).tanh()
        stream = jet(x, stream, weight)
    return stream


def layers_of(*sizes, dtype=ag.float32):
    return [numbers((h, k), (h,), dtype=dtype) for k, h in itertools.pairwise(sizes)]


def network(sizes, activation="tanh", dtype=ag.float32, bias=True):
    ag.manual_seed(0)
    hidden = [part for k, h in itertools.pairwise(sizes[:-1])
              for part in (nn.Linear(k, h, bias=bias), ACTIVATIONS[activation]())]
    return nn.Sequential(*hidden, nn.Linear(*sizes[-2:])).to(dtype)


def second(net, form=func.hessian, method="push", **options):
    return func.vmap(form(net, method=method, **options))


def leaves(*tensors):
    return [t.detach().requires_grad_() for t in tensors]


def gradients(results, inputs, *arriving):
    return ag.autograd.grad(results, inputs, grad_outputs=arriving or None, allow_unused=True)
