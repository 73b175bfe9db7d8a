"""Tables of one workload: a row per case, a column per library with its time and the ratio of ours to it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from .op_tables import APART, row
from .report import (
    COMPILED,
    GRAPH,
    LOOP,
    OURS,
    REPLAY,
    REPLAYED_GRAPH,
    REPLAYED_LOOP,
    REPLAYED_NUMPY,
    REPLAYS,
    SCALE,
    TORCH_GRAPH,
    three_digits,
)

TITLES = {
    OURS: "autograd_gpu",
    GRAPH: "our graph",
    REPLAY: "our compiled",
    REPLAYED_NUMPY: "compiled, no native code",
    REPLAYED_LOOP: "our loop compiled",
    REPLAYED_GRAPH: "our compiled graph",
    TORCH_GRAPH: "PyTorch's graph",
    COMPILED: "torch.compile",
    LOOP: "a loop of ours",
    "torch": "PyTorch",
    "torch.func": "torch.func",
    "jax": "JAX jit",
    "jax eager": "JAX without jit",
    "numpy": "NumPy alone",
    "push": "by push",
    "pull": "by pull",
    "nested": "nested",
    "NumPy code": "without native code",
}
JUDGES = ("torch", "jax")  # peers of compiled calls
NONE: dict[str, Any] = {"counts": {}}  # of a library that was not measured in a case
SHOWN_COUNTS = {
    "hidden products": "Matrix products", "matrix products": "Matrix products",
    "compiled": "Functions that became machine code",
}  # fmt: skip
WIDTH = 120  # columns of a line of prose
Case = dict[str, Any]


def by_library(result: dict[str, Any]) -> str:
    """A row per case; a column per library with its time, and one per peer with the ratio of ours to it."""
    cases = result["cases"]
    names = libraries(cases)
    peers = [name for name in names if name != OURS]
    unit = common_unit(cases)
    shown = "" if unit is None or f" {unit} " in result["title"] else f", {unit}"
    parts = [f"**{result['title']}** (medians of {repeats(cases)}{shown})", compared(cases, names, peers)]
    parts.append(replays_compared(cases))
    if result["summary"]:
        rows = [[label, *[f"{values[name]:.2f}" if name in values else "-" for name in names]]
                for label, values in result["summary"].items()]
        parts.append(table(["", *[TITLES[name] for name in names]], rows))
    parts += [counted(cases, names, key, title) for key, title in SHOWN_COUNTS.items()]
    notes = [f"{case['case']}: {note}." for case in cases for note in [*case["notes"], *by_minima(case)]]
    return "\n\n".join([*filter(None, parts), *([collapsed(notes)] if notes else [])])


def libraries(cases: Sequence[Case]) -> list[str]:
    """The contenders of all cases, in their order."""
    return list(dict.fromkeys(name for case in cases for name in case["contenders"]))


def repeats(cases: Sequence[Case]) -> int:
    """How many samples each median is of, at least."""
    return min(case["repeats"] for case in cases)


def common_unit(cases: Sequence[Case]) -> str | None:
    """The unit of all cases; None if they differ."""
    units = {case["unit"] for case in cases}
    return units.pop() if len(units) == 1 else None


def compared(cases: Sequence[Case], names: Sequence[str], peers: Sequence[str]) -> str:
    """The times of libraries, and the ratios of ours to some of them."""
    unit = common_unit(cases)
    header = ["", *[TITLES[name] for name in names], *[f"/ {TITLES[name]}" for name in peers]]
    return table(header, [
        [case["case"], *[time(case, name, unit) for name in names], *[ratio(case, name) for name in peers]]
        for case in cases
    ])


def replays_compared(cases: Sequence[Case]) -> str:
    """The times of compiled calls over those of peers; empty if none were measured."""
    names = libraries(cases)
    pairs = [(own, peer) for own in REPLAYS if own in names for peer in JUDGES if peer in names]
    if not pairs:
        return ""
    rows = [[case["case"], *[quotient(case, own, peer) for own, peer in pairs]] for case in cases
            if any(own in case["contenders"] for own, _ in pairs)]
    return table(["", *[f"{TITLES[own]} / {TITLES[peer]}" for own, peer in pairs]], rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table: text in the first column, figures in the others."""
    return "\n".join([row(header), row(["---", *["---:"] * (len(header) - 1)]), *map(row, rows)])


def time(case: Case, name: str, unit: str | None) -> str:
    """The median time of a library, with its unit unless the heading says it."""
    if name not in case["contenders"]:
        return "-"
    text = three_digits(case["contenders"][name]["median_s"] * SCALE[case["unit"]])
    return text if unit else f"{text} {case['unit']}"


def ratio(case: Case, name: str) -> str:
    """Our median time over that of a peer."""
    return f"{case['contenders'][name]['ratio']:.2f}" if name in case["contenders"] else "-"


def quotient(case: Case, own: str, peer: str) -> str:
    """The median time of one contender over that of another."""
    times = [case["contenders"][name]["median_s"] for name in (own, peer) if name in case["contenders"]]
    return f"{times[0] / times[1]:.2f}" if len(times) == 2 else "-"


def by_minima(case: Case, names: Sequence[str] = tuple(TITLES)) -> list[str]:
    """A note for each peer among `names` whose ratio of minima differs from that of the medians (APART)."""
    notes = []
    for name in [name for name in case["contenders"] if name in names]:
        result = case["contenders"][name]
        pair = result["ratio"], result["ratio_min"]
        if name != OURS and max(pair) > APART * min(pair):
            notes.append(f"ours / {TITLES[name]} is {pair[1]:.2f} by the minima")
    return notes


def counted(
    cases: Sequence[Case], names: Sequence[str], key: str, title: str, shown: Callable[[Any], str] = str
) -> str:
    """A table of one count, of the libraries that have it; empty if none has."""
    counts = {name: [case["contenders"].get(name, NONE)["counts"].get(key) for case in cases] for name in names}
    having = [name for name in names if any(count is not None for count in counts[name])]
    if not having:
        return ""
    rows = [[case["case"], *["-" if counts[name][i] is None else shown(counts[name][i]) for name in having]]
            for i, case in enumerate(cases)]
    return table([title, *[TITLES[name] for name in having]], rows)


def collapsed(notes: Sequence[str]) -> str:
    """Remarks below a table, folded."""
    lines = [textwrap.fill(f"* {note}", WIDTH, subsequent_indent="  ") for note in notes]
    return "\n".join(["<details><summary>Notes</summary>", "", *lines, "", "</details>"])
