"""Constraints made of others: of several dimensions, of the parts of a tensor, of the components of a mixture."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..core.tensor import Tensor
from .constraint import Constraint


class _IndependentConstraint(Constraint):
    """`base_constraint` for each of the last `reinterpreted_batch_ndims` dimensions, which become event dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected base_constraint to be Constraint, got {type(base_constraint)}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(f"Expected reinterpreted_batch_ndims to be an int >= 0, got "
                                 f"{reinterpreted_batch_ndims!r}")  # fmt: skip
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        valid = self.base_constraint.check(value)
        dims = self.reinterpreted_batch_ndims
        if valid.ndim < dims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return valid.flatten(valid.ndim - dims).all(-1) if dims else valid

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values of a mixture: those of its components, which have one more batch dimension, the rightmost."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected base_constraint to be Constraint, got {type(base_constraint)}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        valid = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return valid.all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Parts(Constraint):
    """Constraints of the parts of a tensor along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all(isinstance(part, Constraint) for part in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(part.is_discrete for part in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        if not -value.ndim <= self.dim < value.ndim:
            raise AssertionError(f"Expected -{value.ndim} <= dim < {value.ndim}, got dim={self.dim}")


class _Cat(_Parts):
    """Parts of the given lengths (of length 1 by default) along `dim`, as `cat` joins them."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"Expected a length for each of {len(self.cseq)} constraints, got {self.lengths}")

    @property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = value.split(self.lengths, self.dim)
        return ops.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Parts):
    """A part for each index of `dim`, as `stack` joins them."""

    @property
    def event_dim(self) -> int:
        dim = max(part.event_dim for part in self.cseq)
        return dim + (self.dim + dim < 0)

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = value.unbind(self.dim)
        return ops.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)
