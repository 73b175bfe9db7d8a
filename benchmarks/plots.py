"""Pictures of results; needs matplotlib."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from .report import (
    COMPILED,
    GRAPH,
    LOOP,
    NUMPY_CODE,
    OURS,
    REPLAY,
    REPLAYED_GRAPH,
    REPLAYED_LOOP,
    REPLAYED_NUMPY,
    SCALE,
    TORCH_GRAPH,
    Report,
    three_digits,
)

COLOURS = {
    OURS: "#2b6cb0",
    "torch": "#dd6b20",
    "torch.func": "#ecc94b",
    "jax": "#718096",
    "numpy": "#cbd5e0",
    "push": "#4299e1",  # our methods
    "pull": "#63b3ed",
    "nested": "#90cdf4",
    LOOP: "#bee3f8",
    GRAPH: "#2c5282",
    REPLAY: "#38a169",
    REPLAYED_NUMPY: "#68d391",
    REPLAYED_LOOP: "#9ae6b4",
    REPLAYED_GRAPH: "#276749",
    NUMPY_CODE: "#a0aec0",
    TORCH_GRAPH: "#9c4221",
    COMPILED: "#dd8a50",
}
INK = "#2d3748"


def new_figure(columns: int, width: float = 4.2, height: float = 3.4) -> tuple[Any, list[Any]]:
    """A figure of `columns` axes side by side, without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(colors=INK, labelsize=9)
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="#e2e8f0")
    return figure, axes


def save(figure: Any, path: str | Path) -> None:
    """Write the figure as PNG, making its folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, facecolor="white")


def plot_report(report: Report, path: str | Path) -> None:
    """One panel per case, one bar per library, each with its time; the whisker ends at the minimum."""
    figure, axes = new_figure(len(report.cases), width=2.9)
    for ax, case in zip(axes, report.cases, strict=True):
        scale = SCALE[case["unit"]]
        names = list(case["contenders"])
        medians = [case["contenders"][name]["median_s"] * scale for name in names]
        minima = [case["contenders"][name]["min_s"] * scale for name in names]
        bars = ax.bar(names, medians, color=[COLOURS[name] for name in names], width=0.65)
        spread = [m - low for m, low in zip(medians, minima, strict=True)]
        ax.errorbar(names, medians, yerr=[spread, [0] * len(names)], fmt="none", ecolor=INK, lw=1, capsize=3)
        ax.bar_label(bars, fmt=three_digits, fontsize=9, color=INK, padding=2)
        ax.set_title(textwrap.fill(case["case"], 28), fontsize=10, color=INK)
        ax.set_ylabel(case["unit"], color=INK)
        ax.tick_params(axis="x", rotation=25)
        ax.margins(y=0.15)
    figure.suptitle(report.title, fontsize=11, color=INK)
    save(figure, path)
