"""A linear layer fused with an activation: one matrix product, and one pass for bias and activation.

1. `linear_activation` is the product, then act(z + bias) as one op: `bias_activation` for relu, tanh and sigmoid, whose
   derivatives are functions of the result, or `bias_activation_by_sum`, which saves z and the bias.
2. One pass computes the gradients for z and the bias: `smooth_grad`, or `piecewise_linear_grad` for relu and
   leaky_relu, whose second derivative is zero.
3. Without create_graph, one pass computes the gradients of these ops as well, on CUDA by their `fused_cuda` rules.

On CUDA a pass is one kernel (docs/kernels.md); on the CPU it works on blocks of rows, large arrays on all cores.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, HALF, float32
from ...backend.cpu.rows import SHARED_BLOCK, Blocks
from ...core.extend import RAW, RECORD, SAME, ZERO, Family, Tensor, aligned, as_it_is, defop, expanded, public
from .._support.blocks import BLOCK, over_rows
from .activation import relu, sigmoid, silu, sine, tanh
from .exponential_activations import celu, elu, softplus
from .gelu import gelu
from .linear import linear, sum_rows
from .piecewise_activations import leaky_relu

Array = Any

SAMPLE, MOST_TIMES = 1 << 14, 16  # elements by which an activation is measured; what it counts at most
UNSHARED = 4 * SHARED_BLOCK // MOST_TIMES  # elements, with fewer of which two or more cores share no activation
# The activations by name.
ACTIVATIONS: dict[str, Family] = {
    op.family.name: op.family
    for op in (relu, tanh, sigmoid, leaky_relu, elu, celu, gelu, silu, softplus, sine)
}  # fmt: skip


def all_parameters(activation: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """All parameters of an activation in order; ValueError for an unknown activation, TypeError for an unknown name."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"there is no activation {activation!r} for linear_activation; use one of "
                         f"{', '.join(ACTIVATIONS)}, or apply the activation to the result of linear")
    defaults = ACTIVATIONS[activation].attributes
    for name in arguments:
        if name not in defaults:
            raise TypeError(f"{activation} has no parameter {name!r}; it has {', '.join(defaults) or 'none'}")
    return (*{**defaults, **arguments}.values(),)



def by_result(activation: str) -> bool:
    """Whether the derivatives are computed from the result instead of z + bias."""
    return ACTIVATIONS[activation].slope is not None


def applied(activation: str, parameters: tuple[Any, ...]) -> kernels.Applied:
    """The CUDA code of an activation with its parameters."""
    return ACTIVATIONS[activation].cuda.activation(*parameters)


# ---- passes over arrays ------------------------------------------------------------------------------


def _wide(array: Array) -> Array:
    """`array` in the dtype that a pass computes in."""
    return array.astype(float32) if array.dtype in HALF else array


def _activated_on_cuda(xp, z, bias, *, activation, parameters=()):
    z, bias = map(kernels.contiguous, (z, bias))
    return kernels.bias_activation(applied(activation, parameters), z, bias)


def _activated(xp, z, bias, *, activation, parameters=()):
    wide, cols = z.itemsize > 2, z.shape[-1]
    if wide and z.size <= BLOCK and (z.size < UNSHARED or not _blocks(z, activation).shared):
        s, (ufunc, numbers) = z + bias, _ufunc(activation, z.dtype)
        return ACTIVATIONS[activation].of(RAW)(s, *parameters) if ufunc is None else ufunc(s, *numbers, out=s)
    blocks, rows = _blocks(z, activation if wide else None), z.size // max(cols, 1)
    out, bias, write = backend.empty(np, z.shape, z.dtype), _wide(bias), _written(activation, 0, parameters, z.dtype)
    matrix, target = z.reshape(rows, cols), out.reshape(rows, cols)

    def work(i: int, j: int) -> None:
        block = matrix[i:j]
        write((np.add(_wide(block), bias, out=backend.empty(np, block.shape, bias.dtype)),), target[i:j])

    blocks.run(work)
    return out


def _blocks(z: Array, activation: str | None) -> Blocks:
    """The blocks of rows of z for an activation; None where a pass takes as long as that of an addition."""
    cols = z.shape[-1]
    return Blocks(z.size // max(cols, 1), cols, SHARED_BLOCK, 1 if activation is None else _times(activation))


@functools.cache
def _ufunc(activation: str, dtype: np.dtype) -> tuple[np.ufunc | None, tuple[Array, ...]]:
    """The ufunc that an activation without parameters is, and its operands behind the array; None if it is none."""
    if ACTIVATIONS[activation].attributes:
        return None, ()
    code, numbers = _code(activation, 0, (), dtype)
    return code.ufunc, numbers


@functools.cache
def _times(activation: str) -> int:
    """How many times as long as an addition an activation takes on this processor, from 1 to MOST_TIMES.

    Measured once in a process, since it depends on NumPy's loops: tanh takes three times as long with AVX-512.
    """
    family = ACTIVATIONS[activation]
    write = _written(activation, 0, (*family.attributes.values(),), float32)
    x, out = np.linspace(-2, 2, SAMPLE, dtype=float32), np.empty(SAMPLE, float32)
    added, activated = (_least_time(call) for call in (lambda: np.add(x, x, out=out), lambda: write((x,), out)))
    return min(max(round(activated / added), 1), MOST_TIMES)


def _least_time(call: Callable[[], Any]) -> int:
    times = []
    for _ in range(8):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return min(times)


def _code(activation, order, parameters, dtype):
    """The code for many elements of the op of this order, and its numbers."""
    family = ACTIVATIONS[activation]
    return family.codes(order).by_blocks(dtype, dict(zip(family.attributes, parameters, strict=True)))


def gradient_code(activation, parameters, dtype):
    """The code for h act'(s) of many elements h and s of float32 or float64, and its numbers."""
    return _code(activation, 1, parameters, dtype)


def _written(activation, order, parameters, dtype):
    """A function of arrays and a target, which gets what the op of this order computes; it returns that, unrounded."""
    wide = float32 if dtype in HALF else dtype
    code, numbers = _code(activation, order, parameters, wide)

    def write(arrays: tuple[Array, ...], target: Array) -> Array:
        if dtype is wide:
            return code(arrays, numbers, (target,))[0]
        (result,) = code(arrays, numbers)
        target[...] = result
        return result

    return write


def _formula(z, bias, *, activation, parameters=()):
    """Of the activations whose code is the same for any number of elements."""
    return ACTIVATIONS[activation].formula.function(z + bias) if activation in ("relu", "tanh") else None


def _grad_and_column_sums_on_cuda(xp, h, saved, bias=None, *, activation, parameters=()):
    h, saved, bias = map(kernels.contiguous, (h, saved, bias))
    return kernels.bias_activation_backward(applied(activation, parameters), h, saved, bias)


def _grad_and_column_sums(xp, h, saved, bias=None, *, activation, parameters=()):
    """h * act'(saved + bias), and its column sums."""
    grad = ACTIVATIONS[activation].at(RAW, 1)
    if saved.size <= BLOCK and saved.itemsize > 2:
        dz = grad(h, saved if bias is None else saved + bias, *parameters)
        return dz, backend.total(np, dz, 0 if dz.ndim == 2 else tuple(range(dz.ndim - 1)))
    dz, bias = backend.empty(np, saved.shape, saved.dtype), None if bias is None else _wide(bias)
    write = _written(activation, 1, parameters, saved.dtype)

    def written(h_block: Array, block: Array, target: Array) -> Array:
        return write((_wide(h_block), _argument(_wide(block), bias)), target)

    return dz, _sums_of_blocks(written, h, saved, dz)


def _sums_of_blocks(block_of: Callable[..., Array], *arrays: Array) -> Array:
    """The column sums of what block_of(*blocks) gives for blocks of arrays of one shape."""
    dtype = arrays[0].dtype
    sums = {-1: np.zeros(arrays[0].shape[-1:], float32 if dtype in HALF else dtype)}  # by block; of none at all

    def work(k: int, *blocks: Array) -> None:
        sums[k] = backend.total(np, block_of(*blocks), 0)

    over_rows(work, *arrays)
    return backend.total(np, np.stack([sums[k] for k in sorted(sums)]), 0).astype(dtype)


def column_sums(dz: Array) -> Array:
    """The column sums of a float32 or float64 matrix of more than BLOCK elements, with the bits of `smooth_grad`."""
    return _sums_of_blocks(lambda block: block, dz)


# ---- rules of all four ops -----------------------------------------------------------------------------


def _argument(saved: Any, bias: Any) -> Any:
    """What the derivatives are computed from: the activation's input z + bias, or its result."""
    return saved if bias is None else saved + bias


def _plus_row(F, pair, shape):
    """v + row for a pair of a matrix v and a row, one of which may be None."""
    v, row = pair
    if row is None:
        return v
    return F.expand(row, shape) if v is None else v + row


def _grads(F, g, need, saved, bias, activation, parameters):
    """The gradients for z and bias."""
    family = ACTIVATIONS[activation]
    if need[1]:
        grad_op = F.smooth_grad if family.bends else F.piecewise_linear_grad
        return grad_op(g, saved, bias, activation=activation, parameters=parameters)
    return family.at(F, 1)(g, _argument(saved, bias), *parameters), None


def _grad_by_kernel(g, need, saved, bias, activation, parameters):
    """The gradient for z alone from one kernel; None if the rule has to run instead."""
    if need[1]:
        return None
    g, saved, bias = map(kernels.contiguous, (g, saved, bias))
    return kernels.bias_activation_backward(applied(activation, parameters), g, saved, bias, need_bias=False)


def _piecewise_linear_grad_back(F, g, saved, bias, activation, parameters):
    """The gradient for h, in which (dz, dbias) are linear."""
    return ACTIVATIONS[activation].at(F, 1)(_plus_row(F, g, saved.shape), _argument(saved, bias), *parameters)


def _smooth_grad_back(F, g, need, h, saved, bias, activation, parameters):
    """v act' for h, and h v act'' for saved and bias, where v is the sum of the gradients of dz and dbias."""
    family, v, argument = ACTIVATIONS[activation], _plus_row(F, g, saved.shape), _argument(saved, bias)
    dh = family.at(F, 1)(v, argument, *parameters) if need[0] else None
    if not (need[1] or need[2]):
        return dh, None, None
    ds = family.at(F, 2)(v * h, argument, *parameters)
    return dh, ds if need[1] else None, sum_rows(F, ds, bias.shape) if need[2] else None


def _double_backward(g, need, h, saved, bias, activation, parameters):
    """The gradients of `smooth_grad` and `piecewise_linear_grad` from one kernel."""
    gg, ggb, h, saved, bias = map(kernels.contiguous, (*g, h, saved, bias))
    need = (need[0], need[1], need[2] and bias is not None)
    f = applied(activation, parameters)
    return kernels.bias_activation_double_backward(f, gg, ggb, h, saved, bias, need, by_result(activation))


def _jvp(F, t, saved, bias, activation, parameters):
    """act' times the tangent of z + bias."""
    return ACTIVATIONS[activation].at(F, 1)(_plus_row(F, t, saved.shape), _argument(saved, bias), *parameters)


def _grad_jvp(F, t, h, saved, bias, activation, parameters):
    """The tangents of dz and dbias."""
    family, argument = ACTIVATIONS[activation], _argument(saved, bias)
    dz = None if t[0] is None else family.at(F, 1)(t[0], argument, *parameters)
    if family.bends and (t[1] is not None or t[2] is not None):
        by_argument = family.at(F, 2)(_plus_row(F, t[1:], saved.shape) * h, argument, *parameters)
        dz = by_argument if dz is None else dz + by_argument
    return dz, None if dz is None else sum_rows(F, dz, dz.shape[-1:])


@as_it_is(lambda batched, inputs, attributes: not batched[1])
def _batch(F, n, batched, z, bias, *, activation, parameters=()):
    """Of examples that have a bias of their own."""
    z, bias = aligned(F, batched, (z, bias))
    return ACTIVATIONS[activation].of(F)(z + bias, *parameters)


def _batch_grad(F, n, batched, h, saved, bias=None, *, activation, parameters=()):
    """The op with separate column sums for each sample of the batch."""
    if bias is not None:
        (saved, bias), b = aligned(F, batched[1:], (saved, bias)), batched[1] or batched[2]
        saved, batched = saved + bias, (batched[0], b)
    h, saved = expanded(F, n, batched[:2], (h, saved))
    dz = ACTIVATIONS[activation].at(F, 1)(h, saved, *parameters)
    return dz, F.sum(dz, tuple(range(1, dz.ndim - 1))) if dz.ndim > 2 else dz


# ---- the ops -----------------------------------------------------------------------------------------


@defop
class bias_activation:
    """act(z + bias) for z (..., n), bias (n,) and relu, tanh or sigmoid.

    >>> from autograd_gpu.ops.nn.linear_activation import bias_activation
    >>> bias_activation(ag.tensor([[-2.0, 3.0]]), ag.tensor([1.0, 1.0]), activation="relu")
    tensor([[0., 4.]])
    """

    forward, cuda = _activated, _activated_on_cuda
    def grads(F, g, need, out, activation, parameters): return _grads(F, g, need, out, None, activation, parameters)
    def fused_cuda(F, g, need, out, activation, parameters):
        return _grad_by_kernel(g, need, out, None, activation, parameters)
    def jvp(F, t, out, activation, parameters): return _jvp(F, t, out, None, activation, parameters)
    types, batch = SAME, _batch
    formula = _formula


@defop
class bias_activation_by_sum:
    """act(z + bias) for z (..., n), bias (n,) and an activation whose derivative is computed from z + bias.

    >>> from autograd_gpu.ops.nn.linear_activation import bias_activation_by_sum
    >>> bias_activation_by_sum(ag.tensor([[-3.0, 3.0]]), ag.ones(2), activation="leaky_relu", parameters=(0.5,))
    tensor([[-1.,  4.]])
    """

    forward, cuda = _activated, _activated_on_cuda
    def grads(F, g, need, z, bias, activation, parameters): return _grads(F, g, need, z, bias, activation, parameters)
    def fused_cuda(F, g, need, z, bias, activation, parameters):
        return _grad_by_kernel(g, need, z, bias, activation, parameters)
    def jvp(F, t, z, bias, activation, parameters): return _jvp(F, t, z, bias, activation, parameters)
    types, batch = SAME, _batch


@defop
class piecewise_linear_grad:
    """`smooth_grad` for relu, where `saved` is the result, and leaky_relu: the derivatives by saved and bias are zero.

    >>> from autograd_gpu.ops.nn.linear_activation import piecewise_linear_grad
    >>> piecewise_linear_grad(ag.ones(2, 2), ag.tensor([[0.0, 1.0], [2.0, 3.0]]), activation="relu").dbias
    tensor([1., 2.])
    """

    forward, cuda = _grad_and_column_sums, _grad_and_column_sums_on_cuda
    grad_h = _piecewise_linear_grad_back
    grad_saved = grad_bias = ZERO
    def fused_cuda(F, g, need, saved, bias, activation, parameters):
        if not need[0]:
            return None, None, None
        return _double_backward(g, need, None, saved, bias, activation, parameters)
    outputs, types = ("dz", "dbias"), SAME
    jvp, batch = _grad_jvp, _batch_grad


@defop
class smooth_grad:
    """h * act'(saved + bias) and its column sums: the gradients for z and bias.

    For tanh and sigmoid `saved` is the result and bias is None; for the others `saved` is z.

    >>> from autograd_gpu.ops.nn.linear_activation import smooth_grad
    >>> smooth_grad(ag.ones(2, 1), ag.zeros(2, 1), activation="tanh").dbias
    tensor([2.])
    """

    forward, cuda = _grad_and_column_sums, _grad_and_column_sums_on_cuda
    grads = _smooth_grad_back
    def fused_cuda(F, g, need, h, saved, bias, activation, parameters):
        return _double_backward(g, need, h, saved, bias, activation, parameters)
    outputs, types = ("dz", "dbias"), SAME
    jvp, batch = _grad_jvp, _batch_grad
    wide_rules = True


@public("nn.functional.linear_activation")
def linear_activation(
    input: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "relu", **parameters: Any
) -> Tensor:
    """act(input @ weightᵀ + bias) for input (..., in), weight (out, in) and bias (out,): `linear` and an activation.

    The activations and their parameters: relu, tanh, sigmoid, silu, leaky_relu (negative_slope=0.01), elu and celu
    (alpha=1), gelu (approximate="none"), softplus (beta=1, threshold=20), and sine (frequency=1), sin(frequency * z).
    The forward is one matrix product and one kernel, the backward two products and one kernel. `nn.Sequential` uses it
    for a Linear followed by such an activation. Without a bias, or with one of another shape or dtype, `linear` and the
    activation run separately. ValueError for an unknown activation, TypeError for an unknown parameter.

    >>> ag.nn.functional.linear_activation(ag.ones(1, 2), ag.tensor([[1.0, 1.0], [-1.0, 0.0]]), ag.zeros(2))
    tensor([[2., 0.]])
    """
    return activated(input, weight, bias, activation, all_parameters(activation, parameters))


def activated(input: Any, weight: Any, bias: Any, activation: str, parameters: tuple[Any, ...]) -> Any:
    """`linear_activation` with all parameters of the activation as a tuple."""
    if not _fits(weight, bias):
        return ACTIVATIONS[activation].of(RECORD)(linear(input, weight, bias), *parameters)
    op = bias_activation if by_result(activation) else bias_activation_by_sum
    return op(linear(input, weight), bias, activation, parameters)


def _fits(weight: Any, bias: Any) -> bool:
    """Whether the bias has one element per row of the weight, and the weight's dtype."""
    if not (isinstance(weight, Tensor) and isinstance(bias, Tensor)):
        return False
    w, b = weight._array, bias._array
    return b.ndim == 1 and b.shape[0] == w.shape[0] and b.dtype is w.dtype and b.dtype in FLOATS
