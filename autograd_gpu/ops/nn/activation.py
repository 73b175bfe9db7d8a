"""Common activations: relu, sigmoid, tanh, silu, softsign, tanhshrink.

A gradient that is an op of its own (relu_grad, tanh_grad, ...) serves derivatives of every order. Passes over large
arrays on the CPU are bound by memory: a forward allocates one array and works on it in place. On CUDA an activation is
one of our kernels (activation_kernels.py), except relu, which is a single CuPy kernel anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import float16
from ...backend.cpu import numpy_ops
from ...backend.cpu.half_table import looked_up
from ...backend.formulas import expression as formulas
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, RECORD, ZERO, Tensor, defop, pointwise, public
from .._support.blocks import BLOCK, both_gradients
from .._support.half_precision import in_float32
from .._support.pointwise import one_kernel, pulled
from .activation_kernels import double_backward, grad_forward, value_forward

MANY = 512  # from so many elements on, a selection by bit operations is faster


def times(xp: Any, g: Any, t: Any) -> Any:
    """g * t, written into `t` if shape, strides and dtype allow."""
    fits = g.strides == t.strides and g.shape == t.shape and g.dtype == t.dtype
    return xp.multiply(g, t, out=t) if fits else g * t


def _squared(xp, x, into=None):
    """x * x in `into` or a new array, also for a 0-d x, where NumPy would return a scalar."""
    return xp.multiply(x, x, out=backend.empty_like(xp, x) if into is None else into)


# ---- relu --------------------------------------------------------------------------------------------


def _relu(xp, x):
    if x.dtype == float16 and x.size >= BLOCK:
        return looked_up(_relu, x, {})
    if x.size < BLOCK or x.itemsize < 4 or not x.flags.c_contiguous:
        return np.maximum(x, numpy_ops.constant(0, x.dtype))
    zeros, out = np.zeros(BLOCK, x.dtype), np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), out.reshape(-1)
    for i in range(0, x.size, BLOCK):  # an array of zeros: NumPy takes three times as long with a scalar
        part = target[i : i + BLOCK]
        np.maximum(source[i : i + BLOCK], zeros[: part.size], out=part)
    return out


def _relu_grad(xp, h, out):
    """h where out > 0, else 0; for many elements by a bitwise `and` with a mask.

    np.where takes 20 times as long for a random mask, because of mispredicted branches.
    """
    if h.dtype != out.dtype or h.size < MANY:
        return backend.where(xp, out <= 0, h.dtype.type(0), h)  # the gradient passes where out is NaN, as in PyTorch
    bits = np.dtype(f"i{out.itemsize}")
    mask = np.empty(out.shape, bits)
    np.subtract(np.less_equal(out, numpy_ops.constant(0, out.dtype)).view(np.int8), np.int8(1), out=mask)
    if mask.shape == h.shape:
        mask &= h.view(bits)
    else:
        mask = mask & h.view(bits)
    return mask.view(h.dtype)


@defop
class relu:
    """max(x, 0); the derivative at 0 is 0.

    >>> ag.relu(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    forward = _relu
    def cuda(xp, x): return xp.maximum(x, x.dtype.type(0))
    def grad_x(F, g, out): return F.relu_grad(g, out)
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "relu", "relu_", "nn.functional.relu_"
    methods = inplace = True


@defop
class relu_grad:
    """h where out > 0, else 0: the gradient of `relu`. The derivative with respect to `out` is zero.

    >>> from autograd_gpu.ops.nn.activation import relu_grad
    >>> relu_grad(ag.tensor([3.0, 4.0]), ag.tensor([0.0, 2.0]))
    tensor([0., 4.])
    """

    forward, cuda = _relu_grad, grad_forward("relu")
    def grad_h(F, g, out): return F.relu_grad(g, out)
    grad_out = ZERO
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


# ---- sigmoid and tanh --------------------------------------------------------------------------------


def logistic(xp, x):
    """sigmoid(x) with full relative accuracy, as a new array."""
    if x.size <= numpy_ops.FEW:  # takes a quarter of the time for few elements, twice the time for many
        return np.asarray(numpy_ops.special().expit(x))
    out = one_plus_exp(xp, x)
    return xp.reciprocal(out, out=out)


def one_plus_exp(xp, x):
    """1 + exp(-x), possibly inf, as a new array."""
    out = xp.negative(x, out=backend.empty_like(xp, x))
    with np.errstate(over="ignore"):
        xp.exp(out, out=out)
    out += 1
    return out


def _sigmoid_grad(xp, h, out, into=None):
    t = xp.subtract(1, out, out=backend.empty_like(xp, out) if into is None else into)
    t *= out
    return times(xp, h, t)


def _sigmoid_grads(g, h, out, grad_h, grad_out):
    np.subtract(1, out, out=grad_h)
    np.subtract(grad_h, out, out=grad_out)
    grad_h *= out
    grad_h *= g
    grad_out *= h
    grad_out *= g


@defop
class sigmoid:
    """1 / (1 + exp(-x)).

    >>> ag.sigmoid(ag.tensor([0.0, 2.0]))
    tensor([0.5   , 0.8808])
    """

    forward, cuda = in_float32(logistic, passes=True), value_forward("sigmoid")
    def grad_x(F, g, out): return F.sigmoid_grad(g, out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "sigmoid", "sigmoid_", "special.expit", "nn.functional.sigmoid"
    methods = inplace = True


@defop
class sigmoid_grad:
    """h * out * (1 - out): the gradient of `sigmoid`.

    >>> from autograd_gpu.ops.nn.activation import sigmoid_grad
    >>> sigmoid_grad(ag.tensor([1.0]), ag.tensor([0.5]))
    tensor([0.25])
    """

    forward, cuda = in_float32(_sigmoid_grad, passes=True), grad_forward("sigmoid")
    def grad_h(F, g, out): return F.sigmoid_grad(g, out)
    def grad_out(F, g, h, out): return g * h * (1 - out * 2)
    def fused(F, g, need, h, out): return both_gradients(_sigmoid_grads, g, need, h, out)
    def fused_cuda(F, g, need, h, out): return double_backward("sigmoid", g, need, h, out)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


def _tanh(xp, x, into=None):
    return xp.tanh(x) if into is None else xp.tanh(x, out=into)


def _tanh_grad(xp, h, out, into=None):
    t = _squared(xp, out, into)
    xp.subtract(1, t, out=t)
    return times(xp, h, t)


def _tanh_grads(g, h, out, grad_h, grad_out):
    np.multiply(out, out, out=grad_h)
    np.subtract(1, grad_h, out=grad_h)
    grad_h *= g
    np.multiply(g, h, out=grad_out)
    grad_out *= out
    grad_out *= -2


@defop
class tanh:
    """The hyperbolic tangent.

    >>> ag.tanh(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """

    forward, cuda = in_float32(_tanh, passes=True), value_forward("tanh")
    def grad_x(F, g, out): return F.tanh_grad(g, out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "tanh", "tanh_", "nn.functional.tanh"
    methods = inplace = ufunc = True


@defop
class tanh_grad:
    """h * (1 - out * out): the gradient of `tanh`.

    >>> from autograd_gpu.ops.nn.activation import tanh_grad
    >>> tanh_grad(ag.tensor([1.0]), ag.tensor([0.5]))
    tensor([0.75])
    """

    forward, cuda = in_float32(_tanh_grad, passes=True), grad_forward("tanh")
    def grad_h(F, g, out): return F.tanh_grad(g, out)
    def grad_out(F, g, h, out): return g * h * out * -2
    def fused(F, g, need, h, out): return both_gradients(_tanh_grads, g, need, h, out)
    def fused_cuda(F, g, need, h, out): return double_backward("tanh", g, need, h, out)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


# ---- silu ----------------------------------------------------------------------------------------------


@pointwise
class silu:
    """x * sigmoid(x), also known as swish.

    >>> ag.silu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7311])
    """

    def formula(x): return x * formulas.sigmoid(x)
    cuda = value_forward("silu")
    takes_out = False
    public = True
    torch = "nn.functional.silu"


@pointwise
class silu_grad:
    """h * silu'(x): the gradient of `silu`.

    >>> from autograd_gpu.ops.nn.activation import silu_grad
    >>> silu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    derivative_of = silu
    cuda = grad_forward("silu")
    def fused_cuda(F, g, need, h, x): return double_backward("silu", g, need, h, x)


# ---- softsign and tanhshrink ---------------------------------------------------------------------------


def _softsign_back(F, g, x):
    d = F.abs(x) + 1
    return g / (d * d)


@defop
class softsign:
    """x / (1 + |x|).

    >>> ag.softsign(ag.tensor([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """

    @in_float32
    def forward(xp, x): return x / (xp.absolute(x) + 1)
    cuda = one_kernel("softsign")
    grad_x = _softsign_back
    def fused_cuda(F, g, need, x): return pulled("softsign", g, x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    takes_out = False
    public = "softsign", "nn.functional.softsign"


@public("tanhshrink", "nn.functional.tanhshrink")
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input). Backward reads the tanh, so input may be written to.

    >>> ag.tanhshrink(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.2384])
    """
    return RECORD.sub(input, RECORD.tanh(input))
