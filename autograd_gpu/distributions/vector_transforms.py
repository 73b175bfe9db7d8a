"""Transforms of vectors and matrices, of shapes, and of the parts of a tensor."""

from __future__ import annotations

from typing import Any

from .. import linalg, ops
from ..backend.arrays.dtype_limits import finfo
from ..core.size import Size
from ..core.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .constraint import Constraint
from .distribution import Distribution
from .elementwise_transforms import TanhTransform, _Fixed
from .transform import Shape, Transform
from .utils import as_size, tril_matrix_to_vec, vec_to_tril_matrix


def _at_least_1d(shape: Shape) -> Size:
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input")
    return as_size(shape)


class SoftmaxTransform(_Fixed):
    """y = softmax(x) over the last dimension; not bijective: the inverse is log(y)."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Size:
        return _at_least_1d(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(_Fixed):
    """Vectors of K numbers to probabilities of K + 1 classes: each breaks its share off the rest of a stick.

    >>> from autograd_gpu.distributions.transforms import StickBreakingTransform
    >>> StickBreakingTransform()(ag.zeros(3))
    tensor([0.25, 0.25, 0.25, 0.25])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _shifted(self, x: Tensor) -> Tensor:
        """x, moved such that 0 gives equal probabilities: the logits of the shares."""
        n = x.shape[-1]
        return x - ops.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        share = ops.sigmoid(self._shifted(x))
        rest = (1 - share).cumprod(-1)
        return F.pad(share, (0, 1), value=1) * F.pad(rest, (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        rest = (1 - taken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        n = taken.shape[-1]
        return taken.log() - rest.log() + ops.arange(n, 0, -1, dtype=y.dtype, device=y.device).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (F.logsigmoid(-self._shifted(x)) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        shape = _at_least_1d(shape)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        shape = _at_least_1d(shape)
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Fixed):
    """Square matrices to lower triangular ones with a positive diagonal, exp of the given one."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Fixed):
    """Square matrices to positive definite ones, L L^T with L of LowerCholeskyTransform."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(_Fixed):
    """Vectors of n (n - 1) / 2 numbers to the Cholesky factors of correlation matrices (n, n).

    tanh(x) are partial correlations, which fill the triangle row by row (Lewandowski, Kurowicka and Joe 2009).

    >>> from autograd_gpu.distributions.transforms import CorrCholeskyTransform
    >>> CorrCholeskyTransform()(ag.tensor([0.0])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial.square()).sqrt().cumprod(-1)  # of the length of a row, after each column
        unit = ops.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + unit) * F.pad(left[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - y.square().cumsum(-1))[..., :-1], (1, 0), value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return partial.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2)
        return 0.5 * left.log().sum(-1) + TanhTransform().log_abs_det_jacobian(x, x).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        shape = _at_least_1d(shape)
        n = shape[-1]
        size = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Shape) -> Size:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class ReshapeTransform(Transform):
    """Reshapes the rightmost dimensions from in_shape to out_shape. ValueError for other numbers of elements.

    >>> from autograd_gpu.distributions.transforms import ReshapeTransform
    >>> ReshapeTransform((4,), (2, 2))(ag.ones(3, 4)).shape
    (3, 2, 2)
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = as_size(in_shape), as_size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """Real tensors of in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """Real tensors of out_shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _equals(self, other: Any) -> bool:
        return (self.in_shape, self.out_shape) == (other.in_shape, other.out_shape)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.ndim - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.ndim - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.zeros(x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Shape) -> Size:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Shape, expected: Size, by: Size) -> Size:
    """`shape` with its end, which is to be `expected`, replaced."""
    if len(shape) < len(expected):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(expected)
    if tuple(shape[cut:]) != expected:
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {expected}")
    return Size((*shape[:cut], *by))


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of numbers; the inverse is its icdf.

    >>> from autograd_gpu.distributions import Normal
    >>> from autograd_gpu.distributions.transforms import CumulativeDistributionTransform
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(ag.tensor(0.0))
    tensor(0.5)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        """The support of the distribution."""
        support: Constraint = self.distribution.support
        return support

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
