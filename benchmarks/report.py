"""A benchmark's result: collected case by case, shown as a table, written as JSON.

Fields of the JSON file (times in seconds):

    schema       1
    benchmark    name of the workload, `title` its heading
    device       "cpu" or "cuda"
    config       sizes and other settings of the run
    environment  see environment.py
    absent       {peer: why it was not measured}
    planned      what was to be measured, by the names of cases: those that `cases` lacks were not come to
    failed       {name of a case: the error that it ended with}
    cases        a list; each case has
        case         what was measured
        unit         unit for display: "ms" or "us"
        repeats      samples per contender, taken in turns in this one run
        contenders   {name: {median_s, min_s, samples_s, calls_per_sample, ratio, ratio_min, counts}}
                     ratio: OUR median over this contender's; below 1 means that ours is faster
                     ratio_min: the same of the minima, which a busy machine disturbs less
                     counts: numbers that do not depend on the machine, such as products executed
        notes        remarks for the reader, such as the variant that a peer ran
    summary      {name: figure} for figures that span cases
    series       {name: {library: [...]}} for curves over a run

The file is written anew after each case, and is whole at any time.
"""

from __future__ import annotations

import functools
import json
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .environment import environment, place
from .timing import Timing

OURS = "autograd_gpu"
GRAPH, TORCH_GRAPH = "graph", "torch graph"  # ours and PyTorch's as CUDA graphs
REPLAY, REPLAYED_LOOP = "compiled", "compiled loop"  # ours by ag.compile
REPLAYED_NUMPY = "compiled, NumPy code"  # the same without native code
REPLAYED_GRAPH = "compiled graph"  # ours by ag.compile(mode="reduce-overhead")
REPLAYS = (REPLAY, REPLAYED_NUMPY, REPLAYED_LOOP, REPLAYED_GRAPH)
COMPILED = "torch compiled"  # by torch.compile(mode="reduce-overhead"), which captures CUDA graphs, too
NUMPY_CODE = "NumPy code"  # ours without native code
LOOP = "loop"  # ours, too, where one call is compared with many
SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}
PIPE_WIDTH = 150  # columns when the output is no terminal


class Report:
    """The results of one run of one workload; with a `path` they are written there as they come."""

    def __init__(
        self,
        benchmark: str,
        title: str,
        device: str,
        config: Mapping[str, Any],
        absent: Mapping[str, str],
        path: str | Path | None = None,
    ):
        self.benchmark, self.title, self.device = benchmark, title, device
        self.config, self.absent, self.path = dict(config), dict(absent), path
        self.planned: list[str] = []
        self.failed: dict[str, str] = {}
        self.cases: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.series: dict[str, dict[str, list[float]]] = {}

    def plan(self, cases: Iterable[str]) -> None:
        """Says which cases are to come, before any is measured."""
        self.planned = list(cases)
        self.save()

    def add(
        self,
        case: str,
        timings: Mapping[str, Timing],
        *,
        unit: str = "ms",
        counts: Mapping[str, Mapping[str, Any]] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Add one case: `timings` and `counts` by contender; ours must be among the timings."""
        ours = timings[OURS]
        contenders = {
            name: {
                "median_s": timing.median,
                "min_s": timing.min,
                "samples_s": [float(f"{seconds:.4g}") for seconds in timing.samples],
                "calls_per_sample": timing.calls,
                "ratio": ours.median / timing.median,
                "ratio_min": ours.min / timing.min,
                "counts": dict((counts or {}).get(name, {})),
            }
            for name, timing in timings.items()
        }
        repeats = len(ours.samples)
        self.cases.append(
            {"case": case, "unit": unit, "repeats": repeats, "contenders": contenders, "notes": list(notes)}
        )
        self.save()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Cases that were measured in turns are written together: hundreds of times the whole file takes long."""
        path, self.path = self.path, None
        try:
            yield
        finally:
            self.path = path
            self.save()

    @contextmanager
    def attempt(self, *cases: str) -> Iterator[None]:
        """An error inside is noted as that of these cases, and the run goes on; its end tells."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.failed |= dict.fromkeys(cases, f"{type(error).__name__}: {error}")
            self.save()

    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        """As it is when this is first asked."""
        return environment(self.device)

    def as_dict(self) -> dict[str, Any]:
        """The fields that this module's docstring lists."""
        return {
            "schema": 1,
            "benchmark": self.benchmark,
            "title": self.title,
            "device": self.device,
            "config": self.config,
            "environment": self.environment,
            "absent": self.absent,
            "planned": self.planned,
            "failed": self.failed,
            "cases": self.cases,
            "summary": self.summary,
            "series": self.series,
        }

    def save(self) -> None:
        """Write the JSON file, if the report has one: beside, then in its place."""
        if self.path is None:
            return
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_dict(), indent=1)
        text = re.sub(r"\[[^][{}\"]*\]", lambda numbers: " ".join(numbers[0].split()), text)  # samples on one line
        part = path.with_name(f"{path.name}.part")
        part.write_text(text + "\n")
        os.replace(part, path)

    def rows(self) -> list[tuple[str, ...]]:
        """One row per case and contender: case, contender, median, min, ratio, counts."""
        rows: list[tuple[str, ...]] = []
        for case in self.cases:
            unit, label = case["unit"], case["case"]
            for name, result in case["contenders"].items():
                median, smallest = (result[key] * SCALE[unit] for key in ("median_s", "min_s"))
                ratio = "" if name == OURS else f"{result['ratio']:.2f}x"
                counts = ", ".join(f"{key} {value:,}" for key, value in result["counts"].items())
                rows.append((label, name, f"{median:.4g} {unit}", f"{smallest:.4g} {unit}", ratio, counts))
                label = ""
        return rows

    def print(self) -> None:
        """Print the table, with rich where it is installed."""
        header = ("case", "library", "median", "min", "ours / it", "counts")
        print_table(self.title, header, self.rows())
        print(f"  measured on {place(self.environment, self.device)}")
        for case in self.cases:
            for note in case["notes"]:
                print(f"  {case['case']}: {note}")
        for peer, reason in self.absent.items():
            print(f"  {peer}: not measured, {reason}")
        for name, value in self.summary.items():
            print(f"  {name}: {value}")
        for case, error in self.failed.items():
            print(f"  {case}: failed, {error}")


def three_digits(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 else f"{value:.6f}"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with rich, or as aligned plain text where rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        print(f"\n{title}")
        for row in (header, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if 2 <= i <= 4 else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: `[a, b]` is no markup
    console = Console()
    (console if console.is_terminal else Console(width=PIPE_WIDTH)).print(table)
