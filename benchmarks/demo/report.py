"""The demo's report: the figures as JSON, the training curves as PNG, both in one HTML file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import jinja2

from ..environment import blas_kernels, environment
from ..library_tables import TITLES
from ..plots import COLOURS, INK, new_figure, save
from ..report import OURS, SCALE, Report
from .training import Outcome

TEMPLATE = "report.html.j2"


def collect(outcome: Outcome, measured: Report, device: str, seed: int, target: float) -> dict[str, Any]:
    """Everything that the report tells, as plain values."""
    where = environment(device)
    return {
        "accuracy": outcome.test_accuracy[-1],
        "target": target,
        "reached": outcome.test_accuracy[-1] >= target,
        "seconds": outcome.seconds,
        "epochs": len(outcome.loss),
        "seed": seed,
        "parameters": outcome.parameters,
        "device": device,
        "curves": {
            "loss": outcome.loss,
            "test_loss": outcome.test_loss,
            "train_accuracy": outcome.train_accuracy,
            "test_accuracy": outcome.test_accuracy,
        },
        "classes": [scores._asdict() for scores in outcome.per_class()],
        "confusion": outcome.confusion.tolist(),
        "hessian": {
            "title": measured.title,
            "product": "{batch} x {hidden} x {hidden}".format(**measured.config),
            "absent": measured.absent,
            "rows": hessian_rows(measured),
        },
        "environment": where,
        "blas": blas_kernels(where),
    }


def hessian_rows(measured: Report) -> list[dict[str, Any]]:
    """One row per case and library, with times in the case's unit."""
    rows = []
    for case in measured.cases:
        slowest = max(result["median_s"] for result in case["contenders"].values())
        for name, result in case["contenders"].items():
            rows.append(
                {
                    "case": case["case"],
                    "library": TITLES[name],
                    "ours": name == OURS,
                    "products": result["counts"]["hidden products"],
                    "median": result["median_s"] * SCALE[case["unit"]],
                    "unit": case["unit"],
                    "ratio": result["ratio"],
                    "share": result["median_s"] / slowest,
                }
            )
    return rows


def draw_training(outcome: Outcome, path: Path, target: float) -> None:
    """Loss on a log scale, and accuracy with the target, over the epochs."""
    figure, (left, right) = new_figure(2, width=4.6, height=3.2)
    epochs = range(1, len(outcome.loss) + 1)
    blue, orange = COLOURS[OURS], COLOURS["torch"]
    for ax, learnt, unseen in (
        (left, outcome.loss, outcome.test_loss),
        (right, outcome.train_accuracy, outcome.test_accuracy),
    ):
        marker = "o" if len(epochs) == 1 else None
        ax.plot(epochs, learnt, color=blue, lw=1.8, marker=marker, label="training digits")
        ax.plot(epochs, unseen, color=orange, lw=1.8, marker=marker, label="test digits")
        ax.set_xlabel("epoch", color=INK)
        ax.xaxis.get_major_locator().set_params(integer=True)
    left.set_yscale("log")
    left.set_title("Cross entropy", fontsize=11, color=INK, loc="left")
    right.set_title("Accuracy", fontsize=11, color=INK, loc="left")
    right.axhline(target, color=INK, lw=1, ls=":")
    right.annotate(
        f"target {target:.0%}", (1, target), xytext=(0, -3), textcoords="offset points",
        xycoords=("axes fraction", "data"), ha="right", va="top", fontsize=9, color=INK,
    )  # fmt: skip
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    right.set_ylim(max(0.0, min(outcome.test_accuracy) - 0.02), 1.005)
    left.legend(frameon=False, fontsize=9)
    save(figure, path)


def write_html(story: dict[str, Any], picture: Path, path: Path) -> None:
    """One file with everything inside, to be opened or sent as it is."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    image = base64.b64encode(picture.read_bytes()).decode()
    path.write_text(templates.get_template(TEMPLATE).render(**story, image=image), encoding="utf-8")
