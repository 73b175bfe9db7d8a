"""Constraints: the sets in which the parameters and the values of distributions lie.

A constraint has `check(value)`, which is true for each event inside of the set; `is_discrete`; and `event_dim`, the
number of rightmost dimensions that make one event. `biject_to` and `transform_to` map all of space into one.

>>> from autograd_gpu.distributions import constraints
>>> constraints.positive.check(ag.tensor([1.0, -1.0]))
tensor([ True, False])
>>> constraints.interval(0.0, 2.0)
Interval(lower_bound=0.0, upper_bound=2.0)
"""

from __future__ import annotations

from typing import Any

from .. import linalg, ops
from ..backend.arrays.dtype_limits import finfo
from ..core.tensor import Tensor
from .composed_constraints import MixtureSameFamilyConstraint, _Cat, _IndependentConstraint, _Stack
from .constraint import Constraint, _Dependent, _DependentProperty, is_dependent
from .utils import holds_everywhere

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


# ---- of numbers --------------------------------------------------------------------------------------------------


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    """Any number but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value  # NaN is not equal to itself


class _Bounded(Constraint):
    """Prints its bounds."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__[1:]}({bounds})"


class _LowerBounded(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _UpperBounded(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _BoundedOnBothSides(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


class _GreaterThan(_LowerBounded):
    """(lower_bound, inf]"""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_LowerBounded):
    """[lower_bound, inf]"""

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_UpperBounded):
    """[-inf, upper_bound)"""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_BoundedOnBothSides):
    """[lower_bound, upper_bound]"""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_BoundedOnBothSides):
    """[lower_bound, upper_bound)"""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


def _is_integer(value: Tensor) -> Tensor:
    return (ops.floor(value) == value) & ops.isfinite(value)


class _IntegerInterval(_BoundedOnBothSides):
    """The integers of [lower_bound, upper_bound]."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_integer(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_UpperBounded):
    """The integers of (-inf, upper_bound]."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_integer(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_LowerBounded):
    """The integers of [lower_bound, inf)."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_integer(value) & (value >= self.lower_bound)


# ---- of vectors --------------------------------------------------------------------------------------------------


class _OneHot(Constraint):
    """Vectors with one 1, and else 0."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers with the sum 1, up to rounding."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of nonnegative integers with at most the sum `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ---- of matrices -------------------------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangular matrices with a positive diagonal and rows of length 1."""

    def check(self, value: Tensor) -> Tensor:
        tolerance = 10 * value.shape[-1] * finfo(value.dtype).eps
        return super().check(value) & ((value.square().sum(-1) - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        square = value.shape[-2] == value.shape[-1]
        return ops.full(value.shape[:-2], square, dtype=bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, up to rounding."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not holds_everywhere(square):
            return square
        return ops.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return (linalg.eigvalsh(value) >= 0).all(-1) if holds_everywhere(symmetric) else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return linalg.cholesky_ex(value).info == 0 if holds_everywhere(symmetric) else symmetric


# ---- public names ------------------------------------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
