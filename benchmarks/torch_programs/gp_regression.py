"""Gaussian process regression: kernel parameters by the marginal likelihood, with a Cholesky factor."""

import math

import numpy as np
import torch
from torch import nn
from torch.distributions import MultivariateNormal
from torch.nn.functional import softplus


class RBFKernel(nn.Module):
    """A squared exponential with a length for each dimension."""

    def __init__(self, dims):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.zeros(dims))
        self.raw_outputscale = nn.Parameter(torch.tensor(0.0))

    def forward(self, a, b):
        scale = softplus(self.raw_lengthscale)
        distance = torch.cdist(a / scale, b / scale, compute_mode="donot_use_mm_for_euclid_dist")
        return softplus(self.raw_outputscale) * torch.exp(-0.5 * distance**2)


class ExactGP(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.kernel = RBFKernel(dims)
        self.mean = nn.Parameter(torch.zeros(1))
        self.raw_noise = nn.Parameter(torch.tensor(-2.0))

    def covariance(self, x):
        noise = softplus(self.raw_noise) + 1e-6
        return self.kernel(x, x) + noise * torch.eye(len(x), dtype=x.dtype, device=x.device)

    def neg_log_marginal_likelihood(self, x, y):
        L = torch.linalg.cholesky(self.covariance(x))
        residual = (y - self.mean).unsqueeze(-1)
        alpha = torch.cholesky_solve(residual, L)
        fit = 0.5 * (residual * alpha).sum()
        return fit + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, x_new):
        L = torch.linalg.cholesky(self.covariance(x))
        cross = self.kernel(x, x_new)
        half = torch.linalg.solve_triangular(L, cross, upper=False)
        mean = self.mean + cross.T @ torch.cholesky_solve((y - self.mean)[:, None], L)[:, 0]
        cov = self.kernel(x_new, x_new) - half.mT @ half
        return MultivariateNormal(mean, cov + 1e-6 * torch.eye(len(x_new), dtype=cov.dtype, device=cov.device))


def build():
    return ExactGP(2).double()


def main(steps=200, state=None, device="cpu", n=80):
    rng = np.random.default_rng(22)
    points = rng.uniform(-2, 2, (n + 10, 2))
    values = np.sin(2 * points[:, 0]) + 0.3 * points[:, 1] + 0.1 * rng.normal(size=n + 10)
    x, y = (torch.from_numpy(a).to(device) for a in (points, values))
    x, x_new = x.split([n, 10])
    y, y_new = y[:n], y[n:]
    gp = build()
    if state is not None:
        gp.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    gp.to(device)
    optimizer = torch.optim.Adam(gp.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = gp.neg_log_marginal_likelihood(x, y)
        loss.backward()
        optimizer.step()
        yield loss.item(), softplus(gp.raw_noise).item()
    predicted = gp.predict(x, y, x_new)
    error = (predicted.mean - y_new).square().mean().sqrt()
    print(f"error {error:.3f}, log probability of the test points {predicted.log_prob(y_new):.3f}")
    yield error.item(), predicted.log_prob(y_new).item()


if __name__ == "__main__":
    for step, (nll, noise) in enumerate(main()):
        if step % 20 == 0:
            print(f"{step}: {nll:.3f}, noise {noise:.4f}")
