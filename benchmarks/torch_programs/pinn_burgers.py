"""A physics-informed network for Burgers' equation, u_t + u u_x = nu u_xx (Raissi et al., 2019)."""

from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn

NU = 0.01 / np.pi


class DNN(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.depth = len(layers) - 1
        parts = []
        for i in range(self.depth - 1):
            parts.append((f"layer_{i}", nn.Linear(layers[i], layers[i + 1])))
            parts.append((f"activation_{i}", nn.Tanh()))
        parts.append((f"layer_{self.depth - 1}", nn.Linear(layers[-2], layers[-1])))
        self.layers = nn.Sequential(OrderedDict(parts))
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.layers(x)


class Burgers:
    def __init__(self, model, device, n_data=100, n_collocation=1000):
        rng = np.random.default_rng(1)
        self.device, self.dnn = device, model
        x0 = rng.uniform(-1, 1, (n_data, 1))
        tb = rng.uniform(0, 1, (n_data, 1))
        side = np.where(rng.random((n_data, 1)) < 0.5, -1.0, 1.0)
        self.x_u = self.column(np.vstack([x0, side]))
        self.t_u = self.column(np.vstack([np.zeros_like(x0), tb]))
        self.u = self.column(np.vstack([-np.sin(np.pi * x0), np.zeros_like(tb)]))
        self.x_f = self.column(rng.uniform(-1, 1, (n_collocation, 1))).requires_grad_(True)
        self.t_f = self.column(rng.uniform(0, 1, (n_collocation, 1))).requires_grad_(True)

    def column(self, array):
        return torch.tensor(array, dtype=torch.float32, device=self.device)

    def net_u(self, x, t):
        return self.dnn(torch.cat([x, t], dim=1))

    def net_f(self, x, t):
        """The residual of the equation."""
        u = self.net_u(x, t)
        ones = torch.ones_like(u)
        u_t = torch.autograd.grad(u, t, grad_outputs=ones, retain_graph=True, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, grad_outputs=ones, retain_graph=True, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), create_graph=True)[0]
        return u_t + u * u_x - NU * u_xx

    def losses(self):
        loss_u = torch.mean((self.u - self.net_u(self.x_u, self.t_u)) ** 2)
        loss_f = torch.mean(self.net_f(self.x_f, self.t_f) ** 2)
        return loss_u, loss_f


def build():
    return DNN([2, 20, 20, 20, 20, 1])


def main(steps=2000, state=None, device="cpu"):
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model = model.to(device)
    problem = Burgers(model, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9995)
    model.train()
    for _ in range(steps):
        loss_u, loss_f = problem.losses()
        loss = loss_u + loss_f
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item(), loss_u.item(), loss_f.item()


if __name__ == "__main__":
    for epoch, (total, data, residual) in enumerate(main()):
        if epoch % 100 == 0:
            print("It: %d, Loss: %.3e, Loss_u: %.5e, Loss_f: %.5e" % (epoch, total, data, residual))  # noqa: UP031
