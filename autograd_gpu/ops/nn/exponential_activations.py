"""Activations with exponentials: elu, celu, selu, softplus, logsigmoid, mish."""

from __future__ import annotations

import numpy as np

from ... import backend
from ...backend.cpu import numpy_ops
from ...backend.formulas import expression as formulas
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, RAW, defop, pointwise
from .._support.half_precision import in_float32
from .._support.pointwise import one_kernel, pulled
from .activation import logistic, times
from .activation_formulas import elu_second_derivative, scaled_elu_grad, softplus_second_derivative
from .activation_kernels import double_backward, grad_forward, value_forward

# ---- elu, celu, selu -----------------------------------------------------------------------------------

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _elu(xp, x, scale, negative, inner):
    """scale * x where x > 0, else negative * (exp(inner * x) - 1), as a sum in which one term is 0."""
    ratio = negative / scale
    zero, by_ratio, by_scale = backend.constants(xp, x.dtype, 0, ratio, scale)
    few = x.ndim and x.size <= numpy_ops.FEW  # NumPy allocates the result itself, except for a 0-d x
    out = xp.minimum(x, zero) if few else backend.limited(xp, x, None, zero, backend.empty_like(xp, x))
    if inner != 1:
        out *= inner
    xp.expm1(out, out=out)
    if ratio != 1:
        out *= by_ratio
    out += xp.maximum(x, zero) if few else backend.limited(xp, x, zero, None)
    if scale != 1:
        out *= by_scale
    return out


@defop
class elu:
    """x where x > 0, else alpha * (exp(x) - 1).

    >>> ag.elu(ag.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """

    forward = in_float32(lambda xp, x, *, alpha=1.0: _elu(xp, x, 1, alpha, 1), passes=True)
    cuda = value_forward("elu")
    def grad_x(F, g, x, alpha): return F.elu_grad(g, x, alpha)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "elu", "elu_", "nn.functional.elu_"
    torch = "nn.functional.elu"


def _elu_grad(xp, h, x, *, alpha=1.0):
    return scaled_elu_grad(RAW, h, x, 1, alpha, 1)


@defop
class elu_grad:
    """h * elu'(x): the gradient of `elu`.

    >>> from autograd_gpu.ops.nn.exponential_activations import elu_grad
    >>> elu_grad(ag.tensor([3.0, 3.0]), ag.tensor([0.0, 2.0]), 0.5)
    tensor([1.5, 3. ])
    """

    forward, cuda = in_float32(_elu_grad), grad_forward("elu")
    def grad_h(F, g, x, alpha): return F.elu_grad(g, x, alpha)
    def grad_x(F, g, h, x, alpha): return g * h * elu_second_derivative(F, x, alpha, 1)
    def fused_cuda(F, g, need, h, x, alpha): return double_backward("elu", g, need, h, x, alpha=alpha)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True


def _celu(xp, x, *, alpha=1.0):
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _elu(xp, x, 1, alpha, 1 / alpha)


@defop
class celu:
    """x where x > 0, else alpha * (exp(x / alpha) - 1); RuntimeError if alpha is 0.

    The derivative is continuous: 1 at 0.

    >>> ag.celu(ag.tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.    ])
    """

    forward, cuda = in_float32(_celu, passes=True), value_forward("celu")
    def grad_x(F, g, x, alpha): return F.celu_grad(g, x, alpha)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "celu", "celu_", "nn.functional.celu_"


def _celu_grad(xp, h, x, *, alpha=1.0):
    return scaled_elu_grad(RAW, h, x, 1, alpha, 1 / alpha)


@defop
class celu_grad:
    """h * celu'(x): the gradient of `celu`.

    >>> from autograd_gpu.ops.nn.exponential_activations import celu_grad
    >>> celu_grad(ag.tensor([3.0, 3.0]), ag.tensor([0.0, 2.0]), 0.5)
    tensor([3., 3.])
    """

    forward, cuda = in_float32(_celu_grad), grad_forward("celu")
    def grad_h(F, g, x, alpha): return F.celu_grad(g, x, alpha)
    def grad_x(F, g, h, x, alpha): return g * h * elu_second_derivative(F, x, alpha, 1 / alpha)
    def fused_cuda(F, g, need, h, x, alpha): return double_backward("celu", g, need, h, x, alpha=alpha)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True


@defop
class selu:
    """`elu` with the alpha and scale that preserve mean and variance across layers (Klambauer et al. 2017).

    >>> ag.selu(ag.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    @in_float32
    def forward(xp, x): return _elu(xp, x, SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1)
    cuda = one_kernel("selu")
    def grad_x(F, g, x): return F.elu_grad(g * SELU_SCALE, x, SELU_ALPHA)
    def fused_cuda(F, g, need, x): return pulled("selu", g, x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "selu", "selu_", "nn.functional.selu_"


# ---- softplus, logsigmoid, mish --------------------------------------------------------------------------


LINEAR_FROM = 20.0  # from here on softplus (in float32) and mish (also in float64) equal x exactly


def _softplus(xp, x, *, beta=1.0, threshold=20.0):
    if beta == 1 and x.size and x.item(x.argmax()) <= threshold:  # the comparison costs less than the limits below
        out = np.exp(x, out=backend.empty_like(xp, x))
        return np.log1p(out, out=out)
    limit = backend.constant(xp, threshold, x.dtype)
    out = xp.minimum(x if beta == 1 else x * beta, limit, out=backend.empty_like(xp, x))
    xp.exp(out, out=out)
    xp.log1p(out, out=out)
    if beta != 1:
        out /= beta
    if beta > 0 and threshold >= LINEAR_FROM:  # softplus(x) >= x, with equality beyond the threshold
        return xp.maximum(out, x, out=out)
    return backend.where(xp, x * beta > threshold, x, out)


@defop
class softplus:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

    >>> ag.softplus(ag.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """

    forward, cuda = in_float32(_softplus, passes=True), value_forward("softplus")
    def grad_x(F, g, x, beta, threshold): return F.softplus_grad(g, x, beta, threshold)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "softplus", "nn.functional.softplus"


def _softplus_grad(xp, h, x, *, beta=1.0, threshold=20.0):
    return backend.where(xp, x * beta > threshold, h, times(xp, h, logistic(xp, x * beta)))


def _softplus_double_backward(F, g, need, h, x, beta, threshold):
    return double_backward("softplus", g, need, h, x, beta=beta, threshold=threshold)


@defop
class softplus_grad:
    """h where beta x > threshold, else h * sigmoid(beta x): the gradient of `softplus`.

    >>> from autograd_gpu.ops.nn.exponential_activations import softplus_grad
    >>> softplus_grad(ag.tensor([3.0, 3.0]), ag.tensor([0.0, 100.0]))
    tensor([1.5, 3. ])
    """

    forward, cuda = in_float32(_softplus_grad), grad_forward("softplus")
    def grad_h(F, g, x, beta, threshold): return F.softplus_grad(g, x, beta, threshold)
    def grad_x(F, g, h, x, beta, threshold): return g * h * softplus_second_derivative(F, x, beta, threshold)
    fused_cuda = _softplus_double_backward
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True


@pointwise
class logsigmoid:
    """log(sigmoid(x)), accurate for large |x|.

    >>> ag.logsigmoid(ag.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.    ])
    """

    @formulas.with_derivative(lambda x: formulas.sigmoid(-x))
    def formula(x): return formulas.minimum(x, 0) - formulas.log1p(formulas.exp(-formulas.absolute(x)))
    cuda = one_kernel("logsigmoid")
    def fused_cuda(F, g, need, x): return pulled("logsigmoid", g, x)
    public = "logsigmoid", "nn.functional.logsigmoid"
    keeps_layout = False


@formulas.with_derivative(lambda n: 2 / ((n + 2) * (n + 2)))  # the rule of a quotient cancels for large n
def _tanh_of_log(n):
    """tanh(log(1 + e)) for n = e (e + 2)."""
    return n / (n + 2)


@pointwise
class mish:
    """x * tanh(softplus(x)) (Misra 2019).

    >>> ag.mish(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8651])
    """

    def formula(x):
        e = formulas.exp(formulas.minimum(x, LINEAR_FROM))
        return x * _tanh_of_log(e * (e + 2))
    cuda = one_kernel("mish")
    def fused_cuda(F, g, need, x): return pulled("mish", g, x)
    takes_out = False
    public = True
    torch = "nn.functional.mish"
