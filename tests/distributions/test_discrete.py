"""Distributions of integers and of one-hot vectors: what the rows of distribution_rows do not say."""

import numpy as np
import pytest
from distribution_rows import ROWS
from distributions_beside_torch import refusal

import autograd_gpu as ag
from autograd_gpu import distributions as D

ENUMERATED = [row for row in ROWS if row.build(ag).has_enumerate_support]


@pytest.mark.parametrize("row", ENUMERATED, ids=str)
def test_enumerate_support(row, device):
    torch = pytest.importorskip("torch")
    mine, other = row.build(ag), row.build(torch)
    for expand in (False, True):
        try:
            expected = other.enumerate_support(expand=expand)
        except NotImplementedError as error:
            with pytest.raises(NotImplementedError, match=str(error)):
                mine.enumerate_support(expand=expand)
            continue
        result = mine.enumerate_support(expand=expand)
        assert (result.shape, str(result.dtype)) == (tuple(expected.shape), str(expected.dtype)[6:])
        assert result.tolist() == expected.tolist()
        np.testing.assert_allclose(mine.log_prob(result).exp().sum(0).tolist(), np.ones(mine.batch_shape))


NAMES = ("Bernoulli", "Geometric", "Categorical", "OneHotCategorical", "Multinomial", "Binomial")


@pytest.mark.parametrize("name", NAMES)
def test_exactly_one_of_probs_and_logits(name):
    torch = pytest.importorskip("torch")
    for parameters in ({}, {"probs": [0.5, 0.5], "logits": [0.0, 0.0]}):
        texts = [
            refusal(lambda m=m: getattr(m.distributions, name)(**{k: m.tensor(v) for k, v in parameters.items()}))  # noqa: B023
            for m in (torch, ag)
        ]
        assert texts[0] == texts[1] is not None


def test_logits_and_probs_follow_from_each_other(device):
    """At their first use; extreme logits keep their probability."""
    d = D.Bernoulli(logits=ag.tensor([0.0, 200.0, -200.0], device=device))
    assert "probs" not in vars(d)
    np.testing.assert_allclose(d.probs.tolist(), [0.5, 1, 0], atol=1e-30)
    assert d.probs is d.probs
    assert d.log_prob(ag.tensor([0.0, 1.0, 1.0], device=device)).tolist() == pytest.approx([np.log(0.5), 0, -200])
    d = D.Categorical(probs=ag.tensor([2.0, 6.0], device=device))
    np.testing.assert_allclose(d.logits.exp().tolist(), [0.25, 0.75], rtol=1e-6)
    assert d.param_shape == (2,)


def test_numbers_as_parameters():
    assert D.Bernoulli(True).probs.dtype == ag.float32
    assert D.Bernoulli(0.25).sample((3,)).shape == (3,)
    assert D.Poisson(3).sample().dtype == ag.float32
    assert D.Binomial(3, probs=ag.tensor(0.5, dtype=ag.float64)).total_count.dtype == ag.float64
    with pytest.raises(NotImplementedError, match="inhomogeneous total_count is not supported"):
        D.Multinomial(ag.tensor([3, 2]), ag.tensor([0.5, 0.5]))


@np.errstate(all="ignore")
def test_ends_of_parameters(device):
    """Certain outcomes have log-probability 0, and impossible ones -inf."""
    def logs(d, *values):
        return d.log_prob(ag.tensor(values, device=device)).tolist()

    one = ag.tensor(1.0, device=device)
    assert logs(D.Geometric(one), 0.0, 1.0) == [0, -np.inf]
    assert logs(D.Poisson(one * 0), 0.0, 1.0) == [0, -np.inf]
    assert logs(D.NegativeBinomial(one * 0, one / 2), 0.0) == [0]
    assert logs(D.Multinomial(2, logits=ag.tensor([0.0, -np.inf], device=device), validate_args=False), 2.0, 0.0) == 0
    assert D.Geometric(one).sample((5,)).tolist() == [0] * 5
    assert D.Categorical(ag.tensor([0.0, 1.0, 0.0], device=device)).sample((5,)).tolist() == [1] * 5


def test_counts_of_multinomial_samples(device):
    ag.manual_seed(2)
    d = D.Multinomial(7, ag.tensor([[0.2, 0.8], [1.0, 0.0]], device=device))
    drawn = d.sample((4, 5))
    assert (drawn.sum(-1) == 7).all()
    assert (drawn[:, :, 1, 0] == 7).all()
    assert d.expand((3, 2)).sample().shape == (3, 2, 2)


def test_straight_through(device):
    """The sample is one-hot, its gradient that of probs, here d(w . softmax) / dlogits."""
    logits = ag.tensor([0.3, -1.0, 0.5], dtype=ag.float64, device=device, requires_grad=True)
    weights = ag.tensor([1.0, 2.0, -1.0], dtype=ag.float64, device=device)
    drawn = D.OneHotCategoricalStraightThrough(logits=logits).rsample((6,))
    np.testing.assert_allclose(drawn.detach().sort(-1).values.tolist(), [[0, 0, 1]] * 6, atol=1e-15)
    (gradient,) = ag.autograd.grad((drawn * weights).sum(), logits)
    (expected,) = ag.autograd.grad(6 * (ag.softmax(logits, -1) * weights).sum(), logits)
    np.testing.assert_allclose(gradient.tolist(), expected.tolist())


SAMPLED = {
    "Bernoulli": lambda p: D.Bernoulli(p),
    "Geometric": lambda p: D.Geometric(p),
    "Poisson": lambda p: D.Poisson(p * 40),
    "Binomial": lambda p: D.Binomial(60, p),
    "NegativeBinomial": lambda p: D.NegativeBinomial(5.0, p),
    "Categorical": lambda p: D.Categorical(p.unsqueeze(-1).expand(*p.shape, 40)),
    "Gamma": lambda p: D.Gamma(p, p),
    "Beta": lambda p: D.Beta(p, p),
    "StudentT": lambda p: D.StudentT(p),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_under_vmap(name, device):
    """Examples draw different numbers, or are refused, as `randomness` says."""
    p = ag.full((2, 20), 0.5, device=device)

    def draw(p):
        return SAMPLED[name](p).sample()

    ag.manual_seed(4)
    drawn = ag.func.vmap(draw, randomness="different")(p)
    assert drawn.shape == (2, 20)
    assert (drawn[0] != drawn[1]).any()
    with pytest.raises(RuntimeError, match="randomness"):
        ag.func.vmap(draw)(p)


def test_scores_of_samples(device):
    """The gradient of log_prob at samples, as policy gradients use it: its mean is zero."""
    ag.manual_seed(0)
    logits = ag.tensor([0.3, -1.0, 0.5], dtype=ag.float64, device=device, requires_grad=True)
    d = D.Categorical(logits=logits)
    actions = d.sample((20000,))
    assert not actions.requires_grad
    assert actions.dtype == ag.int64
    (score,) = ag.autograd.grad(d.log_prob(actions).mean(), logits)
    np.testing.assert_allclose(score.tolist(), [0, 0, 0], atol=0.02)


def test_divergence_of_fewer_trials_is_refused():
    p, q = (D.Binomial(ag.tensor([n, 4]), ag.tensor([0.5, 0.5])) for n in (3, 5))
    with pytest.raises(NotImplementedError, match=r"q\.total_count > p\.total_count is not implemented"):
        D.kl_divergence(p, q)
    assert D.kl_divergence(q, p).tolist() == [np.inf, 0]
