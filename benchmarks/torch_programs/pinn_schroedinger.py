"""A physics-informed network for the nonlinear Schroedinger equation in its real form, by L-BFGS.

i h_t + h_xx / 2 + |h|^2 h = 0 for h = u + i v on [-5, 5] with periodic ends, and h(0, x) = 2 / cosh(x).
"""

import numpy as np
import torch
from torch import nn
from torch.autograd import grad


class PINN(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.register_buffer("lower", torch.tensor([-5.0, 0.0]))
        self.register_buffer("upper", torch.tensor([5.0, np.pi / 2]))
        self.first = nn.Linear(2, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(depth - 1)])
        self.last = nn.Linear(width, 2)

    def forward(self, x, t):
        z = torch.hstack((x, t))
        z = 2.0 * (z - self.lower) / (self.upper - self.lower) - 1.0
        z = torch.tanh(self.first(z))
        for layer in self.hidden:
            z = torch.tanh(layer(z))
        return self.last(z).split(1, dim=1)


def derivative(y, x):
    return grad(y, x, torch.ones_like(y), create_graph=True)[0]


def fields(model, x, t):
    """u, v and their derivatives by x."""
    u, v = model(x, t)
    return u, v, derivative(u, x), derivative(v, x)


def residual(model, x, t):
    u, v, u_x, v_x = fields(model, x, t)
    u_t, v_t = derivative(u, t), derivative(v, t)
    u_xx, v_xx = derivative(u_x, x), derivative(v_x, x)
    square = u**2 + v**2
    return u_t + 0.5 * v_xx + square * v, v_t - 0.5 * u_xx - square * u


def build():
    return PINN().double()


def main(steps=100, state=None, device="cpu"):
    rng = np.random.default_rng(2)

    def points(low, high, count):
        return torch.from_numpy(rng.uniform(low, high, (count, 1))).to(device).requires_grad_()

    x_f, t_f = points(-5, 5, 400), points(0, np.pi / 2, 400)
    x_0, t_0 = points(-5, 5, 50), torch.zeros(50, 1, dtype=torch.float64, device=device)
    t_b = points(0, np.pi / 2, 50)
    left, right = (torch.full_like(t_b, end).requires_grad_() for end in (-5.0, 5.0))
    u_0 = (2 / torch.cosh(x_0)).detach()

    model = build()
    if state is not None:
        model.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()}, strict=True)
    model.to(device)
    mse = nn.MSELoss()
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=1.0, max_iter=5, history_size=20, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def loss_fn():
        u, v = model(x_0, t_0)
        loss = mse(u, u_0) + mse(v, torch.zeros_like(v))
        for a, b in zip(fields(model, left, t_b), fields(model, right, t_b), strict=True):
            loss = loss + mse(a, b)
        for f in residual(model, x_f, t_f):
            loss = loss + mse(f, torch.zeros_like(f))
        return loss

    def closure():
        optimizer.zero_grad()
        loss = loss_fn()
        loss.backward()
        return loss

    for _ in range(steps):
        loss = optimizer.step(closure)
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
        yield loss.item(), norm.item()


if __name__ == "__main__":
    for step, (loss, norm) in enumerate(main()):
        print(f"{step:3d}: loss {loss:.4e}, |gradient| {norm:.2e}")
