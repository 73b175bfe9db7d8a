"""Stein variational gradient descent moves particles onto a mixture of Gaussians (Liu and Wang, 2016)."""

import numpy as np
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal


class RBF:
    def __init__(self, sigma=None):
        self.sigma = sigma

    def __call__(self, X, Y):
        dnorm2 = X.unsqueeze(1).sub(Y.unsqueeze(0)).square().sum(-1)
        if self.sigma is None:  # the median heuristic
            h = torch.median(dnorm2.detach()) / (2 * np.log(X.size(0) + 1))
            sigma = torch.sqrt(h).item()
        else:
            sigma = self.sigma
        gamma = 1.0 / (1e-8 + 2 * sigma**2)
        return (-gamma * dnorm2).exp()


class SVGD:
    def __init__(self, P, K, optimizer):
        self.P, self.K, self.optim = P, K, optimizer

    def phi(self, X):
        X = X.detach().requires_grad_(True)
        log_prob = self.P.log_prob(X)
        score_func = torch.autograd.grad(log_prob.sum(), X)[0]
        K_XX = self.K(X, X.detach())
        grad_K = -torch.autograd.grad(K_XX.sum(), X)[0]
        return (K_XX.detach().matmul(score_func) + grad_K) / X.size(0), log_prob

    def step(self, X):
        self.optim.zero_grad()
        phi, log_prob = self.phi(X)
        X.grad = -phi
        self.optim.step()
        return phi, log_prob


def target(device):
    mix = Categorical(torch.tensor([0.3, 0.7], device=device))
    means = torch.tensor([[-2.0, 1.0], [2.0, -0.5]], device=device)
    return MixtureSameFamily(mix, Independent(Normal(means, torch.tensor([0.8, 0.5], device=device)), 1))


def main(steps=300, state=None, device="cpu", particles=100):
    rng = np.random.default_rng(25)
    X = torch.tensor(rng.normal(size=(particles, 2)), dtype=torch.float32, device=device)
    svgd = SVGD(target(device), RBF(), torch.optim.Adagrad([X], lr=0.3))
    for _ in range(steps):
        phi, log_prob = svgd.step(X)
        yield log_prob.mean().item(), phi.norm(dim=1).mean().item()
    print("share of particles on the right:", (X[:, 0] > 0).float().mean().item())


if __name__ == "__main__":
    for step, (log_prob, size) in enumerate(main()):
        if step % 30 == 0:
            print(f"{step}: mean log probability {log_prob:.3f}, mean step {size:.4f}")
