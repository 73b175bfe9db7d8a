"""pyro: variational inference and Hamiltonian Monte Carlo for a mean whose posterior is known."""

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

DATA = torch.tensor([1.0, 2.0, 3.0, 2.0])
MEAN, SCALE = 8 / 5, (1 / 5) ** 0.5  # of the posterior, for a prior Normal(0, 1) and four observations of scale 1


def model(data):
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(mu, 1.0), obs=data)


def test_variational_inference():
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    guide = AutoNormal(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO(num_particles=4))
    for _ in range(500):
        svi.step(DATA)
    assert guide.median()["mu"].item() == pytest.approx(MEAN, abs=0.15)


def test_hamiltonian_monte_carlo():
    pyro.set_rng_seed(0)
    mcmc = MCMC(NUTS(model), num_samples=150, warmup_steps=50, disable_progbar=True)
    mcmc.run(DATA)
    samples = mcmc.get_samples()["mu"]
    assert samples.mean().item() == pytest.approx(MEAN, abs=0.2)
    assert samples.std().item() == pytest.approx(SCALE, rel=0.4)


def test_trace_and_replay():
    trace = pyro.poutine.trace(model).get_trace(DATA)
    again = pyro.poutine.trace(pyro.poutine.replay(model, trace)).get_trace(DATA)
    assert trace.log_prob_sum().item() == again.log_prob_sum().item()


def test_module():
    pyro.clear_param_store()
    net = pyro.module("net", torch.nn.Linear(2, 1))
    assert set(pyro.get_param_store().keys()) == {"net$$$weight", "net$$$bias"}
    assert pyro.param("net$$$weight") is net.weight
