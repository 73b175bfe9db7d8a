"""Writes the tables of README.md and of pages in docs/, and README's picture, from benchmarks/results/*.json.

    python -m benchmarks.tables --write              # replaces what stands between the markers of every page
    python -m benchmarks.tables --check README.md    # of some pages; exit code 1 if that would change one

The markers are <!-- NAME:begin --> and <!-- NAME:end -->, where NAME is `ratios` for README's cases, `headlines` for
a few of each workload, `bench` for the summaries of all workloads, `ops` for a table of every op, `memory` for the
tables of the memory hooks, `hessian` for second derivatives, `formulas` for code from formulas, and `scaling` for
several processes. Each cell of a table holds one figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import (
    headline_picture,
    headline_tables,
    hessian_tables,
    host_tables,
    kernel_tables,
    memory_tables,
    op_tables,
    scaling_tables,
)
from .environment import blas_kernels, place
from .library_tables import WIDTH, by_library

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md", "docs/pictures/headlines.svg", "docs/benchmarks.md", "docs/hessian-figures.md", "docs/memory.md",
    "docs/distributed-scaling.md", "docs/formulas.md", "docs/generated/op-speed.md",
)  # fmt: skip
WORKLOADS = (
    "small_graph", "unrolled", "transforms", "hessian", "train_mlp", "pinn", "compile_time", "optimizer_step",
    "foreach", "saved_memory", "programs", "kernels", "ops", "formulas", "host_time", "scaling",
)  # fmt: skip
NAMED = 8  # cases that were not measured, by name
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
    return render_whole(results, "saved_memory", memory_tables.whole)


def render_hessian(results: Sequence[dict[str, Any]]) -> str:
    """Markdown for the workload `hessian`."""
    return render_whole(results, "hessian", hessian_tables.whole)


def render_formulas(results: Sequence[dict[str, Any]]) -> str:
    """Markdown for the workload `formulas`."""
    return render_whole(results, "formulas", by_library)


def render_scaling(results: Sequence[dict[str, Any]]) -> str:
    """Markdown for the workload `scaling`, and what its model says of many GPUs."""
    measured = render_whole(results, "scaling", scaling_tables.whole)
    return "\n\n".join([*([measured] if measured else []), *scaling_tables.many_gpus(results)])


def render_whole(
    results: Sequence[dict[str, Any]], name: str, whole: Callable[[dict[str, Any]], str]
) -> str:
    """All tables of one workload, on each device."""
    parts = [
        [*([whole(r)] if r["cases"] else [heading(r)]), *gaps(r), provenance(r)]
        for r in results if r["benchmark"] == name
    ]  # fmt: skip
    return "\n\n".join(text for part in parts for text in part)


BLOCKS = {  # by the names of markers
    "ratios": headline_tables.render_three,
    "headlines": headline_tables.render,
    "bench": render,
    "ops": render_ops,
    "memory": render_memory,
    "hessian": render_hessian,
    "formulas": render_formulas,
    "scaling": render_scaling,
}


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
    return ["<br>\n".join([textwrap.fill(line, WIDTH) for line in lines])] if lines else []


SUMMARIES = {
    "ops": op_tables.summary,
    "kernels": kernel_tables.summary,
    "saved_memory": memory_tables.summary,
    "hessian": hessian_tables.summary,
    "host_time": host_tables.summary,
}


def provenance(result: dict[str, Any]) -> str:
    """Where and when the numbers were taken."""
    environment = result["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    where = place(environment, result["device"])
    text = f"<sub>{where}; Python {environment['python']}, {versions}; {environment['date'][:10]}.</sub>"
    return textwrap.fill(text, WIDTH)


def replace_blocks(text: str, results: Sequence[dict[str, Any]]) -> str:
    """`text` with the tables between its markers; ValueError if they are missing or out of order."""
    names = [name for name in BLOCKS if f"<!-- {name}:begin -->" in text]
    if not names:
        raise ValueError("no <!-- bench:begin --> ... <!-- bench:end --> to write the tables between")
    for name in names:
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
    pages = {"nargs": "*", "metavar": "FILE", "type": Path}
    action.add_argument("--check", help="exit code 1 if the tables of these files, of all pages without any, are old",
                        **pages)
    action.add_argument("--write", help="put the tables between the markers of these files, of all pages without any",
                        **pages)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    args = parser.parse_args(argv)
    files: Sequence[Path] = args.check or args.write or [ROOT / page for page in PAGES]
    results, old = load(args.results), 0
    for path in files:
        before = path.read_text()
        after = headline_picture.render(results) if path.suffix == ".svg" else replace_blocks(before, results)
        if after == before:
            continue
        if args.write is not None:
            path.write_text(after)
        else:
            print(f"{path} differs from {args.results}: run `python -m benchmarks.tables --write`")
            old = 1
    return old


if __name__ == "__main__":
    sys.exit(main())
