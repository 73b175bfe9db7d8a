"""gelu, exact and by a tanh, its gradient and its second derivative."""

from __future__ import annotations

import math

import numpy as np

from ..backend import cpu, dtypes
from ..core.batching import BROADCASTING
from ..core.dispatch import defop
from ..core.op import FLOAT
from ..core.tangents import ELEMENTWISE
from .launched import double_backward, slope_forward, value_forward
from .precision import in_float32

GELU_SCALE, GELU_CUBIC = math.sqrt(2.0 / math.pi), 0.044715


def _gelu_is_exact(approximate):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "none"


def _gelu_inner(x):
    """The argument of the approximation's tanh, and its derivative."""
    square = x * x
    return x * (square * GELU_CUBIC + 1) * GELU_SCALE, (square * (3 * GELU_CUBIC) + 1) * GELU_SCALE


def _normal_cdf(x):
    if x.dtype == dtypes.float32 and x.ndim:
        return _normal_cdf_float32(x)
    return 0.5 * (1 + cpu.special().erf(x * math.sqrt(0.5)))


def _normal_cdf_float32(x):
    """Abramowitz and Stegun 7.1.26, to 1.5e-7: a tenth of the time of SciPy's erf."""
    z = np.absolute(x)
    z *= math.sqrt(0.5)
    t = z * 0.3275911
    t += 1
    np.reciprocal(t, out=t)
    tail = t * 1.061405429
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += coefficient
        tail *= t
    np.multiply(z, z, out=t)
    np.exp(np.negative(t, out=t), out=t)
    tail *= t
    np.subtract(1, tail, out=t)
    np.copysign(t, x, out=t)
    t += 1
    t *= 0.5
    return t


def _gelu(xp, x, *, approximate="none"):
    if approximate == "none" and x.size <= cpu.FEW:  # a tenth of the calls
        return x * cpu.special().ndtr(x)
    if _gelu_is_exact(approximate):
        return x * _normal_cdf(x)
    return 0.5 * x * (1 + xp.tanh(_gelu_inner(x)[0]))


def _gelu_grad(xp, h, x, *, approximate="none"):
    if _gelu_is_exact(approximate):
        return h * (_normal_cdf(x) + x * xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    inner, slope = _gelu_inner(x)
    t = xp.tanh(inner)
    return h * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def gelu_curve(F, x, approximate):
    """The second derivative."""
    if _gelu_is_exact(approximate):
        return F.exp(x * x * -0.5) * (2 - x * x) * (1 / math.sqrt(2 * math.pi))
    inner, slope = _gelu_inner(x)
    t = F.tanh(inner)
    bend = x * (6 * GELU_CUBIC * GELU_SCALE)
    return (1 - t * t) * (slope + x * 0.5 * (bend - t * slope * slope * 2))


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


@defop
class gelu_grad:
    """h * gelu'(x), in one pass.

    >>> from autograd_gpu.ops.gelu import gelu_grad
    >>> gelu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    forward = in_float32(_gelu_grad, slope_forward("gelu"))
    def grad_h(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    def grad_x(F, g, h, x, approximate): return g * h * gelu_curve(F, x, approximate)
    def fused(F, g, need, h, x, approximate): return double_backward("gelu", g, need, h, x, approximate=approximate)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
