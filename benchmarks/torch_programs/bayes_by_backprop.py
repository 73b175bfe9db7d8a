"""Bayes by backprop: a regression with a distribution on each weight (Blundell et al., 2015)."""

import math
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

RNG = np.random.default_rng(17)


def noise_like(tensor):
    return torch.as_tensor(RNG.standard_normal(tuple(tensor.shape)), dtype=tensor.dtype, device=tensor.device)


class ScaleMixturePrior:
    """Two zero-mean Gaussians, one wide and one narrow."""

    def __init__(self, pi=0.5, sigma1=1.0, sigma2=0.05, device="cpu"):
        self.pi = pi
        self.wide = Normal(torch.tensor(0.0, device=device), torch.tensor(sigma1, device=device))
        self.narrow = Normal(torch.tensor(0.0, device=device), torch.tensor(sigma2, device=device))

    def log_prob(self, w):
        parts = torch.stack([
            math.log(self.pi) + self.wide.log_prob(w), math.log(1 - self.pi) + self.narrow.log_prob(w),
        ])  # fmt: skip
        return torch.logsumexp(parts, dim=0).sum()


class BayesLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.w_mu = nn.Parameter(torch.empty(n_out, n_in).uniform_(-0.4, 0.4))
        self.w_rho = nn.Parameter(torch.full((n_out, n_in), -4.0))
        self.b_mu = nn.Parameter(torch.zeros(n_out))
        self.b_rho = nn.Parameter(torch.full((n_out,), -4.0))

    def forward(self, x, prior):
        log_q, log_p, drawn = 0.0, 0.0, []
        for mu, rho in ((self.w_mu, self.w_rho), (self.b_mu, self.b_rho)):
            sigma = torch.log1p(torch.exp(rho))
            value = mu + sigma * noise_like(mu)
            log_q = log_q + Normal(mu, sigma).log_prob(value).sum()
            log_p = log_p + prior.log_prob(value)
            drawn.append(value)
        return F.linear(x, *drawn), log_q - log_p


class BayesianNetwork(nn.Module):
    def __init__(self, sizes=(1, 32, 32, 1)):
        super().__init__()
        self.layers = nn.ModuleList(BayesLinear(m, n) for m, n in pairwise(sizes))

    def forward(self, x, prior):
        kl = torch.zeros((), device=x.device)
        for i, layer in enumerate(self.layers):
            x, part = layer(x, prior)
            kl += part
            if i + 1 < len(self.layers):
                x = F.relu(x)
        return x, kl


def build():
    return BayesianNetwork()


def main(steps=1000, state=None, device="cpu", samples=2):
    global RNG
    RNG = np.random.default_rng(17)
    x = RNG.uniform(0, 0.5, (128, 1))
    y = x + 0.3 * np.sin(2 * np.pi * x) + 0.3 * np.sin(4 * np.pi * x) + 0.02 * RNG.normal(size=x.shape)
    x, y = (torch.tensor(a, dtype=torch.float32, device=device) for a in (x, y))
    model, prior = build(), ScaleMixturePrior(device=device)
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[400, 800], gamma=0.3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss, fit = 0, 0
        for _ in range(samples):
            prediction, kl = model(x, prior)
            nll = -Normal(prediction, 0.1).log_prob(y).sum()
            loss = loss + (kl / 10 + nll) / samples
            fit += nll.item() / samples
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item(), fit
    with torch.no_grad():
        spread = torch.stack([model(x, prior)[0] for _ in range(10)]).std(dim=0)
    print("mean predictive spread:", float(spread.mean()))


if __name__ == "__main__":
    for step, (loss, fit) in enumerate(main()):
        if step % 100 == 0:
            print(f"{step}: loss {loss:.2f}, negative log likelihood {fit:.2f}")
