"""A neural ODE learns a spiral, with Runge-Kutta steps written by hand (Chen et al., 2018)."""

from itertools import pairwise

import numpy as np
import torch
import torch.nn as nn


class ODEFunc(nn.Module):
    def __init__(self, width=50):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


def rk4_step(func, t, dt, y):
    k1 = func(t, y)
    k2 = func(t + dt / 2, y + dt * k1 / 2)
    k3 = func(t + dt / 2, y + dt * k2 / 2)
    k4 = func(t + dt, y + dt * k3)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


def odeint(func, y0, t):
    """The solution at each of the times t, along a new first dimension."""
    solution = [y0]
    for t0, t1 in pairwise(t):
        solution.append(rk4_step(func, t0, t1 - t0, solution[-1]))
    return torch.stack(solution)


class Lambda(nn.Module):
    """The truth."""

    def __init__(self, device):
        super().__init__()
        self.a = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], device=device)

    def forward(self, t, y):
        return torch.mm(y**3, self.a)


def build():
    return ODEFunc()


def main(steps=300, state=None, device="cpu", data_size=400, batch_time=10, batch_size=20):
    rng = np.random.default_rng(6)
    t = torch.linspace(0.0, 10.0, data_size).to(device)
    true_y0 = torch.tensor([[2.0, 0.0]]).to(device)
    with torch.no_grad():
        true_y = odeint(Lambda(device), true_y0, t)

    def get_batch():
        s = torch.from_numpy(rng.choice(data_size - batch_time, batch_size, replace=False))
        batch_y0 = true_y[s]
        batch_y = torch.stack([true_y[s + i] for i in range(batch_time)], dim=0)
        return batch_y0, t[:batch_time], batch_y

    func = build()
    if state is not None:
        func.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    func = func.to(device)
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        batch_y0, batch_t, batch_y = get_batch()
        pred_y = odeint(func, batch_y0, batch_t)
        loss = torch.mean(torch.abs(pred_y - batch_y))
        loss.backward()
        optimizer.step()
        yield loss.item()


if __name__ == "__main__":
    for itr, loss in enumerate(main()):
        if itr % 20 == 0:
            print(f"Iter {itr:04d} | Total Loss {loss:.6f}")
