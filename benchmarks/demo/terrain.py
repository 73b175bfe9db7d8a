"""Chapter 2: a sine network learns the ground near Jacksboro, Tennessee, and gives its exact derivatives.

The elevations are matplotlib's sample data: 344 x 403 cells of 3 arc seconds, in whole metres. Slope, aspect and
curvature of the network come from `func.value_and_derivatives`, those of the data from central differences. With
`sobolev` the loss has a second part, the gradient's distance from the central differences of the data, and training
differentiates through that gradient.
"""

from __future__ import annotations

import functools
import math
import time
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.cbook import get_sample_data

import autograd_gpu as ag
from autograd_gpu import func, nn, optim

from . import images
from .story import (
    Advance,
    Block,
    Cards,
    Figure,
    Line,
    Lines,
    Picture,
    Pictures,
    Settings,
    Story,
    Table,
    Text,
    metres,
    seconds,
)

TITLE = "Terrain"
METRES_PER_DEGREE = 111_195  # of latitude, on a sphere of 6371 km
FREQUENCY = 0.25  # of the first layer's sines, at most, in radians from a cell to the next
LEARNING_RATE = 3e-3
FLAT = 1.0  # degrees; below this slope there is no aspect to speak of
ROWS = 4096  # of points that are differentiated at once
RECORDED = 5  # steps from one recorded error to the next


class Grid(NamedTuple):
    """Elevations in metres on cells of `dx` by `dy` metres; the first row is the northernmost."""

    height: np.ndarray
    dx: float
    dy: float

    @property
    def reach(self) -> float:
        """Half the longer side: the unit of the network's coordinates."""
        return max(self.height.shape[0] * self.dy, self.height.shape[1] * self.dx) / 2

    def points(self) -> np.ndarray:
        """The cells' coordinates (east, north), one row each, at most 1 in size."""
        rows, columns = self.height.shape
        east = (np.arange(columns) - (columns - 1) / 2) * self.dx / self.reach
        north = ((rows - 1) / 2 - np.arange(rows)) * self.dy / self.reach
        return np.stack(np.meshgrid(east, north), -1).reshape(-1, 2).astype(np.float32)


class Surface(NamedTuple):
    """Height, and its derivatives to the east (x) and to the north (y), in metres; arrays of the grid's shape."""

    z: np.ndarray
    x: np.ndarray
    y: np.ndarray
    xx: np.ndarray
    xy: np.ndarray
    yy: np.ndarray

    def slope(self) -> np.ndarray:
        """Degrees."""
        return np.degrees(np.arctan(np.hypot(self.x, self.y)))

    def aspect(self) -> np.ndarray:
        """The compass bearing of the steepest descent, in degrees from north; NaN where it is flat."""
        bearing = np.degrees(np.arctan2(-self.x, -self.y)) % 360
        return np.where(self.slope() < FLAT, np.nan, bearing)

    def curvature(self) -> np.ndarray:
        """The mean curvature in 1/km, above zero in hollows."""
        p, q = self.x, self.y
        numerator = (1 + q**2) * self.xx - 2 * p * q * self.xy + (1 + p**2) * self.yy
        return np.asarray(1000 * numerator / (2 * (1 + p**2 + q**2) ** 1.5))


def load_grid(cells: int | None = None) -> Grid:
    """The elevations; with `cells` that many rows and columns of the north-western corner."""
    with get_sample_data("jacksboro_fault_dem.npz") as sample:
        height = sample["elevation"][:cells, :cells].astype(float)
        dy = METRES_PER_DEGREE * float(sample["dy"])
        dx = METRES_PER_DEGREE * float(sample["dx"]) * math.cos(math.radians(float(sample["ymin"])))
    return Grid(height, dx, dy)


def central_differences(grid: Grid) -> Surface:
    """Of the data; one-sided at the borders."""
    z, steps = grid.height, (-grid.dy, grid.dx)  # rows go south
    y, x = np.gradient(z, *steps)
    padded = np.pad(z, 1, "reflect", reflect_type="odd")  # so that second differences are zero there
    xx = (padded[1:-1, 2:] - 2 * z + padded[1:-1, :-2]) / grid.dx**2
    yy = (padded[2:, 1:-1] - 2 * z + padded[:-2, 1:-1]) / grid.dy**2
    return Surface(z, x, y, xx, np.gradient(y, grid.dx, axis=1), yy)


# ---- the network ----------------------------------------------------------------------------


class SineNetwork(nn.Module):
    """An MLP with sines, from coordinates to a number: SIREN, by Sitzmann et al. (2020).

    `frequency` is the largest weight of the first layer.
    """

    def __init__(self, width: int, hidden: int, frequency: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(m, n) for m, n in pairwise([2, *[width] * hidden])])
        self.last = nn.Linear(width, 1)
        with ag.no_grad():
            for i, layer in enumerate(self.layers):
                bound = frequency if i == 0 else math.sqrt(6 / width)
                layer.weight.uniform_(-bound, bound)

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        """Of one point or of many."""
        for layer in self.layers:
            x = ag.sin(layer(x))
        return self.last(x)[..., 0]


class Data(NamedTuple):
    """Tensors to learn from, in units in which heights have mean 0 and variance 1."""

    points: ag.Tensor
    heights: ag.Tensor
    gradients: ag.Tensor
    mean: float
    deviation: float


def tensors(grid: Grid, differences: Surface, device: str) -> Data:
    """The grid for the network."""
    mean, deviation = float(grid.height.mean()), float(grid.height.std())
    gradients = np.stack([differences.x, differences.y], -1).reshape(-1, 2) * grid.reach / deviation
    arrays = grid.points(), (grid.height.reshape(-1) - mean) / deviation, gradients
    return Data(*[ag.tensor(array, dtype=ag.float32, device=device) for array in arrays], mean, deviation)


def loss_of(model: nn.Module, data: Data, chosen: ag.Tensor, sobolev: bool) -> tuple[ag.Tensor, ag.Tensor]:
    """The loss, and the mean square error of the heights alone."""
    x = data.points[chosen].requires_grad_(sobolev)
    z = model(x)
    square = (z - data.heights[chosen]).square().mean()
    if not sobolev:
        return square, square
    (gradient,) = ag.autograd.grad(z.sum(), x, create_graph=True)
    expected = data.gradients[chosen]
    return square + (gradient - expected).square().mean() / expected.square().mean(), square


def train(model: nn.Module, data: Data, steps: int, batch: int, sobolev: bool, advance: Advance) -> list[float]:
    """Adam on random cells; returns the root mean square errors of some batches, in metres."""
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    errors = []
    for step in range(1, steps + 1):
        chosen = ag.randint(len(data.heights), (batch,), device=data.points.device)
        loss, square = loss_of(model, data, chosen, sobolev)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % RECORDED == 0:
            errors.append(math.sqrt(square.item()) * data.deviation)
            advance(0.7 * step / steps, f"step {step} of {steps}, RMSE {errors[-1]:.1f} m")
    return errors


def surface_of(model: nn.Module, grid: Grid, data: Data, advance: Advance) -> Surface:
    """The network's height and derivatives at each cell, from one pass over each."""
    derivatives = func.vmap(func.value_and_derivatives(functools.partial(func.functional_call, model, detached(model))))
    parts = []
    for start in range(0, len(data.points), ROWS):
        value, gradient, hessian = derivatives(data.points[start : start + ROWS])
        rows = ag.cat([value[:, None], gradient, hessian.reshape(-1, 4)], 1)
        parts.append(rows.cpu().numpy().astype(float))
        advance(0.7 + 0.25 * start / len(data.points), "slope, aspect and curvature")
    z, x, y, xx, xy, _, yy = np.concatenate(parts).T.reshape(7, *grid.height.shape) * data.deviation
    first, second = grid.reach, grid.reach**2
    return Surface(z + data.mean, x / first, y / first, xx / second, xy / second, yy / second)


def detached(model: nn.Module) -> dict[str, ag.Tensor]:
    """The weights as constants: nothing is recorded for their gradients."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


# ---- the chapter ----------------------------------------------------------------------------


def run(settings: Settings, advance: Advance) -> Story:
    """Fit, differentiate, compare."""
    width, hidden, batch, steps, cells = settings.size(
        (128, 3, 2048, 400, None), (256, 4, 16384, 4000, None), (48, 2, 512, 100, 100)
    )
    ag.manual_seed(settings.seed)
    grid = load_grid(cells)
    differences = central_differences(grid)
    data = tensors(grid, differences, settings.device)
    model = SineNetwork(width, hidden, FREQUENCY * max(grid.height.shape) / 2).to(settings.device)
    start = time.perf_counter()
    errors = train(model, data, steps, batch, settings.sobolev, advance)
    trained = time.perf_counter()
    network = surface_of(model, grid, data, advance)
    taken = time.perf_counter() - trained
    figures = {
        "cells": list(grid.height.shape),
        "cell metres": [grid.dx, grid.dy],
        "parameters": sum(p.numel() for p in model.parameters()),
        "layers": [2, *[width] * hidden, 1],
        "steps": steps,
        "batch": batch,
        "sobolev": settings.sobolev,
        "training seconds": trained - start,
        "derivative seconds": taken,
        "batch RMSE metres": errors,
        "recorded every": RECORDED,
        **compare(network, differences),
    }
    return Story(figures, blocks_of(figures, grid, network, differences))


def compare(network: Surface, data: Surface) -> dict[str, Any]:
    """Root mean squares of the differences, and of the data themselves about their mean."""
    return {
        "RMSE metres": rms(network.z - data.z),
        "spread metres": float(data.z.std()),
        "slope degrees": rms(network.slope() - data.slope()),
        "spread of slope": float(data.slope().std()),
        "aspect degrees": rms(turn(network.aspect() - data.aspect())),
        "curvature per km": rms(network.curvature() - data.curvature()),
        "spread of curvature": float(data.curvature().std()),
    }


def rms(values: np.ndarray) -> float:
    """Of what is not NaN."""
    return math.sqrt(float(np.nanmean(values**2)))


def turn(degrees: np.ndarray) -> np.ndarray:
    """The same angles from -180 to 180."""
    return (degrees + 180) % 360 - 180


def degrees(value: float) -> str:
    return f"{value:.1f}°"


def per_km(value: float) -> str:
    return f"{value:.2f} /km"


def blocks_of(figures: dict[str, Any], grid: Grid, network: Surface, data: Surface) -> list[Block]:
    """What the report shows."""
    rows, columns = figures["cells"]
    learnt = "elevations and their slopes" if figures["sobolev"] else "elevations alone"
    layers = "-".join(map(str, figures["layers"]))
    return [
        Text(f"A network of sines, {layers}, learns {rows} x {columns} elevations near Jacksboro, Tennessee. The loss "
             f"is that of {learnt}. Its derivatives are exact at every point, where a grid allows only differences of "
             "neighbours; each row of maps shows both, and the network's minus the data's."),
        Cards([
            (Figure("RMSE metres", metres), f"RMSE of the elevation, of {figures['spread metres']:.0f} m spread"),
            (Figure("training seconds", seconds), f"for {figures['steps']} steps of {figures['batch']} cells"),
            (Figure("derivative seconds", seconds), f"for the derivatives at {rows * columns:,} cells"),
            (Figure("parameters", "{:,}".format), "parameters"),
        ]),
        Lines("Error of each batch, m", "step", [Line("RMSE", "batch RMSE metres", "blue")], log=True,
              every=figures["recorded every"]),
        Table("Network and central differences", ["", "RMS difference", "spread of the data"], [
            ["elevation", Figure("RMSE metres", metres), Figure("spread metres", metres)],
            ["slope", Figure("slope degrees", degrees), Figure("spread of slope", degrees)],
            ["aspect", Figure("aspect degrees", degrees), ""],
            ["mean curvature", Figure("curvature per km", per_km), Figure("spread of curvature", per_km)],
        ], note=f"Aspect only where the slope is above {FLAT:.0f}°. Elevations are whole metres, so second differences "
                "of neighbours carry some 0.1 /km of rounding, which the network does not follow."),
        maps("Elevation", (network.z, data.z), images.Colours("gist_earth", data.z.min(), data.z.max(), " m", 0.25), 40,
             grid, network),
        maps("Slope", (network.slope(), data.slope()), images.Colours("YlOrBr", 0, 30, "°"), 10, grid, network),
        maps("Aspect", (network.aspect(), data.aspect()), images.Colours("twilight", 0, 360, "°"), 90, grid, network),
        maps("Mean curvature", (network.curvature(), data.curvature()), images.Colours("PuOr_r", -2, 2, " /km"), 2,
             grid, network),
    ]  # fmt: skip


def maps(
    title: str, pair: tuple[np.ndarray, np.ndarray], colours: images.Colours, most: float, grid: Grid, network: Surface
) -> Pictures:
    """The network's map, the data's, and their difference up to `most` each way."""
    difference = pair[0] - pair[1]
    if title == "Aspect":
        difference = turn(difference)
    red_and_blue = images.Colours("RdBu_r", -most, most, colours.unit)
    source = "the data" if title == "Elevation" else "central differences"
    ground, cell = (network.z, grid.height), (grid.dx, grid.dy)
    drawn = [images.shaded(values, colours, height, cell) for values, height in zip(pair, ground, strict=True)]
    return Pictures(title, [
        Picture(drawn[0], f"{title} of the network", ["network"], colours.legend()),
        Picture(drawn[1], f"{title}, {source}", [source], colours.legend()),
        Picture(images.flat(difference, red_and_blue), f"{title}: network minus {source}", ["difference"],
                red_and_blue.legend()),
    ])  # fmt: skip
