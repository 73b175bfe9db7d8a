"""Data hyper-cleaning: weights of wrongly labelled examples are learned through unrolled training steps."""

import numpy as np
import torch
import torch.nn as nn
from torch.func import functional_call


def make_data(rng, count, classes=3, wrong=0.0):
    labels = rng.integers(0, classes, count)
    angle = 2 * np.pi * labels / classes
    points = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.4 * rng.normal(size=(count, 2))
    noisy = np.where(rng.random(count) < wrong, rng.integers(0, classes, count), labels)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(noisy), torch.tensor(noisy == labels)


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc1 = nn.Linear(2, width)
        self.fc2 = nn.Linear(width, 3)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def build():
    return Net()


def main(steps=100, state=None, device="cpu", inner_steps=10):
    rng = np.random.default_rng(18)
    x, y, right = (a.to(device) for a in make_data(rng, 100, wrong=0.5))
    x_val, y_val, _ = (a.to(device) for a in make_data(rng, 60))
    net = build()
    if state is not None:
        net.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    net.to(device)
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    log_weights = torch.zeros(len(x), device=device, requires_grad=True)
    log_rate = torch.tensor(np.log(0.5), dtype=torch.float32, device=device, requires_grad=True)
    log_decay = nn.Parameter(torch.full((), -6.0, device=device))
    hyper = [
        {"params": [log_weights], "lr": 0.3},
        {"params": [log_rate, log_decay], "lr": 0.05, "betas": (0.5, 0.9)},
    ]
    optimizer = torch.optim.Adam(hyper)
    criterion = nn.CrossEntropyLoss(reduction="none")

    def inner_loss(params):
        data = (torch.sigmoid(log_weights) * criterion(functional_call(net, params, x), y)).mean()
        return data + log_decay.exp() * sum(p.pow(2).sum() for p in params.values())

    for _ in range(steps):
        params = {name: p.clone().requires_grad_() for name, p in start.items()}
        for _ in range(inner_steps):
            grads = torch.autograd.grad(inner_loss(params), list(params.values()), create_graph=True)
            params = {n: p - log_rate.exp() * g for (n, p), g in zip(params.items(), grads, strict=True)}
        outer = nn.functional.cross_entropy(functional_call(net, params, (x_val,)), y_val)
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        with torch.no_grad():
            weights = torch.sigmoid(log_weights)
            gap = weights[right].mean() - weights[~right].mean()
        yield outer.item(), gap.item(), log_rate.exp().item()


if __name__ == "__main__":
    for step, (loss, gap, rate) in enumerate(main()):
        if step % 10 == 0:
            print(f"{step}: validation {loss:.4f}, weight of right minus wrong {gap:.3f}, learned rate {rate:.3f}")
