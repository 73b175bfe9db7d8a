"""Dropout."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class Dropout(Module):
    """Sets each element to zero with probability p and divides the others by 1 - p; in training only.

    >>> ag.nn.Dropout(0.5).eval()(ag.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, p=self.p, training=self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
