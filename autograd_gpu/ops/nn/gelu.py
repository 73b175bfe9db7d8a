"""gelu, exact or by the tanh approximation, and its gradient."""

from __future__ import annotations

import math

from ...backend.formulas import expression as formulas
from ...core.extend import pointwise


@pointwise
class gelu:
    """x * Phi(x), with the standard normal distribution function Phi, or its tanh approximation.

    >>> ag.gelu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8413])
    """

    def formula(x, *, approximate="none"):
        if approximate == "none":
            return x * formulas.normal_cdf(x)
        return x * formulas.sigmoid(x * (x * x * 0.044715 + 1) * (2 * math.sqrt(2 / math.pi)))

    def check(approximate):
        if approximate not in ("none", "tanh"):
            raise RuntimeError("approximate argument must be either none or tanh.")

    public = "gelu", "nn.functional.gelu"


@pointwise
class gelu_grad:
    """h * gelu'(x): the gradient of `gelu`.

    >>> from autograd_gpu.ops.nn.gelu import gelu_grad
    >>> gelu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    derivative_of = gelu
