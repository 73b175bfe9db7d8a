"""Transforms of the parts of a tensor: along a dimension as `cat` joins them, or as `stack` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .constraint import Constraint
from .transform import Transform
from .utils import _sum_rightmost


class _PartsTransform(Transform):
    """A transform for each part of a tensor along `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _check_dim(self, x: Tensor) -> None:
        if not -x.ndim <= self.dim < x.ndim:
            raise AssertionError(f"Expected -{x.ndim} <= dim < {x.ndim}, got dim={self.dim}")


class CatTransform(_PartsTransform):
    """Transforms of parts of the given lengths (of length 1 by default) along `dim`.

    >>> from autograd_gpu.distributions.transforms import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[2, 1])(ag.zeros(3))
    tensor([1., 1., 0.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"Expected a length for each of {len(self.transforms)} transforms, got {lengths}")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of the dimension."""
        return sum(self.lengths)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """The domains of the parts, each for its slice."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """The codomains of the parts, each for its slice."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        self._check_dim(x)
        if x.shape[self.dim] != self.length:
            raise AssertionError(f"Expected {self.length} elements along dim {self.dim}, got {x.shape[self.dim]}")
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return ops.cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Per event, if `dim` is one of the event dimensions; else per index of `dim`, too."""
        event_dim, terms = self.event_dim, []
        for t, part_x, part_y in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            terms.append(_sum_rightmost(t.log_abs_det_jacobian(part_x, part_y), event_dim - t.event_dim))
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + event_dim
        if dim < 0:
            return ops.cat(terms, dim)
        total: Any = sum(terms)
        return total


class StackTransform(_PartsTransform):
    """A transform for each index of `dim`.

    >>> from autograd_gpu.distributions.transforms import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([ExpTransform(), identity_transform], dim=1)(ag.zeros(1, 2))
    tensor([[1., 0.]])
    """

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """The domains of the parts, stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """The codomains of the parts, stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        self._check_dim(x)
        if x.shape[self.dim] != len(self.transforms):
            raise AssertionError(f"Expected {len(self.transforms)} elements along dim {self.dim}, got "
                                 f"{x.shape[self.dim]}")  # fmt: skip
        return x.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return ops.stack([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.stack([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return ops.stack([t.log_abs_det_jacobian(part_x, part_y) for t, part_x, part_y in parts], self.dim)
