"""Activations with exponentials: elu, celu, selu, softplus, logsigmoid, mish."""

from __future__ import annotations

from typing import Any

from ...backend.formulas import expression as formulas
from ...core.extend import pointwise

# ---- elu, celu, selu -----------------------------------------------------------------------------------

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _bend(x: Any, alpha: Any, inner: Any, slope: Any) -> Any:
    return formulas.select(x >= 0, 0, formulas.exp(x * inner) * (slope * inner))  # NaN where x is


@formulas.with_derivative(_bend)  # 0 at the joint
def _slope(x: Any, alpha: Any, inner: Any, slope: Any) -> Any:
    return formulas.select(x > 0, 1, formulas.exp(formulas.minimum(x, 0) * inner) * slope)


@formulas.with_derivative(_slope)
def _elu(x: Any, alpha: Any, inner: Any, slope: Any) -> Any:
    """x where x > 0, else alpha * (exp(inner * x) - 1), as a sum in which one term is 0; slope is alpha * inner."""
    return formulas.maximum(x, 0) + formulas.expm1(formulas.minimum(x, 0) * inner) * alpha


@pointwise
class elu:
    """x where x > 0, else alpha * (exp(x) - 1).

    >>> ag.elu(ag.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """

    def formula(x, *, alpha=1.0): return _elu(x, alpha, 1, alpha)
    takes_out = False
    public = "elu", "elu_", "nn.functional.elu_"
    torch = "nn.functional.elu"


@pointwise
class elu_grad:
    """h * elu'(x): the gradient of `elu`.

    >>> from autograd_gpu.ops.nn.exponential_activations import elu_grad
    >>> elu_grad(ag.tensor([3.0, 3.0]), ag.tensor([0.0, 2.0]), 0.5)
    tensor([1.5, 3. ])
    """

    derivative_of = elu


@pointwise
class celu:
    """x where x > 0, else alpha * (exp(x / alpha) - 1); RuntimeError if alpha is 0.

    The derivative is continuous: 1 at 0.

    >>> ag.celu(ag.tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.    ])
    """

    def formula(x, *, alpha=1.0): return _elu(x, alpha, 1 / alpha, 1)

    def check(alpha):
        if alpha == 0:
            raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")

    takes_out = False
    public = "celu", "celu_", "nn.functional.celu_"


@pointwise
class celu_grad:
    """h * celu'(x): the gradient of `celu`.

    >>> from autograd_gpu.ops.nn.exponential_activations import celu_grad
    >>> celu_grad(ag.tensor([3.0, 3.0]), ag.tensor([0.0, 2.0]), 0.5)
    tensor([3., 3.])
    """

    derivative_of = celu


@pointwise
class selu:
    """`elu` with the alpha and scale that preserve mean and variance across layers (Klambauer et al. 2017).

    >>> ag.selu(ag.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def formula(x): return _elu(x, SELU_ALPHA, 1, SELU_ALPHA) * SELU_SCALE
    takes_out = False
    public = "selu", "selu_", "nn.functional.selu_"


# ---- softplus, logsigmoid, mish --------------------------------------------------------------------------


LINEAR_FROM = 20.0  # from here on softplus (in float32) and mish (also in float64) equal x exactly


@formulas.with_derivative(formulas.sigmoid)
def _log_of_one_plus_exp(x: Any) -> Any:
    return formulas.log1p(formulas.exp(x))


@pointwise
class softplus:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

    >>> ag.softplus(ag.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """

    def formula(x, *, beta=1.0, threshold=20.0):
        return formulas.select(x * beta > threshold, x, _log_of_one_plus_exp(x * beta) / beta)
    public = "softplus", "nn.functional.softplus"


@pointwise
class softplus_grad:
    """h where beta x > threshold, else h * sigmoid(beta x): the gradient of `softplus`.

    >>> from autograd_gpu.ops.nn.exponential_activations import softplus_grad
    >>> softplus_grad(ag.tensor([3.0, 3.0]), ag.tensor([0.0, 100.0]))
    tensor([1.5, 3. ])
    """

    derivative_of = softplus


@pointwise
class logsigmoid:
    """log(sigmoid(x)), accurate for large |x|.

    >>> ag.logsigmoid(ag.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.    ])
    """

    @formulas.with_derivative(lambda x: formulas.sigmoid(-x))
    def formula(x): return formulas.minimum(x, 0) - formulas.log1p(formulas.exp(-formulas.absolute(x)))
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
    takes_out = False
    public = True
    torch = "nn.functional.mish"
