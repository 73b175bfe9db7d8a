"""register_kl and kl_divergence: which formula is taken. The formulas are compared in test_distributions_oracle.py."""

import warnings
from typing import ClassVar

import pytest

import autograd_gpu as ag
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
    monkeypatch.setattr(kl, "_REGISTRY", dict(kl._REGISTRY))
    monkeypatch.setattr(kl, "_FOUND", {})


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


def test_the_first_argument_decides_if_they_disagree(table):
    torch = pytest.importorskip("torch")

    def classes(D):
        a = type("A", (D.Distribution,), {"arg_constraints": {}})
        b = type("B", (a,), {})
        D.register_kl(a, b)(lambda p, q: "AB")
        D.register_kl(b, a)(lambda p, q: "BA")
        return b()

    found = []
    for m in (torch, ag):
        b = classes(m.distributions)
        with pytest.warns(RuntimeWarning) as caught:
            found.append((m.distributions.kl_divergence(b, b), str(caught[0].message)))
    assert found[1] == found[0]
    assert found[1][0] == "BA"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kl_divergence(b, b) == "BA"  # once


def test_no_formula(table):
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type A and q type Normal"):
        kl_divergence(A(), Normal(0.0, 1.0))
    for wrong in ((A, 3), (int, A)):
        with pytest.raises(TypeError, match="to be a Distribution subclass"):
            register_kl(*wrong)


def test_exponential_families_have_a_divergence_without_a_formula(table):
    """By their log normalizer, as that of the class with a formula, with gradients."""
    del kl._REGISTRY[Normal, Normal], kl._REGISTRY[Exponential, Exponential]
    rows = (Normal, [0.5, 0.3], [-1.0, 2.0]), (Exponential, [0.5], [3.0])
    for cls, *parameters in rows:
        p, q = ([ag.tensor(x, dtype=ag.float64, requires_grad=True) for x in given] for given in parameters)
        found = kl_divergence(cls(*p), cls(*q))
        torch = pytest.importorskip("torch")
        theirs = [[torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in given] for given in parameters]
        expected = torch.distributions.kl_divergence(*(getattr(torch.distributions, cls.__name__)(*x) for x in theirs))
        assert found.item() == pytest.approx(expected.item())
        expected.backward()
        found.backward()
        assert [x.grad.item() for x in p + q] == pytest.approx([x.grad.item() for x in theirs[0] + theirs[1]])
        entropies = ExponentialFamily.entropy(cls(*p)), cls(*p).entropy()
        assert entropies[0].item() == pytest.approx(entropies[1].item())
        slopes = [ag.autograd.grad(entropy, p[-1])[0].item() for entropy in entropies]
        assert slopes[0] == pytest.approx(slopes[1])
        with ag.no_grad():
            assert not ExponentialFamily.entropy(cls(*p)).requires_grad
    with pytest.raises(NotImplementedError, match="different exponential families"):
        kl._REGISTRY[ExponentialFamily, ExponentialFamily](cls(*p), Normal(0.0, 1.0))
