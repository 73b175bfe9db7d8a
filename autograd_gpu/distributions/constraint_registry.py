"""biject_to and transform_to: for each constraint a transform from unconstrained space into it.

>>> from autograd_gpu.distributions import constraints, transform_to
>>> raw = ag.zeros(2, requires_grad=True)
>>> transform_to(constraints.interval(1.0, 3.0))(raw)
tensor([2., 2.], grad_fn=<AddBackward0>)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints
from .composed_constraints import _Cat, _IndependentConstraint, _Stack
from .constraint import Constraint
from .transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

Factory = Callable[[Any], Transform]

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Factories of transforms by the class of a constraint; a call looks one up and makes the transform.

    >>> from autograd_gpu.distributions import biject_to, constraints
    >>> biject_to(constraints.unit_interval)
    SigmoidTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Constraint | type[Constraint], factory: Factory | None = None) -> Any:
        """Registers `factory`, a function of the constraint, for a class; without it, decorates one.

        An object stands for its class. TypeError for what is not a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {kind}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """A transform from unconstrained space to `constraint`; NotImplementedError if none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Constraint | type[Constraint]) -> Callable[[Factory], Factory]:
    """Registers the decorated factory in both registries."""

    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _real(constraint: Constraint) -> Transform:
    return identity_transform


@_both(constraints.greater_than, constraints.greater_than_eq)
def _above(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


@_both(constraints.less_than)
def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval, constraints.half_open_interval)
def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


@_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Constraint) -> Transform:
    return CorrCholeskyTransform()


@biject_to.register(constraints.simplex)
def _simplex_biject(constraint: Constraint) -> Transform:
    return StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _simplex(constraint: Constraint) -> Transform:
    return SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint: Constraint) -> Transform:
    return LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _positive_definite(constraint: Constraint) -> Transform:
    return PositiveDefiniteTransform()


def _register_composed(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others get the transforms of these."""

    @registry.register(_IndependentConstraint)
    def independent(constraint: Any) -> Transform:
        return IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @registry.register(_Cat)
    def cat(constraint: Any) -> Transform:
        return CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(_Stack)
    def stack(constraint: Any) -> Transform:
        return StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_register_composed(biject_to)
_register_composed(transform_to)
