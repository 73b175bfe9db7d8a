"""One page of several machines' results: python -m benchmarks report [A.json ...] [-o out/benchmarks.html]

The page needs no network and no script, follows light and dark, and can be read on a phone. Everything on it stands in
the files: medians, quartiles of the samples, counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..environment import place
from ..library_tables import TITLES
from ..regressions import files_in
from ..report import OURS, REPLAYS, SCALE, three_digits
from ..tables import RESULTS, WORKLOADS
from . import charts
from .charts import Ratio, text

STYLE = Path(__file__).parent / "page.css"
PYTORCH = ("torch", "torch.func")
MANY = 60  # cases: a workload with more is shown by its quartiles, and its slowest cases
SLOWEST = 12
SWEEPS = {  # a number in the names of cases, and what it is
    "width": "width of the hidden layers", "small width": "width of the hidden layers", "batch": "batch",
    "inputs": "inputs", "depth": "hidden layers",
}  # fmt: skip
NUMBER = re.compile(r"(small width|width|batch|inputs|depth) (\d+)")
LIBRARIES = (
    OURS, "torch", "torch.func", "jax", "jax eager", "push", "pull", "nested", "loop", "graph", "torch graph", *REPLAYS,
)  # fmt: skip
HOOKS = "saved_memory"
Case = dict[str, Any]
Result = dict[str, Any]


class Machine(NamedTuple):
    """Where results come from; its number is its colour."""

    mark: int
    name: str
    results: list[Result]


def machines(results: Sequence[Result]) -> tuple[list[Machine], list[str]]:
    """The machines, CPUs first; and a line for each result that a later one of the same machine replaces."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    replaced = []
    for result in sorted(results, key=lambda r: (r["device"], r["environment"]["date"])):
        if result["config"].get("tiny"):
            raise ValueError(f"{result['benchmark']} was run with --tiny, which measures nothing")
        name = result["environment"]["device"] if result["device"] != "cpu" else place(result["environment"], "cpu")
        group = found.setdefault((result["device"], name), {})
        if result["benchmark"] in group:
            date = group[result["benchmark"]]["environment"]["date"]
            replaced.append(f"{result['benchmark']} of {date[:10]} on {name} is replaced by that of "
                            f"{result['environment']['date'][:10]}")
        group[result["benchmark"]] = result
    order = {name: i for i, name in enumerate(WORKLOADS)}
    return [
        Machine(mark, name, sorted(group.values(), key=lambda r: order.get(r["benchmark"], len(order))))
        for mark, ((_, name), group) in enumerate(found.items())
    ], replaced  # fmt: skip


def pytorch(case: Case) -> str | None:
    return next((peer for peer in PYTORCH if peer in case["contenders"]), None)


def ratio_of(case: Case, machine: Machine, own: str = OURS) -> Ratio | None:
    """Our time over PyTorch's, and the quartiles of the quotients of the samples, which were taken in turns.

    `own`: which of ours, such as the compiled call.
    """
    peer = pytorch(case)
    if peer is None or own not in case["contenders"]:
        return None
    ours, theirs = case["contenders"][own], case["contenders"][peer]
    pairs = zip(ours["samples_s"], theirs["samples_s"], strict=False)
    low, _, high = statistics.quantiles([a / b for a, b in pairs], n=4)
    unit = case["unit"]
    title = (f"{machine.name}: {three_digits(ours['median_s'] * SCALE[unit])} {unit}, {TITLES[peer]} "
             f"{three_digits(theirs['median_s'] * SCALE[unit])} {unit}; {ours['median_s'] / theirs['median_s']:.3f}")
    return Ratio(machine.mark, ours["median_s"] / theirs["median_s"], low, high, title)


def summary_of(result: Result, machine: Machine, own: str) -> Ratio | None:
    """The median of a workload's ratios, and their quartiles."""
    ratios = [r.value for case in result["cases"] if (r := ratio_of(case, machine, own))]
    if not ratios:
        return None
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    faster = sum(ratio < 1 for ratio in ratios)
    title = f"{machine.name}: {faster} of {len(ratios)} cases are faster than PyTorch"
    return Ratio(machine.mark, middle, low, high, title)


# ---- ratios -----------------------------------------------------------------------------------------


def ratios(group: Sequence[Machine]) -> str:
    """A row per workload, which opens to its cases; a further one for each way in which ag.compile ran them."""
    parts = [charts.ratio_axis("", "ours / PyTorch")]
    for name, own in itertools.product(WORKLOADS, (OURS, *REPLAYS)):
        having = [(m, r) for m in group for r in m.results if r["benchmark"] == name]
        marks = [ratio for machine, result in having if (ratio := summary_of(result, machine, own))]
        if marks:
            rows, label = case_rows(having, own), name if own == OURS else f"{name}, {TITLES[own]}"
            parts.append(f"<details><summary>{charts.ratio_row(text(label), marks)}</summary>"
                         f'<div class="rows">{rows}</div></details>')
    return f'{charts.legend([m.name for m in group])}<div>{"".join(parts)}</div>'


def case_rows(having: Sequence[tuple[Machine, Result]], own: str) -> str:
    by_case: dict[str, list[Ratio]] = {}
    for machine, result in having:
        for case in result["cases"]:
            if ratio := ratio_of(case, machine, own):
                by_case.setdefault(case["case"], []).append(ratio)
    shown, note = list(by_case.items()), ""
    if len(shown) > MANY:
        note = f'<p class="note">The {SLOWEST} slowest and the {SLOWEST} fastest of {len(shown)} cases.</p>'
        shown.sort(key=lambda item: -max(ratio.value for ratio in item[1]))
        shown = shown[:SLOWEST] + shown[-SLOWEST:]
    return note + "".join(charts.ratio_row(text(name), marks) for name, marks in shown)


# ---- scaling ----------------------------------------------------------------------------------------


def sweeps(result: Result) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
    """The curves of a workload: (what varies, the rest of the cases' names) -> library -> (number, milliseconds)."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for case in result["cases"]:
        match = NUMBER.search(case["case"])
        if match is None:
            continue
        rest = " ".join(NUMBER.sub("", case["case"], 1).replace(", ,", ",").strip(", ").split())
        curves = found.setdefault((match[1], rest), {})
        for name in [name for name in LIBRARIES if name in case["contenders"]]:
            point = float(match[2]), case["contenders"][name]["median_s"] * 1e3
            curves.setdefault(name, []).append(point)
    return {
        key: {name: sorted(curve) for name, curve in curves.items() if len(curve) > 1}
        for key, curves in found.items() if max(map(len, curves.values())) > 2
    }  # fmt: skip


def scaling(group: Sequence[Machine]) -> str:
    figures: list[str] = []
    names: set[str] = set()
    varied: set[str] = set()
    for machine in group:
        for result in machine.results:
            for (kind, rest), by_name in sweeps(result).items():
                names |= by_name.keys()
                varied.add(SWEEPS[kind])
                marks = {name: LIBRARIES.index(name) for name in by_name}
                figure = charts.curves(by_name, marks, SWEEPS[kind], "ms", OURS)
                figures.append(f"<figure><figcaption>{text(result['benchmark'])}: {text(rest)}, over {SWEEPS[kind]}"
                               f"<small>ms, {text(machine.name)}</small></figcaption>{figure}</figure>")
    missing = sorted(set(SWEEPS.values()) - varied)
    note = f'<p class="note">No result varies: {text(", ".join(missing))}.</p>' if missing else ""
    shown = [name for name in LIBRARIES if name in names]
    legend = charts.legend([TITLES[name] for name in shown], [LIBRARIES.index(name) for name in shown])
    return f'{legend if shown else ""}<div class="charts">{"".join(figures)}</div>{note}'


# ---- hooks ------------------------------------------------------------------------------------------


def hooks(group: Sequence[Machine]) -> str:
    """What each hook holds between forward and backward, and the time of a step, for each activation."""
    figures = []
    for machine in group:
        for result in [r for r in machine.results if r["benchmark"] == HOOKS]:
            by_activation: dict[str, list[tuple[str, Case]]] = {}
            for case in result["cases"]:
                activation, _, hook = case["case"].partition(", ")
                by_activation.setdefault(activation, []).append((hook, case))
            for activation, cases in by_activation.items():
                figures.append(f"<figure><figcaption>{text(activation)}<small>{text(machine.name)}</small></figcaption>"
                               f"{hook_bars(cases, machine.mark)}</figure>")
    return f'<div class="charts wide">{"".join(figures)}</div>' if figures else "<p>Not measured.</p>"


def hook_bars(cases: Sequence[tuple[str, Case]], mark: int) -> str:
    rows = [(hook, c["contenders"][OURS]["counts"]["MiB held"], c["contenders"][OURS]["median_s"] * 1e3)
            for hook, c in cases]
    most, longest = max(row[1] for row in rows), max(row[2] for row in rows)
    cells = ['<span class="head"></span><span class="head">MiB held</span><span class="head">ms a step</span>']
    for hook, held, time in rows:
        cells.append(f'<span class="label">{text(hook)}</span>{charts.bar(held / most, f"{held:.0f}", mark)}'
                     f"{charts.bar(time / longest, three_digits(time), mark)}")
    return f'<div class="bars">{"".join(cells)}</div>'


# ---- the page ---------------------------------------------------------------------------------------


def provenance(group: Sequence[Machine]) -> str:
    rows = []
    for machine in group:
        dates = sorted({r["environment"]["date"][:10] for r in machine.results})
        commits = sorted({str(r["environment"]["commit"]) for r in machine.results})
        versions = {f"{name} {version}" for r in machine.results
                    for name, version in r["environment"]["versions"].items() if name in ("torch", "jax", "numpy")}
        failed = sum(len(r.get("failed", {})) for r in machine.results)
        cut = sum(len(r.get("planned", [])) - len(r["cases"]) - len(r.get("failed", {})) for r in machine.results
                  if r.get("planned"))  # fmt: skip
        rows.append([machine.name, " to ".join(dict.fromkeys([dates[0], dates[-1]])), ", ".join(commits),
                     ", ".join(sorted(versions)), f"{sum(len(r['cases']) for r in machine.results)}"
                     + (f", {failed} failed" if failed else "") + (f", {cut} not come to" if cut > 0 else "")])
    head = "".join(f"<th>{name}</th>" for name in ("machine", "measured", "commits", "versions", "cases"))
    body = "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def render(results: Sequence[Result]) -> str:
    """The page as HTML."""
    group, replaced = machines(results)
    sections = {
        "ratios": ("Time beside PyTorch", "Our time over PyTorch's, on a logarithmic axis: left of 1 ours is shorter. "
                   "A workload shows the median of its cases and their quartiles, and opens to its cases; a case shows "
                   "its median and the quartiles of its samples, which were taken in turns.", ratios(group)),
        "scaling": ("Scaling", "Medians; both axes are logarithmic.", scaling(group)),
        "hooks": ("Memory hooks", "Bytes that the graph holds between forward and backward, and the time of a step.",
                  hooks(group)),
        "machines": ("Machines", "",
                     provenance(group) + "".join(f'<p class="note">{text(line)}.</p>' for line in replaced)),
    }  # fmt: skip
    nav = "".join(f'<a href="#{key}">{title}</a>' for key, (title, _, _) in sections.items())
    body = "".join(f'<section id="{key}"><h2>{title}</h2>{f"<p>{words}</p>" if words else ""}{content}</section>'
                   for key, (title, words, content) in sections.items())
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>autograd_gpu: benchmarks</title>\n<style>\n{STYLE.read_text()}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>autograd_gpu: benchmarks</h1>\n<p>Results of {len(group)} machines. The libraries took turns in one "
            f"process; times are medians.</p>\n<nav>{nav}</nav>\n{body}\n"
            f"<footer>Written by <code>python -m benchmarks report</code>.</footer>\n</main>\n</body>\n</html>\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks report", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", nargs="*", type=Path, default=[RESULTS], metavar="FILE",
                        help=f"JSON of workloads, or folders of it (default: {RESULTS})")
    parser.add_argument("-o", "--out", type=Path, default=Path("out/benchmarks.html"), help="default: %(default)s")
    args = parser.parse_args(argv)
    files = files_in(args.results)
    if not files:
        parser.error(f"no JSON file in {', '.join(map(str, args.results))}; `python -m benchmarks` writes them")
    page = render([json.loads(file.read_text()) for file in files])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(page, encoding="utf-8")
    print(f"{len(files)} results in {args.out}")
    return 0
