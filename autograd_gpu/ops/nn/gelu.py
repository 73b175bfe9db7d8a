"""gelu, exact or by the tanh approximation, and its gradient."""

from __future__ import annotations

import math

import numpy as np

from ...backend.arrays import dtypes
from ...backend.cpu import numpy_ops
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.half_precision import in_float32
from .activation import logistic, times
from .activation_formulas import gelu_is_exact, gelu_logit, gelu_second_derivative
from .activation_kernels import double_backward, grad_forward, value_forward

# A minimax fit: exp(z * z) * erfc(z) as a polynomial in t = 1 / (1 + NEAR * z), with an error of 3e-7 for all z >= 0.
# TAIL has half the coefficients, from that of t on. It takes a tenth of the time of SciPy's functions.
NEAR = 0.425
TAIL = (
    0.11983629542126604, 0.12097006133733715, 0.10002964812344848, 0.1286564865815722, -0.053832011199918505,
    0.20634120634624464, -0.15814096026093080, 0.036139301560356885,
)  # fmt: skip


def _normal_tail(z):
    """Phi(-z) and exp(-z * z / 2) for float32 z >= 0, with full relative accuracy."""
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
    out, _ = _normal_tail(z)
    np.subtract(x > 0, out, out=out)  # by |x|: x * (1 - tail) or x * tail
    out *= z
    return out


def _derivative_block(x):
    z = np.absolute(x)
    out, bell = _normal_tail(z)
    bell *= 1 / math.sqrt(2 * math.pi)
    out -= np.multiply(z, bell, out=bell)
    positive = x > 0  # np.copysign takes four times as long as a product
    np.subtract(positive, out, out=out)
    out *= positive.view(np.int8) * np.int8(2) - np.int8(1)
    return out  # 1 - out where x > 0, else out


def _gelu(xp, x, *, approximate="none"):
    if not gelu_is_exact(approximate):
        return x * logistic(xp, gelu_logit(x)[0])
    if x.size <= numpy_ops.FEW or not x.ndim or x.dtype != dtypes.float32:
        return x * numpy_ops.special().ndtr(x)
    return _gelu_block(x)


def _gelu_grad(xp, h, x, *, approximate="none"):
    if not gelu_is_exact(approximate):
        u, du = gelu_logit(x)
        s = logistic(xp, u)
        return h * (s * (x * (1 - s) * du + 1))
    if x.size <= numpy_ops.FEW or not x.ndim or x.dtype != dtypes.float32:
        return h * (numpy_ops.special().ndtr(x) + x * xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    return times(xp, h, _derivative_block(x))


@defop
class gelu:
    """x * Phi(x), with the standard normal distribution function Phi, or its tanh approximation.

    >>> ag.gelu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8413])
    """

    forward, cuda = in_float32(_gelu, passes=True), value_forward("gelu")
    def grad_x(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "gelu", "nn.functional.gelu"


@defop
class gelu_grad:
    """h * gelu'(x): the gradient of `gelu`.

    >>> from autograd_gpu.ops.nn.gelu import gelu_grad
    >>> gelu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    forward, cuda = in_float32(_gelu_grad, passes=True), grad_forward("gelu")
    def grad_h(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    def grad_x(F, g, h, x, approximate): return g * h * gelu_second_derivative(F, x, approximate)
    def fused_cuda(F, g, need, h, x, approximate):
        return double_backward("gelu", g, need, h, x, approximate=approximate)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
