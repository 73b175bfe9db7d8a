"""Sharpness-aware minimisation as an optimizer of its own (Foret et al., 2021), on noisy spirals."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class SAM(torch.optim.Optimizer):
    """Climbs to the worst point nearby, and steps with the gradient found there."""

    def __init__(self, params, base_optimizer, rho=0.05, adaptive=False, **kwargs):
        assert rho >= 0.0, f"Invalid rho, should be non-negative: {rho}"
        super().__init__(params, dict(rho=rho, adaptive=adaptive, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        norm = self._grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                e_w = (torch.pow(p, 2) if group["adaptive"] else 1.0) * p.grad * scale.to(p)
                p.add_(e_w)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        assert closure is not None, "SAM needs a closure that does forward and backward"
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()

    def _grad_norm(self):
        shared = self.param_groups[0]["params"][0].device
        return torch.norm(
            torch.stack([
                ((torch.abs(p) if group["adaptive"] else 1.0) * p.grad).norm(p=2).to(shared)
                for group in self.param_groups for p in group["params"] if p.grad is not None
            ]), p=2,
        )  # fmt: skip

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.base_optimizer.param_groups = self.param_groups


def spirals(count, seed=19):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    radius = rng.uniform(0.1, 1.0, count)
    angle = 4 * radius + labels * 2 * np.pi / 3 + 0.2 * rng.normal(size=count)
    points = np.stack([radius * np.sin(angle), radius * np.cos(angle)], 1)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(labels, dtype=torch.int64)


def build(width=64):
    return nn.Sequential(
        nn.Linear(2, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 3)
    )


def main(steps=300, state=None, device="cpu"):
    model = build()
    if state is not None:
        model.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    model.to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer.base_optimizer, max_lr=0.2, total_steps=max(steps, 10))
    loader, done = DataLoader(TensorDataset(*spirals(512)), batch_size=64), 0
    while done < steps:
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            predictions = model(inputs)
            loss = criterion(predictions, targets)
            loss.backward()
            optimizer.first_step(zero_grad=True)
            criterion(model(inputs), targets).backward()
            optimizer.second_step(zero_grad=True)
            with torch.no_grad():
                correct = torch.argmax(predictions.data, 1) == targets
            scheduler.step()
            done += 1
            yield loss.item(), correct.sum().item() / len(targets)
            if done == steps:
                break


if __name__ == "__main__":
    for step, (loss, accuracy) in enumerate(main()):
        if step % 30 == 0:
            print(f"{step}: loss {loss:.4f}, accuracy {accuracy:.1%}")
