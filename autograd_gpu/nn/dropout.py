"""Dropout of elements and of channels; the identity in evaluation."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, sets each element to zero with probability p and divides the others by 1 - p.

    >>> ag.nn.Dropout(0.5).eval()(ag.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """`Dropout` of whole channels of (N, C, L) or (C, L).

    >>> ag.nn.Dropout1d(1.0)(ag.ones(1, 2, 1)).ravel()
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """`Dropout` of whole channels of (N, C, H, W).

    >>> ag.nn.Dropout2d(1.0)(ag.ones(1, 2, 1, 1)).ravel()
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """`Dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> ag.nn.Dropout3d(1.0)(ag.ones(1, 2, 1, 1, 1)).ravel()
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout for selu: dropped elements become its negative limit, and an affine map restores mean 0 and variance 1.

    >>> ag.nn.AlphaDropout(0.5).eval()(ag.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels, the first two dimensions.

    >>> ag.nn.FeatureAlphaDropout(0.5).eval()(ag.ones(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
