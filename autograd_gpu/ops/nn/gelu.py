"""gelu, exact and by a tanh, its gradient and its second derivative."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.cpu import numpy_ops
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.half_precision import in_float32
from .activation import logistic, times
from .activation_kernels import double_backward, slope_forward, value_forward

GELU_SCALE, GELU_CUBIC = math.sqrt(2.0 / math.pi), 0.044715
BLOCK = 16384  # elements that are passed over several times before going on: they stay in the cache
# exp(z * z) * erfc(z) is a polynomial in t = 1 / (1 + NEAR * z), to 3e-7 for all z >= 0; these are half its
# coefficients, that of t first: a minimax fit, which takes a tenth of the time of SciPy's functions.
NEAR, ONE = 0.425, np.float32(1)
TAIL = (
    0.11983629542126604, 0.12097006133733715, 0.10002964812344848, 0.1286564865815722, -0.053832011199918505,
    0.20634120634624464, -0.15814096026093080, 0.036139301560356885,
)  # fmt: skip


def _gelu_is_exact(approximate):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "none"


def _in_blocks(function, x):
    """function(x), elementwise, a block at a time; the function gets what has a dimension."""
    if not x.ndim:
        return function(x.reshape(1)).reshape(())
    if x.size <= BLOCK or not x.flags.c_contiguous:
        return function(x)
    out = backend.empty(np, x.shape, x.dtype)
    source, target = x.reshape(-1), out.reshape(-1)
    for i in range(0, x.size, BLOCK):
        target[i : i + BLOCK] = function(source[i : i + BLOCK])
    return out


def _below(z):
    """Phi(-z) for z >= 0, with full relative accuracy, and exp(-z * z / 2); in float32."""
    t = z * (NEAR * math.sqrt(0.5))
    t += 1
    np.reciprocal(t, out=t)
    out = t * TAIL[-1]
    for coefficient in TAIL[-2::-1]:
        out += coefficient
        out *= t
    np.multiply(z, z, out=t)
    t *= -0.5
    out *= np.exp(t, out=t)
    return out, t


def _gelu_block(x):
    z = np.absolute(x)
    out, _ = _below(z)
    out = _by_sign(out, x, z)
    out *= x
    return out


def _slope_block(x):
    z = np.absolute(x)
    out, bell = _below(z)
    bell *= 1 / math.sqrt(2 * math.pi)
    out -= np.multiply(z, bell, out=bell)
    return _by_sign(out, x, z)


def _by_sign(tail, x, scratch):
    """1 - tail where x > 0, else tail."""
    sign = np.copysign(ONE, x, out=scratch)
    tail *= sign
    return np.subtract(np.maximum(sign, 0, out=sign), tail, out=tail)


def _by_sigmoid(x):
    """u and du / dx, where the approximation by a tanh is x * sigmoid(u)."""
    square = x * x
    return x * (square * GELU_CUBIC + 1) * (2 * GELU_SCALE), (square * (3 * GELU_CUBIC) + 1) * (2 * GELU_SCALE)


def _gelu(xp, x, *, approximate="none"):
    if not _gelu_is_exact(approximate):
        return x * logistic(xp, _by_sigmoid(x)[0])
    if x.size <= numpy_ops.FEW or x.dtype != dtypes.float32:
        return x * numpy_ops.special().ndtr(x)
    return _in_blocks(_gelu_block, x)


def _gelu_grad(xp, h, x, *, approximate="none"):
    if not _gelu_is_exact(approximate):
        u, slope = _by_sigmoid(x)
        s = logistic(xp, u)
        return h * (s * (x * (1 - s) * slope + 1))
    if x.size <= numpy_ops.FEW or x.dtype != dtypes.float32:
        return h * (numpy_ops.special().ndtr(x) + x * xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    return times(xp, h, _in_blocks(_slope_block, x))


def gelu_curve(F, x, approximate):
    """The second derivative."""
    if _gelu_is_exact(approximate):
        return F.exp(x * x * -0.5) * (2 - x * x) * (1 / math.sqrt(2 * math.pi))
    u, slope = _by_sigmoid(x)
    s, rest = F.sigmoid(u), F.sigmoid(-u)
    bend = x * (12 * GELU_CUBIC * GELU_SCALE)
    return s * rest * (slope * 2 + x * (bend + (rest - s) * slope * slope))


@defop
class gelu:
    """x * Phi(x), Phi the normal distribution function, or its approximation by a tanh.

    >>> ag.gelu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8413])
    """

    forward = in_float32(_gelu, value_forward("gelu"))
    def grad_x(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "gelu", "nn.functional.gelu"


@defop
class gelu_grad:
    """h * gelu'(x), in one pass.

    >>> from autograd_gpu.ops.nn.gelu import gelu_grad
    >>> gelu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    forward = in_float32(_gelu_grad, slope_forward("gelu"))
    def grad_h(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    def grad_x(F, g, h, x, approximate): return g * h * gelu_curve(F, x, approximate)
    def fused(F, g, need, h, x, approximate): return double_backward("gelu", g, need, h, x, approximate=approximate)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
