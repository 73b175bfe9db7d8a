"""Activations based on the exponential function as modules; elementwise."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .activation import Overwriting
from .module import Module


class ELU(Overwriting):
    """x where x > 0, else alpha * (exp(x) - 1).

    >>> ag.nn.ELU()(ag.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def parameters_repr(self) -> str:
        return f"alpha={self.alpha}"


class CELU(ELU):
    """x where x > 0, else alpha * (exp(x / alpha) - 1).

    >>> ag.nn.CELU()(ag.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(Overwriting):
    """scale * ELU(x, alpha), with constants that preserve mean and variance in deep networks.

    >>> ag.nn.SELU()(ag.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Softplus(Module):
    """log(1 + exp(beta x)) / beta; x where beta x > threshold.

    >>> ag.nn.Softplus()(ag.tensor([100.0]))
    tensor([100.])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, beta=self.beta, threshold=self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    """log(sigmoid(x)), exact for large |x|.

    >>> ag.nn.LogSigmoid()(ag.tensor([-100.0]))
    tensor([-100.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Mish(Overwriting):
    """x * tanh(softplus(x)).

    >>> ag.nn.Mish()(ag.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)
