"""Activations that bend by an exponential: elu and its kin, softplus, logsigmoid, mish."""

from __future__ import annotations

import numpy as np

from ... import backend
from ...backend.cpu import numpy_ops
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.half_precision import in_float32
from .activation import times
from .activation_kernels import launches, slope, value_forward

# ---- elu and its kin ---------------------------------------------------------------------------------

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _elu(xp, x, scale, negative, inner):
    """scale * x where x > 0, else negative * (exp(inner * x) - 1): the sum of both, of which one is 0."""
    bend = negative / scale
    numbers = (0, bend, scale)
    zero, by_bend, by_scale = numpy_ops.constants(x.dtype, *numbers) if xp is np else numbers
    few = x.ndim and x.size <= numpy_ops.FEW  # NumPy gives a fresh array by itself, but of a 0-d one
    out = xp.minimum(x, zero, out=None if few else backend.empty(xp, x.shape, x.dtype))
    if inner != 1:
        out *= inner
    xp.expm1(out, out=out)
    if bend != 1:
        out *= by_bend
    out += xp.maximum(x, zero)
    if scale != 1:
        out *= by_scale
    return out


def elu_back(F, g, x, scale, negative, inner):
    e = F.exp(F.clamp(x, None, 0.0) * inner)
    return F.where(x <= 0, g * e * (negative * inner), g if scale == 1 else g * scale)


def elu_curve(F, x, alpha, inner):
    """The second derivative of alpha * (exp(inner * x) - 1) below 0, and 0 above."""
    return F.where(x <= 0, F.exp(F.clamp(x, None, 0.0) * inner) * (alpha * inner * inner), 0.0)


def _back_of_elu(F, g, x, alpha):
    return slope("elu", g, x, alpha=alpha) if launches(F, g) else elu_back(F, g, x, 1, alpha, 1)


@defop
class elu:
    """x where x > 0, else alpha * (exp(x) - 1).

    >>> ag.elu(ag.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """

    forward = in_float32(lambda xp, x, *, alpha=1.0: _elu(xp, x, 1, alpha, 1), value_forward("elu"))
    grad_x = _back_of_elu
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "elu", "elu_", "nn.functional.elu_"


def _celu(xp, x, *, alpha=1.0):
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _elu(xp, x, 1, alpha, 1 / alpha)


def _back_of_celu(F, g, x, alpha):
    return slope("celu", g, x, alpha=alpha) if launches(F, g) else elu_back(F, g, x, 1, alpha, 1 / alpha)


@defop
class celu:
    """x where x > 0, else alpha * (exp(x / alpha) - 1), whose derivative at 0 is 1; RuntimeError if alpha is 0.

    >>> ag.celu(ag.tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.    ])
    """

    forward = in_float32(_celu, value_forward("celu"))
    grad_x = _back_of_celu
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "celu", "celu_", "nn.functional.celu_"


@defop
class selu:
    """`elu` with the alpha and the scale that keep mean and variance of a deep network (Klambauer et al. 2017).

    >>> ag.selu(ag.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    @in_float32
    def forward(xp, x): return _elu(xp, x, SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1)
    def grad_x(F, g, x): return elu_back(F, g, x, SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "selu", "selu_", "nn.functional.selu_"


# ---- softplus and its kin ----------------------------------------------------------------------------


STRAIGHT = 20.0  # beyond it softplus and mish are x, to the last bit of float32, and mish to that of float64


def _softplus(xp, x, *, beta=1.0, threshold=20.0):
    if beta == 1 and x.size and x.item(x.argmax()) <= threshold:  # a look costs less than the limits
        out = np.exp(x, out=backend.empty(xp, x.shape, x.dtype))
        return np.log1p(out, out=out)
    limit = backend.constant(xp, threshold, x.dtype)
    out = xp.minimum(x if beta == 1 else x * beta, limit, out=backend.empty(xp, x.shape, x.dtype))
    xp.exp(out, out=out)
    xp.log1p(out, out=out)
    if beta != 1:
        out /= beta
    if beta > 0 and threshold >= STRAIGHT:  # there the curve is x, of which nothing less than x comes out above
        return xp.maximum(out, x, out=out)
    return backend.where(xp, x * beta > threshold, x, out)


def softplus_back(F, g, x, beta, threshold):
    if launches(F, g):
        return slope("softplus", g, x, beta=beta, threshold=threshold)
    return F.where(x * beta > threshold, g, g * F.sigmoid(x * beta))


def softplus_curve(F, x, beta, threshold):
    """The second derivative."""
    s = F.sigmoid(x * beta)
    return F.where(x * beta > threshold, 0.0, s * (1 - s) * beta)


@defop
class softplus:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

    >>> ag.softplus(ag.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """

    forward = in_float32(_softplus, value_forward("softplus"))
    grad_x = softplus_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "softplus", "nn.functional.softplus"


def _logsigmoid(xp, x):
    out = xp.absolute(x, out=backend.empty(xp, x.shape, x.dtype))
    xp.negative(out, out=out)
    xp.exp(out, out=out)
    xp.log1p(out, out=out)
    return xp.subtract(xp.minimum(x, 0), out, out=out)


@defop
class logsigmoid:
    """log(sigmoid(x)), exact for large |x|.

    >>> ag.logsigmoid(ag.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.    ])
    """

    forward = in_float32(_logsigmoid)
    def grad_x(F, g, x): return g * F.sigmoid(-x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "logsigmoid", "nn.functional.logsigmoid"


def _mish(xp, x):
    """tanh(log(1 + e)) is t / (t + 2) with t = e (e + 2), e = exp(x)."""
    t = xp.minimum(x, STRAIGHT, out=backend.empty(xp, x.shape, x.dtype))
    xp.exp(t, out=t)
    t *= t + 2
    t /= t + 2
    return times(xp, x, t)


def _mish_back(F, g, x):
    e = F.exp(F.clamp(x, None, STRAIGHT))
    t = e * (e + 2)
    u = t / (t + 2)
    return g * (u + x * F.sigmoid(x) * (1 - u * u))


@defop
class mish:
    """x * tanh(softplus(x)) (Misra 2019).

    >>> ag.mish(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8651])
    """

    forward = in_float32(_mish)
    grad_x = _mish_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = True
