"""Constraints beside PyTorch's: what they accept, how they print, their event dimensions, and transforms into them."""

from typing import ClassVar

import numpy as np
import pytest
from distributions_beside_torch import assert_close, numpy, plain

import autograd_gpu as ag
from autograd_gpu import distributions as D
from autograd_gpu.distributions import constraints as C

NAN, INF = float("nan"), float("inf")
NUMBERS = [-INF, -1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 3.5, INF, NAN]
VECTORS = [[0.2, 0.3, 0.5], [0.2, 0.3, 0.4], [-0.2, 0.7, 0.5], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [2.0, 1.0, 1.0],
           [NAN, 0.0, 1.0]]  # fmt: skip
MATRICES = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, -0.8]],
            [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]  # fmt: skip
SYMMETRIC = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]
WIDE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

# text of the constraint, with c for the module and t for `tensor`; values
CASES = [
    *((name, NUMBERS) for name in ("c.real", "c.positive", "c.nonnegative", "c.unit_interval", "c.boolean",
                                   "c.nonnegative_integer", "c.positive_integer", "c.integer_interval(-1, 2)",
                                   "c.greater_than(0.5)", "c.greater_than_eq(0.5)", "c.less_than(1)",
                                   "c.interval(-1.0, 2.0)", "c.half_open_interval(-1.0, 2.0)")),
    ("c.greater_than(t([0.0, 1.0]))", [[0.5, 0.5], [2.0, 2.0]]),
    ("c.interval(t([0.0, 1.0]), t([1.0, 2.0]))", [[0.5, 0.5], [1.0, 2.0]]),
    *((name, VECTORS) for name in ("c.simplex", "c.one_hot", "c.real_vector", "c.multinomial(2)",
                                   "c.independent(c.positive, 1)", "c.MixtureSameFamilyConstraint(c.unit_interval)",
                                   "c.cat([c.positive, c.unit_interval], dim=-1, lengths=[1, 2])",
                                   "c.stack([c.positive, c.unit_interval, c.boolean], dim=-1)")),
    *((name, MATRICES) for name in ("c.lower_triangular", "c.lower_cholesky", "c.corr_cholesky", "c.square",
                                    "c.symmetric", "c.independent(c.real, 2)", "c.independent(c.simplex, 1)")),
    *((name, SYMMETRIC) for name in ("c.positive_definite", "c.positive_semidefinite")),
    *((name, MATRICES) for name in ("c.positive_definite", "c.positive_semidefinite")),
    *((name, WIDE) for name in ("c.square", "c.symmetric", "c.positive_definite", "c.lower_triangular")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values"), CASES)
def test_like_pytorch(text, values, device):
    torch = pytest.importorskip("torch")
    theirs, ours = (eval(text, {"c": m.distributions.constraints, "t": m.tensor}) for m in (torch, ag))
    expected, result = theirs.check(torch.tensor(values)), ours.check(ag.tensor(values))
    assert (numpy(result).tolist(), result.dtype) == (expected.tolist(), ag.bool)
    assert plain(repr(ours)) == plain(repr(theirs))
    assert (ours.is_discrete, ours.event_dim) == (theirs.is_discrete, theirs.event_dim)


@pytest.mark.parametrize("text", dict.fromkeys(text for text, _ in CASES))
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries_like_pytorch(registry, text, device):
    """The same transforms, which map numbers into the set."""
    torch = pytest.importorskip("torch")
    seen = []
    for m in (torch, ag):
        constraint = eval(text, {"c": m.distributions.constraints, "t": m.tensor})
        try:
            transform = getattr(m.distributions, registry)(constraint)
        except NotImplementedError as error:
            seen.append(str(error))
            continue
        x = m.tensor(np.random.default_rng(0).normal(size=(3, 3)))
        x = x[:2, :2] if "(t(" in text else x
        y = transform(x)
        assert numpy(constraint.check(y)).all()
        seen.append((plain(repr(transform)), y))
    if isinstance(seen[0], str):
        assert seen[1] == seen[0]
        return
    assert seen[1][0] == seen[0][0]
    assert_close(seen[1][1], seen[0][1], text)


def test_registry():
    class Even(C.Constraint):
        pass

    registry = D.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def even(constraint):
        return D.AffineTransform(0.0, 2.0)

    registry.register(C.real, lambda constraint: D.identity_transform)
    assert registry(Even()) == even(None)
    assert registry(C.real) is D.identity_transform
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        registry.register(int, even)
    with pytest.raises(NotImplementedError, match="Cannot transform _Dependent constraints"):
        D.transform_to(C.dependent)


class TestDependent:
    def test_says_what_it_knows(self):
        known = C.dependent(is_discrete=True)(event_dim=1)
        assert (known.is_discrete, known.event_dim) == (True, 1)
        for name in ("is_discrete", "event_dim"):
            with pytest.raises(NotImplementedError, match=f".{name} cannot be determined statically"):
                getattr(C.dependent, name)
        with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
            C.dependent.check(ag.ones(2))

    def test_property_of_a_class_and_of_its_instance(self):
        class Bounded(D.Distribution):
            arg_constraints: ClassVar = {}

            @C.dependent_property(is_discrete=False, event_dim=0)
            def support(self):
                return C.interval(0.0, 2.0)

            @C.dependent_property
            def other(self):
                return C.real

        assert C.is_dependent(Bounded.support)
        assert (Bounded.support.is_discrete, Bounded.support.event_dim) == (False, 0)
        assert C.is_dependent(Bounded.other)
        assert not C.is_dependent(Bounded().support)
        assert repr(Bounded().support) == "Interval(lower_bound=0.0, upper_bound=2.0)"
        assert Bounded().other is C.real


def test_refusals():
    with pytest.raises(NotImplementedError):
        C.Constraint().check(ag.ones(2))
    with pytest.raises(ValueError, match=r"Expected value.dim\(\) >= 1 but got 0"):
        C.real_vector.check(ag.tensor(1.0))
    with pytest.raises(ValueError, match=r"Expected value.dim\(\) >= 1 but got 0"):
        C.MixtureSameFamilyConstraint(C.simplex).check(ag.tensor(1.0))
    for make in (lambda: C.independent(3, 1), lambda: C.independent(C.real, -1), lambda: C.cat([3]),
                 lambda: C.cat([C.real], lengths=[1, 2]), lambda: C.stack([3]),
                 lambda: C.MixtureSameFamilyConstraint(3),
                 lambda: C.stack([C.real], dim=1).check(ag.ones(1))):  # fmt: skip
        with pytest.raises(AssertionError):
            make()


def test_all_examples_of_a_batch_are_checked():
    """Under vmap a constraint that asks for values looks at all of them."""
    matrices = ag.tensor(SYMMETRIC)
    assert ag.func.vmap(C.positive_definite.check)(matrices).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="Expected parameter scale"):
        ag.func.vmap(lambda scale: D.Normal(0.0, scale).mean)(ag.tensor([1.0, -1.0]))
