"""Gamma- and Dirichlet-distributed numbers: whether they are, and their gradients."""

import numpy as np
import pytest
from scipy import special, stats

import autograd_gpu as ag
from autograd_gpu.ops.random.gamma_samples import random_log_gamma

ALPHAS = [0.02, 0.3, 1.0, 4.5, 130.0, 3e4]


def of_quantile(alpha, q, z):
    """dz/dalpha by central differences of the inverse distribution function; of the upper tail beyond the middle."""
    step = 1e-6 * alpha
    if q > 0.5:
        inverse, tail = special.gammainccinv, special.gammaincc(alpha, z)
    else:
        inverse, tail = special.gammaincinv, special.gammainc(alpha, z)
    return (inverse(alpha + step, tail) - inverse(alpha - step, tail)) / (2 * step)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_gradient_at_a_fixed_quantile(alpha, device):
    quantiles = np.array([1e-3, 0.1, 0.5, 0.9, 1 - 1e-3])
    z = np.maximum(special.gammaincinv(alpha, quantiles), 1e-300)
    expected = [of_quantile(alpha, *probability) for probability in zip(quantiles, z, strict=True)]
    result = ag._standard_gamma_grad(ag.full((5,), alpha, dtype=ag.float64, device=device), ag.tensor(z, device=device))
    np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-6, atol=1e-290)
    single = ag._standard_gamma_grad(ag.full((5,), alpha, device=device), ag.tensor(z, device=device).float())
    visible = z > 1e-30  # float32 cannot hold the others
    np.testing.assert_allclose(single.cpu().numpy()[visible], np.array(expected)[visible], rtol=1e-5)


def test_gradient_is_about_that_of_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    alpha = 10 ** rng.uniform(-2, 4, 1000)
    z = rng.gamma(alpha) + 1e-30
    theirs = torch._standard_gamma_grad(torch.tensor(alpha), torch.tensor(z)).numpy()
    np.testing.assert_allclose(ag._standard_gamma_grad(ag.tensor(alpha), ag.tensor(z)).tolist(), theirs, rtol=2e-3)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_samples_are_gamma_distributed(alpha, device):
    ag.manual_seed(3)
    parameter = ag.full((4000,), alpha, dtype=ag.float64, device=device)
    for drawn in (ag._standard_gamma(parameter), random_log_gamma(parameter).exp()):
        assert stats.kstest(drawn.cpu().numpy(), stats.gamma(alpha).cdf).pvalue > 1e-3


def test_gradients_of_samples(device):
    """Those of the formula, at the numbers drawn; the logarithms of small numbers have gradients, too."""
    alpha = ag.tensor([1e-4, 0.3, 2.0, 500.0], dtype=ag.float64, device=device, requires_grad=True)
    drawn = ag._standard_gamma(alpha)
    (gradient,) = ag.autograd.grad(drawn.sum(), alpha)
    assert (gradient == ag._standard_gamma_grad(alpha.detach(), drawn.detach())).all()
    logs = random_log_gamma(alpha)
    (gradient,) = ag.autograd.grad(logs.sum(), alpha)
    small = -(logs[0] - special.digamma(1 + 1e-4)) / 1e-4
    assert gradient.isfinite().all()
    np.testing.assert_allclose(gradient[0].item(), small.item(), rtol=1e-6)
    np.testing.assert_allclose(ag.func.jvp(ag._standard_gamma, (alpha,), (ag.zeros_like(alpha),))[1].tolist(), [0] * 4)


def test_gradient_of_a_mean_is_the_mean_of_gradients(device):
    """E z = alpha and E log z = digamma(alpha), of Dirichlet-distributed vectors E x = alpha / sum(alpha)."""
    ag.manual_seed(0)
    alpha = ag.tensor([0.4, 3.0], dtype=ag.float64, device=device, requires_grad=True)
    many = alpha.expand(20000, 2)
    drawn = ag._standard_gamma(many)
    np.testing.assert_allclose(ag.autograd.grad(drawn.mean(0).sum(), alpha)[0].tolist(), [1, 1], rtol=0.03)
    slopes = special.polygamma(1, [0.4, 3.0])
    grads = ag.autograd.grad(random_log_gamma(many).mean(0).sum(), alpha)[0].tolist()
    np.testing.assert_allclose(grads, slopes, rtol=0.03)
    grads = ag.autograd.grad(ag._sample_dirichlet(many)[:, 0].mean(), alpha)[0].tolist()
    np.testing.assert_allclose(grads, [3 / 3.4**2, -0.4 / 3.4**2], rtol=0.05)


def test_dirichlet_distributed_vectors(device):
    ag.manual_seed(12)
    concentration = np.array([0.5, 1.0, 4.0])
    drawn = ag._sample_dirichlet(ag.tensor(concentration, device=device).expand(4000, 3)).cpu().numpy()
    np.testing.assert_allclose(drawn.sum(-1), 1)
    for i, probability in enumerate(concentration):
        assert stats.kstest(drawn[:, i], stats.beta(probability, concentration.sum() - probability).cdf).pvalue > 1e-3
    tiny = ag._sample_dirichlet(ag.full((50, 3), 1e-4, device=device))
    assert (tiny.sum(-1) - 1).abs().max() < 1e-6  # the gamma-distributed numbers alone would be 0 / 0


def test_ends(device):
    """Samples are positive, also where the number underflows; a parameter that is none gives NaN."""
    drawn = ag._standard_gamma(ag.tensor([1e-5, 0.0, -1.0, float("nan")], device=device))
    assert 0 < drawn[0] < 1e-30
    assert drawn[1] == ag.finfo(ag.float32).tiny
    assert drawn[2:].isnan().all()
    assert random_log_gamma(ag.tensor([0.0, -1.0], device=device)).isnan().all()


def test_second_derivatives_are_refused():
    alpha = ag.ones(2, requires_grad=True)
    (slope,) = ag.autograd.grad(ag._standard_gamma(alpha).sum(), alpha, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative of gamma-distributed random numbers"):
        slope.sum().backward()


def test_generators_and_vmap(device):
    """A generator repeats its numbers; vmap obeys `randomness`."""
    alpha = ag.full((2, 3), 2.0, device=device)
    for draw in (ag._standard_gamma, ag._sample_dirichlet):
        first, again = (draw(alpha, generator=ag.Generator(device).manual_seed(7)) for _ in range(2))
        assert (first == again).all()
        with pytest.raises(RuntimeError, match="randomness"):
            ag.func.vmap(draw)(alpha)
        rows = ag.func.vmap(draw, randomness="different")(alpha)
        assert rows.shape == (2, 3)
        assert (rows[0] != rows[1]).all()
