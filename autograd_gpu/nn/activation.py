"""Activations as modules; each is elementwise unless it takes `dim`."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class ReLU(Module):
    """max(x, 0).

    >>> ag.nn.ReLU()(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input)


class Tanh(Module):
    """tanh(x).

    >>> ag.nn.Tanh()(ag.zeros(2))
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> ag.nn.Sigmoid()(ag.zeros(1))
    tensor([0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class SiLU(Module):
    """x * sigmoid(x), also known as swish.

    >>> ag.nn.SiLU()(ag.zeros(1))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input)


class GELU(Module):
    """x * Phi(x), Phi the normal distribution function, or with approximate="tanh" its usual approximation.

    >>> ag.nn.GELU(approximate="tanh")(ag.zeros(1))
    tensor([0.])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

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


class LeakyReLU(Module):
    """x where x > 0, else negative_slope * x.

    >>> ag.nn.LeakyReLU(0.5)(ag.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, negative_slope=self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class Softmax(Module):
    """exp(x) / sum(exp(x)) over `dim`.

    >>> ag.nn.Softmax(dim=-1)(ag.zeros(1, 2))
    tensor([[0.5, 0.5]])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """x - log(sum(exp(x))) over `dim`.

    >>> ag.nn.LogSoftmax(dim=-1)(ag.zeros(1, 1))
    tensor([[0.]])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
