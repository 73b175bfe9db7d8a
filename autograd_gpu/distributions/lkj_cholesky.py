"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all, log_beta


class LKJCholesky(Distribution):
    """Distributions of Cholesky factors of correlation matrices (dim, dim), with density ~ det ** (concentration - 1).

    The density is that of the matrix, so with a concentration of 1 all are equally likely; see Lewandowski, Kurowicka
    and Joe 2009. ValueError for a `dim` below 2.

    >>> from autograd_gpu.distributions import LKJCholesky
    >>> LKJCholesky(2, 1.0).log_prob(ag.eye(2)).exp()
    tensor(0.5)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _ag_expands = ("_beta",)
    _ag_keeps = ("dim",)

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        before = F.pad(self._halves(dim - 1), (1, 0)) - 0.5  # half of the number of free elements left of the diagonal
        before = before.clamp(min=0)
        rest = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2) - before
        self._beta = Beta(before + 0.5, rest, validate_args=False)

    def _halves(self, n: int) -> Tensor:
        """1/2, 1, ..., n/2"""
        return 0.5 * ops.arange(1, n + 1, dtype=self.concentration.dtype, device=self.concentration.device)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Rows of independent lengths left of the diagonal, in independent directions: the onion method."""
        shape, dtype, device = self._extended_shape(sample_shape), self.concentration.dtype, self.concentration.device
        limits = finfo(dtype)
        with no_grad():
            square = F.pad(self._beta.sample(sample_shape)[..., 1:], (1, 0))
            left = _standard_normal(shape, dtype, device).tril(-1)
            length = left.square().sum(-1, keepdim=True).sqrt().clamp(min=limits.tiny)
            diagonal = (1 - square).clamp(min=limits.tiny).sqrt()
            return left / length * square.sqrt().unsqueeze(-1) + diagonal.diag_embed()

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        diagonal, halves = value.diagonal(dim1=-2, dim2=-1)[..., 1:], self._halves(self.dim - 1)
        order = 2 * (self.concentration.unsqueeze(-1) - 1) + self.dim - 1 - 2 * halves
        shapes = (self.concentration + 0.5 * (self.dim - 1)).unsqueeze(-1) - halves
        constant = sum(math.lgamma(k / 2) - k / 2 * math.log(math.pi) for k in range(1, self.dim))
        return (order * diagonal.log() - log_beta(shapes, halves)).sum(-1) + constant
