"""Peaks are fitted to a series of spectra by L-BFGS, each from the start."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Peaks(nn.Module):
    """A sum of Lorentzians on a line."""

    def __init__(self, centers):
        super().__init__()
        count = len(centers)
        self.center = nn.Parameter(torch.tensor(centers))
        self.raw_height = nn.Parameter(torch.full((count,), 0.5, dtype=torch.double))
        self.raw_width = nn.Parameter(torch.full((count,), -1.0, dtype=torch.double))
        self.baseline = nn.ParameterDict({
            "offset": nn.Parameter(torch.zeros(1, dtype=torch.double)),
            "slope": nn.Parameter(torch.zeros(1, dtype=torch.double)),
        })  # fmt: skip

    def forward(self, x):
        height, width = F.softplus(self.raw_height), F.softplus(self.raw_width)
        peaks = height / (1 + ((x[:, None] - self.center) / width) ** 2)
        return peaks.sum(-1) + self.baseline["offset"] + self.baseline["slope"] * x


def spectrum(rng, x, centers):
    heights, widths = rng.uniform(0.5, 2.0, len(centers)), rng.uniform(0.1, 0.4, len(centers))
    places = centers + 0.1 * rng.normal(size=len(centers))
    y = (heights / (1 + ((x[:, None] - places) / widths) ** 2)).sum(1)
    return y + 0.2 - 0.05 * x + 0.01 * rng.normal(size=len(x))


def fit(model, x, y, iterations):
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=iterations, history_size=10, line_search_fn="strong_wolfe"
    )
    count = 0

    def closure():
        nonlocal count
        count += 1
        if torch.is_grad_enabled():
            optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if loss.requires_grad:
            loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        return closure().item(), count


def main(steps=20, state=None, device="cpu", iterations=25):
    rng = np.random.default_rng(26)
    centers = np.array([-3.0, -1.0, 0.5, 2.5])
    grid = np.linspace(-5, 5, 300)
    x = torch.from_numpy(grid).to(device)
    for _ in range(steps):
        y = torch.from_numpy(spectrum(rng, grid, centers)).to(device)
        loss, evaluations = fit(Peaks(centers).to(device), x, y, iterations)
        yield loss, evaluations


if __name__ == "__main__":
    for number, (loss, evaluations) in enumerate(main()):
        print(f"spectrum {number}: mean square {loss:.2e} after {evaluations} evaluations")
