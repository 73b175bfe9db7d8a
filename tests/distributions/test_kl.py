"""register_kl and kl_divergence: which formula is taken. The formulas are compared in test_distributions_oracle.py."""

import math
import warnings
from typing import ClassVar

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributions as D
from autograd_gpu.distributions import (
    Distribution,
    Exponential,
    ExponentialFamily,
    Normal,
    kl,
    kl_divergence,
    register_kl,
)


@pytest.fixture
def table(monkeypatch):
    """The formulas registered in a test are forgotten after it."""
    monkeypatch.setattr(kl, "_KL_REGISTRY", dict(kl._KL_REGISTRY))
    monkeypatch.setattr(kl, "_KL_MEMOIZE", {})


class A(Distribution):
    arg_constraints: ClassVar = {}


class B(A):
    pass


class C(B):
    pass


def test_the_most_specific_classes_decide(table):
    register_kl(A, A)(lambda p, q: "AA")
    assert kl_divergence(C(), B()) == "AA"
    register_kl(B, A)(lambda p, q: "BA")  # also for pairs that were looked up before
    assert kl_divergence(C(), B()) == "BA"
    assert kl_divergence(A(), C()) == "AA"
    register_kl(B, B)(lambda p, q: "BB")
    assert kl_divergence(C(), B()) == "BB"
    assert kl_divergence(C(), A()) == "BA"
    register_kl(A, object)(lambda p, q: "A and anything")
    assert kl_divergence(A(), Normal(0.0, 1.0)) == "A and anything"


def test_the_first_argument_decides_if_they_disagree(table):
    torch = pytest.importorskip("torch")

    def classes(D):
        a = type("A", (D.Distribution,), {"arg_constraints": {}})
        b = type("B", (a,), {})
        D.register_kl(a, b)(lambda p, q: "AB")
        D.register_kl(b, a)(lambda p, q: "BA")
        return b()

    seen = []
    for m in (torch, ag):
        b = classes(m.distributions)
        with pytest.warns(RuntimeWarning) as caught:
            seen.append((m.distributions.kl_divergence(b, b), str(caught[0].message)))
    assert seen[1] == seen[0]
    assert seen[1][0] == "BA"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kl_divergence(b, b) == "BA"  # once


def test_no_formula(table):
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type A and q type Normal"):
        kl_divergence(A(), Normal(0.0, 1.0))
    for wrong in ((A, 3), ("A", A)):
        with pytest.raises(TypeError, match="to be a Distribution subclass"):
            register_kl(*wrong)


def test_exponential_families_have_a_divergence_without_a_formula(table):
    """By their log normalizer, as that of the class with a formula, with gradients."""
    del kl._KL_REGISTRY[Normal, Normal], kl._KL_REGISTRY[Exponential, Exponential]
    rows = (Normal, [0.5, 0.3], [-1.0, 2.0]), (Exponential, [0.5], [3.0])
    for cls, *parameters in rows:
        p, q = ([ag.tensor(x, dtype=ag.float64, requires_grad=True) for x in values] for values in parameters)
        result = kl_divergence(cls(*p), cls(*q))
        torch = pytest.importorskip("torch")
        theirs = [[torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in values] for values in parameters]
        expected = torch.distributions.kl_divergence(*(getattr(torch.distributions, cls.__name__)(*x) for x in theirs))
        assert result.item() == pytest.approx(expected.item())
        expected.backward()
        result.backward()
        assert [x.grad.item() for x in p + q] == pytest.approx([x.grad.item() for x in theirs[0] + theirs[1]])
        entropies = ExponentialFamily.entropy(cls(*p)), cls(*p).entropy()
        assert entropies[0].item() == pytest.approx(entropies[1].item())
        slopes = [ag.autograd.grad(entropy, p[-1])[0].item() for entropy in entropies]
        assert slopes[0] == pytest.approx(slopes[1])
        with ag.no_grad():
            assert not ExponentialFamily.entropy(cls(*p)).requires_grad
    with pytest.raises(NotImplementedError, match="different exponential families"):
        kl._KL_REGISTRY[ExponentialFamily, ExponentialFamily](cls(*p), Normal(0.0, 1.0))


def of_trials(n, p):
    return D.Binomial(n, ag.tensor(p))


FAR = [  # p, q, KL(p || q) where parts of it overflow or are 0 * inf or inf - inf
    (D.Normal(-2000.0, 1.0), D.Gumbel(-2000.0, 1.0), math.exp(0.5) - 0.5 - 0.5 * math.log(2 * math.pi)),
    (D.Uniform(2000.0, 2001.0), D.Gumbel(2000.0, 1.0), 1.5 - math.exp(-1)),
    (D.Exponential(1e30), D.Gumbel(-100.0, 1.0), 30 * math.log(10) - 1 + 100),
    (D.Gamma(1000.0, 1.0), D.Gumbel(600.0, 1.0), 400 - 4.872476),
    (D.Normal(0.0, 1e-30), D.Normal(0.0, 1.0), 30 * math.log(10) - 0.5),
    (D.Laplace(0.0, 1e20), D.Normal(0.0, 1e20), 0.5 * math.log(2 * math.pi) - math.log(2)),
    (D.Normal(1.0, 1e-38), D.Laplace(-100.0, 1.0), 101 + math.log(2) - 0.5 - 0.5 * math.log(2 * math.pi) + 87.498234),
    (D.Cauchy(0.0, 1e25), D.Cauchy(0.0, 1e25), 0.0),
    (D.Poisson(0.0), D.Poisson(2.0), 2.0),
    (D.Poisson(2.0), D.Poisson(0.0), math.inf),
    (D.Bernoulli(0.0), D.Poisson(0.0), 0.0),
    (D.Geometric(1.0), D.Geometric(1.0), 0.0),
    (D.Geometric(0.5), D.Geometric(1.0), math.inf),
    (of_trials(3, 1.0), of_trials(3, 1.0), 0.0),
    (of_trials(3, 1.0), of_trials(3, 0.5), 3 * math.log(2)),
    (of_trials(0, 0.5), of_trials(0, 1.0), 0.0),
]


@np.errstate(all="ignore")
def test_parts_that_overflow_cancel():
    for p, q, expected in FAR:
        assert kl_divergence(p, q).item() == pytest.approx(expected, rel=1e-5, abs=1e-5), f"KL({p} || {q})"


def test_large_parameters_in_float32():
    """Logarithms of gamma functions cancel before they are rounded."""
    torch = pytest.importorskip("torch")
    calls = {
        "t": lambda d, t: d.StudentT(t(1e6)).entropy(),
        "t, density": lambda d, t: d.StudentT(t(1e8)).log_prob(t(1.0)),
        "gamma": lambda d, t: d.Gamma(t(1e6), t(2.0)).entropy(),
        "inverse gamma": lambda d, t: d.InverseGamma(t(1e6), t(2.0)).entropy(),
        "beta": lambda d, t: d.Beta(t(1e6), t([2.0, 1e6, 0.5])).entropy(),
        "Dirichlet": lambda d, t: d.Dirichlet(t([0.5, 1e6, 3.0])).entropy(),
        "Dirichlets": lambda d, t: d.kl_divergence(d.Dirichlet(t([1e6, 2.0, 3.0])), d.Dirichlet(t([1e6, 2.0, 4.0]))),
        "gammas": lambda d, t: d.kl_divergence(d.Gamma(t(1e6), t(2.0)), d.Gamma(t(1.001e6), t(2.0))),
        "binomial": lambda d, t: d.Binomial(1000000, t(1e-6)).log_prob(t([0.0, 1.0, 4.0])),
        "negative binomial": lambda d, t: d.NegativeBinomial(t(1e6), t(1e-6)).log_prob(t([0.0, 1.0, 4.0])),
    }  # fmt: skip
    for name, call in calls.items():
        result = call(D, lambda x: ag.tensor(x, dtype=ag.float32))
        expected = call(torch.distributions, lambda x: torch.tensor(x, dtype=torch.float64))
        np.testing.assert_allclose(result.tolist(), expected.tolist(), rtol=2e-4, err_msg=name)
