"""An interatomic potential learns energies and forces of a small cluster, and gives its vibrations by the Hessian."""

import numpy as np
import torch
import torch.nn as nn
from torch.func import hessian

ATOMS = 6


def reference(positions):
    """Energies and forces of a Lennard-Jones cluster, in NumPy."""
    d = positions[:, :, None] - positions[:, None]
    r2 = (d**2).sum(-1) + np.eye(ATOMS)
    inverse = np.where(np.eye(ATOMS, dtype=bool), 0.0, 1 / r2**3)
    energy = 2 * (inverse**2 - inverse).sum((1, 2))
    forces = (24 * (2 * inverse**2 - inverse) / r2)[..., None] * d
    return energy, forces.sum(2)


class RadialBasis(nn.Module):
    """Gaussians of the distances to the neighbours, smoothly cut off."""

    def __init__(self, count=12, cutoff=3.0):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("centers", torch.linspace(0.8, cutoff, count))
        self.register_buffer("others", ~torch.eye(ATOMS, dtype=torch.bool))
        self.eta = 8.0

    def forward(self, positions):
        delta = positions.unsqueeze(-2) - positions.unsqueeze(-3)
        square = delta.square().sum(-1)
        r = torch.where(self.others, square, torch.ones_like(square)).sqrt()
        cut = torch.where(r < self.cutoff, 0.5 * (torch.cos(np.pi * r / self.cutoff) + 1), torch.zeros_like(r))
        basis = torch.exp(-self.eta * (r.unsqueeze(-1) - self.centers) ** 2) * (cut * self.others).unsqueeze(-1)
        return basis.sum(-2)


class Potential(nn.Module):
    def __init__(self, features=12, width=32):
        super().__init__()
        self.basis = RadialBasis(features)
        self.atom = nn.Sequential(nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.readout = nn.Linear(width, 1)

    def forward(self, positions):
        return self.readout(self.atom(self.basis(positions))).sum((-1, -2))

    def forces(self, positions):
        positions.requires_grad_(True)
        energy = self(positions)
        gradient = torch.autograd.grad(energy, positions, torch.ones_like(energy), create_graph=True)[0]
        return energy, -gradient


def build():
    return Potential()


def main(steps=300, state=None, device="cpu", batch=16):
    rng = np.random.default_rng(27)
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    octahedron = 0.79 * np.concatenate([np.eye(3), -np.eye(3)])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(steps):
        positions = octahedron + 0.04 * rng.normal(size=(batch, ATOMS, 3))
        energies, forces = (torch.tensor(a, dtype=torch.float32, device=device) for a in reference(positions))
        energy, force = model.forces(torch.tensor(positions, dtype=torch.float32, device=device))
        energy_loss = nn.functional.mse_loss(energy, energies)
        force_loss = nn.functional.huber_loss(force, forces, delta=5.0)
        optimizer.zero_grad()
        (0.1 * energy_loss + force_loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        averaged.update_parameters(model)
        yield energy_loss.item(), force_loss.item()
    at = torch.tensor(octahedron, dtype=torch.float32, device=device)
    second = hessian(averaged.module)(at).reshape(3 * ATOMS, 3 * ATOMS)
    yield tuple(torch.linalg.eigvalsh((second + second.T) / 2)[-2:].tolist())


if __name__ == "__main__":
    for step, losses in enumerate(main()):
        if step % 30 == 0:
            print(f"{step}: energy {losses[0]:.4f}, force {losses[1]:.4f}")
