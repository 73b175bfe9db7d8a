"""Chapter 3: second derivatives of the network of `benchmarks/hessian.py`, by a loop of `grad` and by `func`.

Measured here and now, beside PyTorch, torch.func and JAX where they are installed. The committed results of another
machine, which has them all, are shown apart.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from .. import hessian
from ..environment import place
from ..library_tables import TITLES
from ..report import GRAPH, LOOP, OURS, TORCH_GRAPH, Report
from ..tables import RESULTS
from .story import MIB, Advance, Bar, Bars, Block, Cards, Figure, Settings, Story, Text, binary, milliseconds

TITLE = "Second derivatives"
CASES = {
    "Tanh, Hessian": ("Tanh", "hessian"),
    "Tanh, Laplacian": ("Tanh", "laplacian"),
    "ReLU, Hessian": ("ReLU", "hessian"),
}
COLOURS = {OURS: "blue", GRAPH: "green", LOOP: "sky", "torch": "orange", TORCH_GRAPH: "rose", "torch.func": "amber",
           "jax": "slate"}  # fmt: skip
PEERS = ("torch", "torch.func", "jax")
REPEATS = 5
BUSY = (
    "Other programs kept the processor busy: compare counts rather than times. PyTorch, whose threads wait for one "
    "another, suffers most."
)
BATCH = 250  # rows; `--full` takes as many as the committed results


def run(settings: Settings, advance: Advance) -> Story:
    """Measure each case, and read the committed ones."""
    today = {}
    for done, (case, (activation, part)) in enumerate(CASES.items()):
        advance(done / len(CASES), case)
        report = today[case] = measure(activation, part, settings)
        if report.failed:
            raise RuntimeError(f"{case}: {'; '.join(report.failed.values())}")
    figures = {
        "config": report.config,
        "repeats": report.cases[0]["repeats"],
        "absent": report.absent,
        "load per core": report.environment["load"][0] / report.environment["cores"],
        "measured on": place(report.environment, report.device),
        "today": {case: contenders(report.cases[0]) for case, report in today.items()},
        "committed": committed(report.device),
    }
    return Story(figures, blocks_of(figures))


def measure(activation: str, part: str, settings: Settings) -> Report:
    """One case of the workload."""
    words = ["--device", settings.device, "--activations", activation, "--parts", part, "--methods", LOOP]
    words += ["--sweeps", "none", "--precisions", "fp32", *(["--tiny"] if settings.tiny else [])]
    args = hessian.parser().parse_args(words)
    if not settings.full:
        args.batch, args.repeats = BATCH, REPEATS
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(torch|jax)\b")  # what peers warn of in their own code is theirs
        return hessian.run(args)


def contenders(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Library -> time, products and peak bytes of one call; what was not counted is absent."""
    keys = {"hidden products": "products", "peak bytes": "peak bytes"}
    return {
        name: {"seconds": one["median_s"]} | {keys[was]: count for was, count in one["counts"].items() if was in keys}
        for name, one in case["contenders"].items() if name in COLOURS
    }  # fmt: skip


def committed(device: str) -> dict[str, Any]:
    """The same cases of the results in the repository, as far as they were measured, and where."""
    result = json.loads((RESULTS / f"{device}-hessian.json").read_text())
    by_name = {case["case"].removesuffix(", FP32"): case for case in result["cases"]}
    return {
        "measured on": place(result["environment"], device),
        "date": result["environment"]["date"][:10],
        "batch": result["config"]["batch"],
        "cases": {case: contenders(by_name[case]) for case in CASES if case in by_name},
    }


def blocks_of(figures: dict[str, Any]) -> list[Block]:
    """What the report shows."""
    config, past, today = figures["config"], figures["committed"], figures["today"]
    network = f"2 inputs, {config['layers']} hidden layers of {config['hidden']}, 3 outputs"
    absent = [f"{TITLES[peer]} was not measured: {figures['absent'][peer]}." for peer in PEERS
              if peer in figures["absent"]]  # fmt: skip
    busy = [BUSY] if figures["load per core"] > 2 else []
    there = f"{past['measured on']}, {past['date']}, {past['batch']} rows."
    there += "".join([f" {case} was not measured there." for case in CASES if case not in past["cases"]])
    where = f"{figures['measured on']}, today, {config['batch']} rows, medians of {figures['repeats']} taken in turns."
    blocks: list[Block] = [
        Text(f"Physics-informed networks need the second derivatives of their output by their input, here at "
             f"{config['batch']} points of a network with {network}. A loop calls grad on each component of the "
             "gradient; func carries first and second derivatives through the network once."),
        Cards([
            (Figure(f"today/Tanh, Hessian/{OURS}/seconds", milliseconds), "for the Hessian by func"),
            (Figure(f"today/Tanh, Hessian/{LOOP}/seconds", milliseconds), "for the Hessian by the loop"),
            (Figure(f"today/Tanh, Hessian/{OURS}/products"), "hidden products by func"),
            (Figure(f"today/Tanh, Hessian/{LOOP}/products"), "hidden products by the loop"),
        ]),
        Bars("Time of a call", bars("today", today, "seconds", milliseconds), 1e-3,
             note=" ".join([where, *busy, *absent])),
        Bars("Committed figures, time of a call", bars("committed/cases", past["cases"], "seconds", milliseconds), 1e-3,
             committed=True, note=f"{there} Compare these bars with one another, not with today's."),
        Bars("Matrix products of the hidden layers", bars("today", today, "products", str),
             note="Each of rows x width x width. Those of JAX cannot be counted: it compiles them."),
        Bars("Peak memory", bars("today", today, "peak bytes", binary), MIB,
             note="Bytes of arrays that a call allocates at its peak. Other libraries do not report theirs."),
    ]  # fmt: skip
    return blocks


def bars(path: str, cases: dict[str, Any], key: str, write: Any) -> list[tuple[str, list[Bar]]]:
    """A group for each case, of the libraries that have this figure."""
    return [
        (case, [Bar(label(name), Figure(f"{path}/{case}/{name}/{key}", write), COLOURS[name])
                for name, one in by_library.items() if key in one])
        for case, by_library in cases.items()
    ]  # fmt: skip


def label(name: str) -> str:
    """What the chapter calls a contender: ours are two."""
    return {OURS: "func", LOOP: "loop of grad"}.get(name, TITLES[name])
