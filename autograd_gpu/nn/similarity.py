"""Cosine similarity and pairwise distance as modules."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`; norms are clamped to at least `eps`.

    >>> ag.nn.CosineSimilarity()(ag.tensor([[3.0, 4.0]]), ag.tensor([[4.0, -3.0]])).item()
    0.0
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last dimension.

    >>> ag.nn.PairwiseDistance(eps=0.0)(ag.tensor([[3.0, 4.0]]), ag.zeros(1, 2)).item()
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
