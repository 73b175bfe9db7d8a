"""Common activations and softmaxes as modules; elementwise unless they take `dim`."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class Overwriting(Module):
    """Base of activations with an `inplace` option."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def parameters_repr(self) -> str:
        """The part of `extra_repr` before `inplace`."""
        return ""

    def extra_repr(self) -> str:
        parts = [self.parameters_repr(), "inplace=True" if self.inplace else ""]
        return ", ".join([part for part in parts if part])


# ---- elementwise -------------------------------------------------------------------------------------


class ReLU(Overwriting):
    """max(x, 0). With `inplace` it is the in-place operation `relu_`.

    >>> ag.nn.ReLU()(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


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


class SiLU(Overwriting):
    """x * sigmoid(x), also known as swish.

    >>> ag.nn.SiLU()(ag.zeros(1))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class GELU(Module):
    """x * Phi(x), with the standard normal distribution function Phi; approximate="tanh" uses the tanh approximation.

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


class Softsign(Module):
    """x / (1 + |x|).

    >>> ag.nn.Softsign()(ag.tensor([1.0]))
    tensor([0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> ag.nn.Tanhshrink()(ag.zeros(1))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


# ---- along a dimension -------------------------------------------------------------------------------


class _Along(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GLU(_Along):
    """a * sigmoid(b) with a and b the two halves of the input along `dim`, whose size is even.

    >>> ag.nn.GLU()(ag.tensor([3.0, 0.0]))
    tensor([1.5])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class Softmax(_Along):
    """exp(x) / sum(exp(x)) over `dim`; without it, one is chosen with a warning, see nn.functional.softmax.

    >>> ag.nn.Softmax(dim=-1)(ag.zeros(1, 2))
    tensor([[0.5, 0.5]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_Along):
    """exp(-x) / sum(exp(-x)) over `dim`.

    >>> ag.nn.Softmin(dim=-1)(ag.zeros(1, 2))
    tensor([[0.5, 0.5]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_Along):
    """x - log(sum(exp(x))) over `dim`.

    >>> ag.nn.LogSoftmax(dim=-1)(ag.zeros(1, 1))
    tensor([[0.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of images (N, C, H, W) or (C, H, W).

    >>> ag.nn.Softmax2d()(ag.zeros(2, 1, 1)).ravel()
    tensor([0.5, 0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
