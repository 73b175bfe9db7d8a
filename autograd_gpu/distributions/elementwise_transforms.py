"""Transforms of each element by itself."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..backend.arrays.dtype_limits import finfo
from ..core.size import Size
from ..core.tensor import Tensor
from ..nn import functional as F
from . import constraints
from .constraint import Constraint
from .transform import Shape, Transform
from .utils import _sum_rightmost, broadcast_all


class _Fixed(Transform):
    """A transform without parameters: two of a class are equal."""

    def _equals(self, other: Any) -> bool:
        return True


class _Increasing(_Fixed):
    """One of the real line that grows with x."""

    domain = constraints.real
    bijective = True
    sign = 1


class ExpTransform(_Increasing):
    """y = exp(x)"""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Increasing):
    """y = 1 / (1 + exp(-x)), at least the smallest normal number and at most the largest one below 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _inside_of_unit_interval(ops.sigmoid(x))

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside_of_unit_interval(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


def _inside_of_unit_interval(y: Tensor) -> Tensor:
    limits = finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1 - limits.eps)


class TanhTransform(_Increasing):
    """y = tanh(x). Use the cache, or keep x: the inverse loses digits where y is close to 1 or -1."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - F.softplus(-2 * x))  # log(1 - tanh(x)^2) without its cancellation


class SoftplusTransform(_Increasing):
    """y = log(1 + exp(x)), and x where it is above 20."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class AbsTransform(_Fixed):
    """y = |x|, not bijective; the inverse gives the nonnegative x."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """y = x**exponent for positive x; the exponent is a number or a tensor, and not 0.

    >>> from autograd_gpu.distributions.transforms import PowerTransform
    >>> PowerTransform(2.0)(ag.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    def _equals(self, other: Any) -> bool:
        return _same_numbers(self.exponent, other.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Size:
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale * x, with numbers or tensors; the last `event_dim` dimensions are one event.

    >>> from autograd_gpu.distributions.transforms import AffineTransform
    >>> AffineTransform(1.0, 2.0).inv(ag.tensor([1.0, 3.0]))
    tensor([0., 1.])
    """

    bijective = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:  # fmt: skip
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """Real, or vectors of the dimensions that count as one event."""
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """Real, or vectors of the dimensions that count as one event."""
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def _equals(self, other: Any) -> bool:
        return _same_numbers(self.loc, other.loc) and _same_numbers(self.scale, other.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            shape = ops.broadcast_shapes(x.shape, self.scale.shape)
            log_scale = self.scale.abs().log().expand(shape)
        else:
            log_scale = ops.full_like(x, math.log(abs(self.scale)))
        return _sum_rightmost(log_scale, self._event_dim)

    def forward_shape(self, shape: Shape) -> Size:
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape


def _broadcast(shape: Shape, *parameters: Tensor | float) -> Size:
    return Size(ops.broadcast_shapes(tuple(shape), *[p.shape for p in parameters if isinstance(p, Tensor)]))


def _same_numbers(a: Tensor | float, b: Tensor | float) -> bool:
    """Whether the numbers or tensors are equal, broadcasting. Waits for a CUDA device."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return a == b
    return bool(ops.all(ops.eq(*broadcast_all(a, b))))
