"""Writes the result tables of README.md, docs/memory.md and docs/generated/op-speed.md from benchmarks/results/*.json.

    python -m benchmarks.tables --write README.md    # replaces what stands between the markers
    python -m benchmarks.tables --check README.md    # exit code 1 if that would change the file

The markers are <!-- NAME:begin --> and <!-- NAME:end -->, where NAME is `bench` for the summary of all workloads, `ops`
for a table of every op, and `memory` for the tables of the memory hooks. Each cell of a table holds one figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import kernel_tables, memory_tables, op_tables
from .environment import blas_kernels, place
from .op_tables import APART, row
from .report import LOOP, OURS, SCALE, three_digits

RESULTS = Path(__file__).parent / "results"
WORKLOADS = (
    "small_graph", "unrolled", "transforms", "hessian", "train_mlp", "optimizer_step", "foreach",
    "saved_memory", "kernels", "ops",
)  # fmt: skip
TITLES = {
    OURS: "autograd_gpu",
    LOOP: "a loop of ours",
    "torch": "PyTorch",
    "torch.func": "torch.func",
    "jax": "JAX jit",
    "jax eager": "JAX without jit",
    "numpy": "NumPy alone",
}
NONE: dict[str, Any] = {"counts": {}}  # of a library that was not measured in a case
NAMED = 8  # cases that were not measured, by name
SHOWN_COUNTS = {"hidden products": "Matrix products", "matrix products": "Matrix products"}
WIDTH = 120  # columns of a line of prose
READING = (
    "The libraries take turns in one process. A column `/ PyTorch` is our time over PyTorch's: below 1, ours is "
    "shorter. Times are medians. A note names the cases in which the ratio of the fastest samples (minima) differs "
    "from that of the medians by more than 15 %. `python -m benchmarks` measures everything again."
)


def load(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The results in a folder, CPU before CUDA, in the order of WORKLOADS."""
    paths = [folder / f"{device}-{name}.json" for device in ("cpu", "cuda") for name in WORKLOADS]
    results = [json.loads(path.read_text()) for path in paths if path.exists()]
    for result in results:
        if result["config"]["tiny"]:
            raise ValueError(f"{result['benchmark']} was run with --tiny, which measures nothing")
    return results


def render(results: Sequence[dict[str, Any]]) -> str:
    """Markdown for all results: how to read them, then the tables of each device and where they were measured."""
    parts = [textwrap.fill(READING, WIDTH)] if results else []
    for device in dict.fromkeys(result["device"] for result in results):
        group = [result for result in results if result["device"] == device]
        parts += [render_one(result) for result in group]
        parts += dict.fromkeys(provenance(result) for result in group)
    return "\n\n".join(parts)


def render_ops(results: Sequence[dict[str, Any]]) -> str:
    """Markdown for every op of the workload `ops`."""
    parts = [
        [f"## {r['title']}", *([op_tables.whole(r)] if r["cases"] else []), *gaps(r), provenance(r)]
        for r in results if r["benchmark"] == "ops"
    ]  # fmt: skip
    return "\n\n".join(text for part in parts for text in part)


def render_memory(results: Sequence[dict[str, Any]]) -> str:
    """Markdown for the workload `saved_memory`."""
    parts = [
        [*([memory_tables.whole(r)] if r["cases"] else [heading(r)]), *gaps(r), provenance(r)]
        for r in results if r["benchmark"] == "saved_memory"
    ]  # fmt: skip
    return "\n\n".join(text for part in parts for text in part)


BLOCKS = {"bench": render, "ops": render_ops, "memory": render_memory}  # by the names of markers


def render_one(result: dict[str, Any]) -> str:
    """What was measured as a table, and what was not."""
    table = SUMMARIES.get(result["benchmark"], by_library) if result["cases"] else heading
    return "\n\n".join([table(result), *kernels_of_blas(result), *gaps(result)])


def kernels_of_blas(result: dict[str, Any]) -> list[str]:
    """A line below a table of the CPU: another processor's kernels make another table."""
    names = blas_kernels(result["environment"]) if result["device"] == "cpu" else []
    return [f"<sub>{', '.join(names)}.</sub>"] if names else []


def heading(result: dict[str, Any]) -> str:
    """All there is to show of a run that has measured nothing."""
    return f"**{result['title']}**"


def gaps(result: dict[str, Any]) -> list[str]:
    """A line for the cases that a run did not come to, one for each that failed. Older files name none."""
    planned, failed = result.get("planned", []), result.get("failed", {})
    done = {case["case"] for case in result["cases"]} | failed.keys()
    missing = [case for case in planned if case not in done]
    lines = [f"<sub>{case} failed: {' '.join(error.split())}</sub>" for case, error in failed.items()]
    if missing:
        more = f", and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        named = "; ".join(missing[:NAMED]) + more
        lines.insert(0, f"<sub>Cut short: {len(missing)} of {len(planned)} cases were not measured: {named}.</sub>")
    return ["<br>\n".join(lines)] if lines else []


def by_library(result: dict[str, Any]) -> str:
    """A row per case; a column per library with its time, and one per peer with the ratio of ours to it."""
    cases = result["cases"]
    names = list(dict.fromkeys(name for case in cases for name in case["contenders"]))
    peers = [name for name in names if name != OURS]
    units = list(dict.fromkeys(case["unit"] for case in cases))
    unit = units[0] if len(units) == 1 else None
    header = ["", *[TITLES[name] for name in names], *[f"/ {TITLES[name]}" for name in peers]]
    rows = [[case["case"], *[time(case, name, unit) for name in names], *[ratio(case, name) for name in peers]]
            for case in cases]
    repeats = min(case["repeats"] for case in cases)
    shown = "" if unit is None or f" {unit} " in result["title"] else f", {unit}"
    parts = [f"**{result['title']}** (medians of {repeats}{shown})", table(header, rows)]
    if result["summary"]:
        rows = [[label, *[f"{values[name]:.2f}" if name in values else "-" for name in names]]
                for label, values in result["summary"].items()]
        parts.append(table(header[: 1 + len(names)], rows))
    parts += counted(cases, names)
    notes = [f"{case['case']}: {note}." for case in cases for note in [*case["notes"], *by_minima(case)]]
    return "\n\n".join([*parts, *([collapsed(notes)] if notes else [])])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table: text in the first column, figures in the others."""
    return "\n".join([row(header), row(["---", *["---:"] * (len(header) - 1)]), *map(row, rows)])


def time(case: dict[str, Any], name: str, unit: str | None) -> str:
    """The median time of a library, with its unit unless the heading says it."""
    if name not in case["contenders"]:
        return "-"
    text = three_digits(case["contenders"][name]["median_s"] * SCALE[case["unit"]])
    return text if unit else f"{text} {case['unit']}"


def ratio(case: dict[str, Any], name: str) -> str:
    """Our median time over that of a peer."""
    return f"{case['contenders'][name]['ratio']:.2f}" if name in case["contenders"] else "-"


def by_minima(case: dict[str, Any]) -> list[str]:
    """A note for each peer whose ratio of minima differs from that of the medians (APART)."""
    found = []
    for name, result in case["contenders"].items():
        pair = result["ratio"], result["ratio_min"]
        if name != OURS and max(pair) > APART * min(pair):
            found.append(f"ours / {TITLES[name]} is {pair[1]:.2f} by the minima")
    return found


def counted(cases: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    """A table for each count in SHOWN_COUNTS, of the libraries that have it."""
    parts = []
    for key, title in SHOWN_COUNTS.items():
        found = {name: [case["contenders"].get(name, NONE)["counts"].get(key, "-") for case in cases] for name in names}
        having = [name for name in names if any(count != "-" for count in found[name])]
        if having:
            rows = [[case["case"], *[str(found[name][i]) for name in having]] for i, case in enumerate(cases)]
            parts.append(table([title, *[TITLES[name] for name in having]], rows))
    return parts


def collapsed(notes: Sequence[str]) -> str:
    """Remarks below a table, folded."""
    lines = [textwrap.fill(f"* {note}", WIDTH, subsequent_indent="  ") for note in notes]
    return "\n".join(["<details><summary>Notes</summary>", "", *lines, "", "</details>"])


SUMMARIES = {"ops": op_tables.summary, "kernels": kernel_tables.summary, "saved_memory": memory_tables.summary}


def provenance(result: dict[str, Any]) -> str:
    """Where and when the numbers were taken."""
    environment = result["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    where = place(environment, result["device"])
    text = f"<sub>{where}; Python {environment['python']}, {versions}; {environment['date'][:10]}.</sub>"
    return textwrap.fill(text, WIDTH)


def replace_blocks(text: str, results: Sequence[dict[str, Any]]) -> str:
    """`text` with the tables between its markers; ValueError if they are missing or out of order."""
    found = [name for name in BLOCKS if f"<!-- {name}:begin -->" in text]
    if not found:
        raise ValueError("no <!-- bench:begin --> ... <!-- bench:end --> to write the tables between")
    for name in found:
        start, end = text.find(f"<!-- {name}:begin -->"), text.find(f"<!-- {name}:end -->")
        if end < start:
            raise ValueError(f"no <!-- {name}:end --> after <!-- {name}:begin -->")
        text = f"{text[:start]}<!-- {name}:begin -->\n{BLOCKS[name](results)}\n{text[end:]}"
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Checks or writes a file; returns the exit code."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=summary)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", metavar="FILE", type=Path, help="exit code 1 if the tables are old")
    action.add_argument("--write", metavar="FILE", type=Path, help="put the tables between the markers")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    args = parser.parse_args(argv)
    path: Path = args.check or args.write
    old = path.read_text()
    new = replace_blocks(old, load(args.results))
    if args.write:
        path.write_text(new)
    elif new != old:
        print(f"{path} differs from {args.results}: run `python -m benchmarks.tables --write {path}`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
