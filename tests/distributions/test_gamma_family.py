"""Distributions made of gamma-distributed numbers, relaxed ones and mixtures: what the rows do not say."""

import numpy as np
import pytest
from distributions_beside_torch import refusal
from scipy import stats

import autograd_gpu as ag
from autograd_gpu import distributions as D

MANY = 20000


def double(values, device="cpu", requires_grad=False):
    return ag.tensor(values, dtype=ag.float64, device=device, requires_grad=requires_grad)


def test_cdf_of_gamma(device):
    """PyTorch has its values, but no gradient by the concentration, so the rows compare nothing."""
    x = np.array([0.1, 2.0])
    d = D.Gamma(double([0.5, 3.0], device), double([2.0, 0.7], device))
    expected = stats.gamma([0.5, 3.0], scale=[1 / 2, 1 / 0.7])
    np.testing.assert_allclose(d.cdf(double(x, device)).tolist(), expected.cdf(x))
    inverse = D.InverseGamma(d.concentration, d.rate)
    np.testing.assert_allclose(inverse.cdf(double(x, device)).tolist(), expected.sf(1 / x))


def test_cdf_of_a_mixture(device):
    d = D.MixtureSameFamily(D.Categorical(double([0.2, 0.8], device)), D.Normal(double([0.0, 3.0], device), 1.0))
    expected = 0.2 * stats.norm.cdf([0, 1]) + 0.8 * stats.norm(3).cdf([0, 1])
    np.testing.assert_allclose(d.cdf(double([0.0, 1.0], device)).tolist(), expected)


MOMENTS = {  # of parameters a, b: the distribution, E[f(x)] and f
    "Gamma": (D.Gamma, lambda a, b: a * (a + 1) / b**2, lambda x: x**2),
    "Beta": (D.Beta, lambda a, b: a * (a + 1) / ((a + b) * (a + b + 1)), lambda x: x**2),
    "InverseGamma": (D.InverseGamma, lambda a, b: a / b, lambda x: 1 / x),
    "StudentT": (lambda a, b: D.StudentT(9 + a, 0.0, b), lambda a, b: b**2 * (9 + a) / (7 + a), lambda x: x**2),
    "Chi2": (lambda a, b: D.Chi2(a * b), lambda a, b: a * b * (a * b + 2), lambda x: x**2),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_gradient_of_samples_is_that_of_their_expectation(name, device):
    make, moment, f = MOMENTS[name]
    ag.manual_seed(1)
    a, b = double(1.3, device, True), double(2.5, device, True)
    grads = ag.autograd.grad(f(make(a, b).rsample((MANY,))).mean(), (a, b))
    expected = ag.autograd.grad(moment(a, b), (a, b))
    np.testing.assert_allclose([g.item() for g in grads], [g.item() for g in expected], rtol=0.1)


def test_gradient_of_gamma_samples_at_a_fixed_quantile(device):
    """By central differences of the inverse distribution function, for shape and rate."""
    a, rate = double([0.3, 4.0, 250.0], device, True), double([2.0, 0.5, 3.0], device, True)
    ag.manual_seed(5)
    x = D.Gamma(a, rate).rsample()
    grads = ag.autograd.grad(x.sum(), (a, rate))
    value, shape, scale = x.detach().cpu().numpy(), a.detach().cpu().numpy(), 1 / rate.detach().cpu().numpy()
    quantile, step = stats.gamma(shape, scale=scale).cdf(value), 1e-5
    ends = [stats.gamma(shape * (1 + s), scale=scale).ppf(quantile) for s in (step, -step)]
    np.testing.assert_allclose(grads[0].tolist(), (ends[0] - ends[1]) / (2 * step * shape), rtol=1e-5)
    np.testing.assert_allclose(grads[1].tolist(), -value * scale, rtol=1e-12)


@np.errstate(all="ignore")
def test_infinite_and_missing_moments():
    d = D.StudentT(ag.tensor([0.5, 1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(d.mean.tolist(), [np.nan, np.nan, 0, 0])
    np.testing.assert_array_equal(d.variance.tolist(), [np.nan, np.nan, np.inf, 3])
    d = D.InverseGamma(ag.tensor([0.5, 1.0, 2.0, 3.0]), 2.0)
    assert d.mean.tolist() == [np.inf, np.inf, 2, 1]
    assert d.variance.tolist() == [np.inf, np.inf, np.inf, 1]


def test_samples_of_small_concentrations(device):
    ag.manual_seed(0)
    for d in (D.Beta(1e-4, 1e-4), D.Dirichlet(ag.full((3,), 1e-4, device=device))):
        assert d.sample((200,)).isfinite().all()
    drawn = D.Gamma(ag.full((200,), 1e-4, device=device), 10.0).sample()
    assert (drawn > 0).all()


@pytest.mark.parametrize("temperature", [0.3, 1.5])
def test_relaxed_samples(temperature, device):
    """The larger one is category i with the probability of i, at every temperature; samples have gradients."""
    ag.manual_seed(2)
    probs = double([0.2, 0.5, 0.3], device, True)
    drawn = D.RelaxedOneHotCategorical(double(temperature, device), probs).rsample((MANY,))
    counts = np.bincount(drawn.argmax(-1).tolist(), minlength=3)
    assert stats.chisquare(counts, np.array([0.2, 0.5, 0.3]) * MANY).pvalue > 1e-3
    assert ag.autograd.grad(drawn[:, 0].mean(), probs)[0][0] > 0
    p = double(0.3, device, True)
    drawn = D.RelaxedBernoulli(double(temperature, device), p).rsample((MANY,))
    assert stats.binomtest(int((drawn > 0.5).sum()), MANY, 0.3).pvalue > 1e-3
    logistic = stats.logistic(np.log(0.3 / 0.7) / temperature, 1 / temperature)
    assert stats.kstest(drawn.logit().tolist(), logistic.cdf).pvalue > 1e-3
    assert ag.autograd.grad(drawn.mean(), p)[0] > 0


def test_shared_weights_of_a_mixture_draw_independently():
    ag.manual_seed(0)
    far = D.Normal(ag.tensor([-100.0, 100.0]).expand(500, 2), 1.0)
    drawn = D.MixtureSameFamily(D.Categorical(ag.tensor([0.5, 0.5])), far).sample()
    assert 150 < (drawn > 0).sum() < 350


def mixtures(m):
    """Parts that make no mixture."""
    d, weights = m.distributions, m.tensor([0.5, 0.5])
    return [
        lambda: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)),
        lambda: d.MixtureSameFamily(d.Categorical(weights), 3),
        lambda: d.MixtureSameFamily(d.Categorical(weights), d.Normal(m.zeros(3), 1.0)),
        lambda: d.MixtureSameFamily(d.Categorical(m.ones(3, 2)), d.Normal(m.zeros(4, 2), 1.0)),
    ]


def test_parts_that_make_no_mixture_are_refused():
    torch = pytest.importorskip("torch")
    for mine, other in zip(mixtures(ag), mixtures(torch), strict=True):
        assert refusal(mine) == refusal(other) is not None


def test_mixture_is_trained(device):
    """By the gradient of its likelihood, towards the two values that the data have."""
    data = double([-2.0, -2.0, 3.0, 3.0, 3.0, 3.0], device)
    raw = double([0.0, 0.0], device, True)
    loc = double([-1.0, 1.0], device, True)
    optimizer = ag.optim.Adam([raw, loc], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        d = D.MixtureSameFamily(D.Categorical(logits=raw), D.Normal(loc, 1.0))
        (-d.log_prob(data).sum()).backward()
        optimizer.step()
    np.testing.assert_allclose(loc.tolist(), [-2, 3], atol=0.1)
    np.testing.assert_allclose(raw.softmax(-1).tolist(), [1 / 3, 2 / 3], atol=0.05)
