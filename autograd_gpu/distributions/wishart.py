"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .. import linalg, ops
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from . import constraints
from .bases import ExponentialFamily
from .chi2 import Chi2
from .multivariate_normal import FACTORS, half_log_det
from .utils import _standard_normal, broadcast_all, holds_everywhere, in_float64, lazy_property

_RETRIES = 10


class Wishart(ExponentialFamily):
    """Wishart distributions: of X X^T for matrices X with `df` normal columns of a covariance.

    One of `covariance_matrix`, `precision_matrix` and `scale_tril` (*batch, p, p) is given, as for MultivariateNormal;
    df may be any number above p - 1. AssertionError unless exactly one matrix is given, ValueError for a smaller df,
    and a warning for one below p, where samples are nearly singular.

    >>> from autograd_gpu.distributions import Wishart
    >>> Wishart(3.0, scale_tril=ag.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _ag_expands = ("_dist_chi2",)
    _ag_keeps = ("_unbroadcasted_scale_tril",)

    def __init__(
        self, df: Tensor | float, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        choices = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                   "scale_tril": scale_tril}  # fmt: skip
        matrices = {name: matrix for name, matrix in choices.items() if matrix is not None}
        if len(matrices) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = matrices.items()
        if matrix.ndim < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        p = matrix.shape[-1]
        self.df = broadcast_all(df, matrix[..., 0, 0])[0]
        batch_shape = self.df.shape
        if not holds_everywhere(self.df > p - 1):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        if not holds_everywhere(self.df >= p):
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for "
                          "ndim - 1 < df < ndim.", stacklevel=2)  # fmt: skip
        setattr(self, name, matrix.expand(batch_shape + matrix.shape[-2:]))
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = FACTORS[name](matrix)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - self._indices(), validate_args=False)

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1),
        }  # fmt: skip

    def _indices(self) -> Tensor:
        """0 ... p - 1"""
        return ops.arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        covariance = self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT
        return covariance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return ops.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    def _of_matrices(self, factor: Tensor) -> Tensor:
        """A number for each matrix, with two dimensions of size 1."""
        return factor.reshape(*factor.shape, 1, 1)

    @property
    def mean(self) -> Tensor:
        return self._of_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN for df <= p + 1."""
        factor = self.df - self._event_shape[-1] - 1
        return self._of_matrices(ops.where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        variances = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        products = variances.unsqueeze(-1) * variances.unsqueeze(-2)
        return self._of_matrices(self.df) * (self.covariance_matrix.square() + products)

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Samples, in which those that rounding made singular are drawn again, up to `max_try_correction` (10) times.

        Each look waits for a CUDA device. A warning if singular ones are left.
        """
        sample = self._bartlett_sample(sample_shape)
        for _ in range(_RETRIES if max_try_correction is None else max_try_correction):
            valid = self.support.check(sample)
            if holds_everywhere(valid):
                return sample
            sample = ops.where(self._of_matrices(valid), sample, self._bartlett_sample(sample_shape))
        if not holds_everywhere(self.support.check(sample)):
            warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def _bartlett_sample(self, sample_shape: Sequence[int]) -> Tensor:
        """By a triangular matrix of normal numbers, with roots of chi-squared ones on the diagonal."""
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt().clamp(min=finfo(self.df.dtype).eps)
        normal = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        factor = self._unbroadcasted_scale_tril @ (normal.tril(-1) + diagonal.diag_embed())
        return factor @ factor.mT

    def _half_log_det(self) -> Tensor:
        """Half of log det(2 covariance)"""
        return 0.5 * self._event_shape[-1] * math.log(2) + half_log_det(self._unbroadcasted_scale_tril)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        p, factor = self._event_shape[-1], self._unbroadcasted_scale_tril
        _, log_det = linalg.slogdet(value)
        trace = ops.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        normalizer = self.df * self._half_log_det() + ops.mvlgamma(self.df / 2, p)
        return 0.5 * (self.df - p - 1) * log_det - 0.5 * trace - normalizer

    def entropy(self) -> Tensor:
        p, halves = self._event_shape[-1], 0.5 * self._indices()

        def of_df(df: Tensor) -> Tensor:
            mean_log = ops.digamma(0.5 * df.unsqueeze(-1) - halves).sum(-1)
            return ops.mvlgamma(0.5 * df, p) - 0.5 * (df - p - 1) * mean_log + 0.5 * df * p

        return (p + 1) * self._half_log_det() + in_float64(of_df, self.df)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[-1] - 1)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        p = self._event_shape[-1]
        half_df, (_, log_det) = y + (p + 1) / 2, linalg.slogdet(-2 * x)
        return half_df * (p * math.log(2) - log_det) + ops.mvlgamma(half_df, p)
