"""SIREN fits an image and its gradient with sine activations (Sitzmann et al., 2020)."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Picture(Dataset):
    """One smooth picture: coordinates in [-1, 1]^2, values, and the gradient at each pixel."""

    def __init__(self, side=24):
        axis = np.linspace(-1, 1, side, dtype=np.float32)
        y, x = np.meshgrid(axis, axis, indexing="ij")
        self.coords = torch.from_numpy(np.stack([x, y], -1).reshape(-1, 2))
        value = np.sin(4 * x) * np.cos(3 * y)
        grad = np.stack([4 * np.cos(4 * x) * np.cos(3 * y), -3 * np.sin(4 * x) * np.sin(3 * y)], -1)
        self.values = torch.from_numpy(value.reshape(-1, 1))
        self.grads = torch.from_numpy(grad.reshape(-1, 2))

    def __len__(self):
        return 1

    def __getitem__(self, index):
        if index > 0:
            raise IndexError(index)
        return self.coords, {"value": self.values, "grad": self.grads}


class SineLayer(nn.Module):
    def __init__(self, n_in, n_out, first=False, omega=30.0):
        super().__init__()
        self.omega = omega
        self.linear = nn.Linear(n_in, n_out)
        bound = 1 / n_in if first else np.sqrt(6 / n_in) / omega
        with torch.no_grad():
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


class Siren(nn.Module):
    def __init__(self, width=64, hidden=2, omega=10.0):
        super().__init__()
        layers = [SineLayer(2, width, first=True, omega=omega)]
        layers += [SineLayer(width, width, omega=omega) for _ in range(hidden)]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, coords):
        coords = coords.clone().detach().requires_grad_(True)  # so that derivatives by the input can be taken
        return self.net(coords), coords


def gradient(y, x):
    return torch.autograd.grad(y, [x], grad_outputs=torch.ones_like(y), create_graph=True)[0]


def build():
    return Siren()


def main(steps=500, state=None, device="cpu"):
    model = build()
    if state is not None:
        model.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})
    model.to(device)
    optimizer = torch.optim.Adam(lr=1e-3, params=model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    coords, truth = next(iter(DataLoader(Picture(), batch_size=1, num_workers=0)))
    coords = coords.to(device)
    truth = {name: value.to(device) for name, value in truth.items()}
    for _ in range(steps):
        output, at = model(coords)
        value_loss = ((output - truth["value"]) ** 2).mean()
        grad_loss = (gradient(output, at) - truth["grad"]).pow(2).sum(-1).mean()
        loss = value_loss + 1e-2 * grad_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item(), value_loss.item()


if __name__ == "__main__":
    for step, (total, value) in enumerate(main()):
        if step % 50 == 0:
            print(f"step {step:4d}  loss {total:.6f}  image {value:.6f}")
