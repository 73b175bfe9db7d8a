"""A Hamiltonian network learns the energy of a pendulum from its motion (Greydanus et al., 2019)."""

import numpy as np
import torch
import torch.nn as nn


class MLP(nn.Module):
    def __init__(self, input_dim, hidden_dim, output_dim):
        super().__init__()
        self.linear1 = nn.Linear(input_dim, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, hidden_dim)
        self.linear3 = nn.Linear(hidden_dim, output_dim, bias=False)
        for layer in [self.linear1, self.linear2, self.linear3]:
            nn.init.orthogonal_(layer.weight)

    def forward(self, x):
        h = self.linear1(x).tanh()
        h = self.linear2(h).tanh()
        return self.linear3(h)


class HNN(nn.Module):
    def __init__(self, hidden_dim=64):
        super().__init__()
        self.energy = MLP(2, hidden_dim, 1)
        J = torch.eye(2)
        self.register_buffer("J", torch.cat([J[1:], -J[:1]]))

    def time_derivative(self, x):
        (dH,) = torch.autograd.grad(self.energy(x).sum(), x, create_graph=self.training)
        return dH @ self.J.t()


def pendulum(rng, count):
    """States (q, p) and their time derivatives, with noise."""
    q, p = rng.uniform(-2, 2, (2, count))
    state = np.stack([q, p], 1)
    change = np.stack([p, -3 * np.sin(q)], 1) + 0.05 * rng.normal(size=(count, 2))
    return state.astype(np.float32), change.astype(np.float32)


def integrate(model, x, dt=0.05, steps=40):
    """A trajectory by Euler's symplectic half steps."""
    path = [x]
    for _ in range(steps):
        x = path[-1].detach().requires_grad_()
        middle = (x + dt / 2 * model.time_derivative(x)).detach().requires_grad_()
        path.append((x + dt * model.time_derivative(middle)).detach())
    return torch.stack(path)


def build():
    return HNN()


def main(steps=500, state=None, device="cpu"):
    rng = np.random.default_rng(23)
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    optim = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-4, amsgrad=True)
    loss_fn = torch.nn.MSELoss()
    for _ in range(steps):
        x, dxdt = pendulum(rng, 128)
        x = torch.tensor(x, requires_grad=True, device=device)
        loss = loss_fn(model.time_derivative(x), torch.tensor(dxdt, device=device))
        loss.backward()
        grad = torch.cat([p.grad.flatten() for p in model.parameters()])
        optim.step()
        optim.zero_grad()
        yield loss.item(), (grad @ grad).item()
    model.eval()
    path = integrate(model, torch.tensor([[1.0, 0.0]], device=device))
    energy = model.energy(path).flatten()
    print(f"energy along a path: from {energy.min():.4f} to {energy.max():.4f}")


if __name__ == "__main__":
    for step, (loss, norm) in enumerate(main()):
        if step % 50 == 0:
            print(f"step {step}, train_loss {loss:.4e}, grad norm {norm:.4e}")
