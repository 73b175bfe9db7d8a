"""Transform, the base class of the transforms, and those made of other transforms."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.size import Size
from ..core.tensor import Tensor
from . import constraints
from .constraint import Constraint
from .utils import _sum_rightmost, as_size

Shape = Sequence[int]


class Transform:
    """A differentiable map from `domain` to `codomain`, with the logarithm of its Jacobian determinant.

    Subclasses define `domain`, `codomain`, `_call(x)`, `_inverse(y)`, `log_abs_det_jacobian(x, y)`, and `bijective`
    and `sign` (of the derivative, if it is monotonic). With `cache_size=1` the last x and y are kept, so that the
    inverse of a y that was just computed is exact and free.

    >>> from autograd_gpu.distributions.transforms import ExpTransform
    >>> exp = ExpTransform()
    >>> x = ag.tensor([0.0, 1.0])
    >>> y = exp(x)
    >>> exp.inv(y), exp.log_abs_det_jacobian(x, y)
    (tensor([0., 1.]), tensor([0., 1.]))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inverse_transform: weakref.ref[Transform] | None = None
        self._last: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)

    @property
    def event_dim(self) -> int:
        """The number of event dimensions, where domain and codomain have as many; ValueError elsewhere."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse, whose own inverse is this transform."""
        inverse = None if self._inverse_transform is None else self._inverse_transform()
        if inverse is None:
            inverse = self._make_inverse()
            self._inverse_transform = weakref.ref(inverse)
        return inverse

    def _make_inverse(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 or -1, or a tensor of them: whether the transform increases. NotImplementedError where it does neither."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Any:
        """This transform with another cache_size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inverse_transform": None}  # which a copy makes anew: a weak reference has no copy

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._equals(other))

    def _equals(self, other: Any) -> bool:
        """Whether `other`, of the same class, is the same map. Parameters decide; without any they are equal."""
        return False

    def __call__(self, x: Tensor) -> Tensor:
        """Computes y from x."""
        last_x, last_y = self._last
        if x is last_x and last_y is not None:
            return last_y
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """Computes x from y."""
        last_x, last_y = self._last
        if y is last_y and last_x is not None:
            return last_x
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx| for each event of x, given both of them."""
        raise NotImplementedError(f"{type(self).__name__} does not implement log_abs_det_jacobian")

    def forward_shape(self, shape: Shape) -> Size:
        """The shape of y for an x of the given shape."""
        return as_size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """The shape of x for a y of the given shape."""
        return as_size(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of another transform, which holds the cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._of = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """The codomain of the transform that this inverts."""
        return self._of.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The domain of the transform that this inverts."""
        return self._of.domain

    @property
    def bijective(self) -> bool:
        return bool(self._of.bijective)

    @property
    def sign(self) -> Any:
        return self._of.sign

    @property
    def inv(self) -> Transform:
        return self._of

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._of.with_cache(cache_size).inv

    def _equals(self, other: Any) -> bool:
        return bool(self._of == other._of)

    def __call__(self, x: Tensor) -> Tensor:
        return self._of._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Size:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self._of.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._of!r})"


def _at_least(constraint: Constraint, event_dim: int) -> Constraint:
    """The constraint with `event_dim` event dimensions, or with those that it has if they are more."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


class ComposeTransform(Transform):
    """Transforms, one after another.

    >>> from autograd_gpu.distributions.transforms import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(ag.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """The domain of the first part, with the event dimensions that the later parts ask for."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _at_least(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The codomain of the last part, with the event dimensions that the earlier parts ask for."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _at_least(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _make_inverse(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._cache_size = self._cache_size
        inverse._inverse_transform = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def _equals(self, other: Any) -> bool:
        return bool(self.parts == other.parts)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        total: Any = 0
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, between, [*between[1:], y], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            total = total + _sum_rightmost(term, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Shape) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return as_size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return as_size(shape)

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


class IndependentTransform(Transform):
    """A transform that takes `reinterpreted_batch_ndims` more of the rightmost dimensions as one event.

    >>> from autograd_gpu.distributions.transforms import ExpTransform, IndependentTransform
    >>> x = ag.ones(2, 3)
    >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(x, x.exp())
    tensor([3., 3.])
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """The domain of the base transform, with the reinterpreted dimensions as part of an event."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The codomain of the base transform, with the reinterpreted dimensions as part of an event."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    def _equals(self, other: Any) -> bool:
        same = self.reinterpreted_batch_ndims == other.reinterpreted_batch_ndims
        return bool(same and self.base_transform == other.base_transform)

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


identity_transform = ComposeTransform([])
