"""RealNVP: a normalizing flow of affine coupling layers learns two moons (Dinh et al., 2017)."""

import numpy as np
import torch
from torch import distributions, nn


def two_moons(rng, count, noise=0.08):
    angle = rng.uniform(0, np.pi, count)
    upper = rng.random(count) < 0.5
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return (np.stack([x, y], 1) + noise * rng.normal(size=(count, 2))).astype(np.float32)


class RealNVP(nn.Module):
    def __init__(self, nets, nett, masks, prior):
        super().__init__()
        self.prior = prior
        self.mask = nn.Parameter(masks, requires_grad=False)
        self.t = nn.ModuleList([nett() for _ in range(len(masks))])
        self.s = nn.ModuleList([nets() for _ in range(len(masks))])

    def g(self, z):
        """From the base to the data."""
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        """From the data to the base, with the log determinant."""
        log_det_j, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_j -= s.sum(dim=1)
        return z, log_det_j

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp


def build(device="cpu", width=64):
    def nets():
        return nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(), nn.Linear(width, width), nn.LeakyReLU(), nn.Linear(width, 2), nn.Tanh()
        )

    def nett():
        return nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(), nn.Linear(width, width), nn.LeakyReLU(), nn.Linear(width, 2)
        )

    masks = torch.from_numpy(np.array([[0, 1], [1, 0]] * 3).astype(np.float32))
    prior = distributions.MultivariateNormal(torch.zeros(2, device=device), torch.eye(2, device=device))
    return RealNVP(nets, nett, masks, prior)


def main(steps=1000, state=None, device="cpu"):
    rng = np.random.default_rng(3)
    flow = build(device)
    if state is not None:
        flow.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    flow.to(device)
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad is True], lr=1e-3)
    for _ in range(steps):
        batch = torch.from_numpy(two_moons(rng, 128)).to(device)
        loss = -flow.log_prob(batch).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        yield loss.item()
    with torch.no_grad():  # the flow is its own inverse
        noise = torch.from_numpy(rng.normal(size=(100, 2)).astype(np.float32)).to(device)
        back, _ = flow.f(flow.g(noise))
        print("largest error of the inverse:", (back - noise).abs().max().item())


if __name__ == "__main__":
    for step, loss in enumerate(main()):
        if step % 100 == 0:
            print(f"iter {step}: loss = {loss:.3f}")
