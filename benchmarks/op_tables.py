"""Tables of the workload `ops`: a summary for README, all ops for docs/op-speed.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .report import OURS, SCALE, three_digits

LARGE = "10^6: "  # how the names of cases on a million elements begin
WORST = 5
APART = 1.15  # ratios of medians and of minima that differ by this factor are both shown
Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """The median, the commonest ops, the slowest ones, and large arrays beside NumPy."""
    small, large = split(result)
    commonest = [case for case in small if case["case"] in result["config"]["commonest"]]
    above = [case for case in commonest if ratio(case, "torch") > 1]
    floored = [case for case in above if ratio(case, "torch") > ratio(case, "numpy")]  # NumPy above PyTorch
    rows: list[Sequence[str]] = []
    if measured(small, "torch"):
        rows = [
            (f"2x2 beside PyTorch: median of {len(small)} ops", f"{median(small, 'torch'):.2f}x"),
            (f"the {len(commonest)} commonest", listed(commonest, "torch")),
            ("of these above 1x, while NumPy alone is slower than PyTorch", listed(floored, "torch") or "none"),
            (f"the {WORST} slowest of all", listed(slowest(small, "torch"), "torch")),
        ]
    if measured(large, "numpy"):
        rows += [
            (f"10^6 elements beside NumPy: median of {len(large)} ops", f"{median(large, 'numpy'):.2f}x"),
            (f"the {WORST} slowest of all", listed(slowest(large, "numpy"), "numpy")),
        ]
    repeats = result["cases"][0]["repeats"]
    heading = f"**{result['title']}** (ours / theirs, medians of {repeats}; [all of them](docs/op-speed.md))"
    return "\n".join([heading, "", row(["", "ours / theirs"]), row(["---", "---"]), *map(row, rows)])


def whole(result: dict[str, Any]) -> str:
    """Every case: ours in microseconds, the others' with the ratio."""
    small, large = split(result)
    first = table(sorted(small, key=lambda case: case["case"].lower()), ("torch", "numpy"))
    second = table(large, ("numpy", "torch"))
    return f"**2x2**\n\n{first}\n\n**10^6 elements**\n\n{second}"


def table(cases: Sequence[Case], peers: Sequence[str]) -> str:
    present = [peer for peer in peers if measured(cases, peer)]
    titles = {"torch": "PyTorch", "numpy": "NumPy alone"}
    head = ["us", "ours", *[text for peer in present for text in (titles[peer], "ours / it")]]
    lines = [row(head), row(["---", *["---:"] * (len(head) - 1)])]
    for case in cases:
        cells = [f"`{case['case'].removeprefix(LARGE)}`", microseconds(case, OURS)]
        for peer in present:
            there = peer in case["contenders"]
            cells += [microseconds(case, peer), ratios(case, peer)] if there else ["", ""]
        lines.append(row(cells))
    return "\n".join(lines)


def split(result: dict[str, Any]) -> tuple[list[Case], list[Case]]:
    """The cases on 2x2 and those on a million elements."""
    small = [case for case in result["cases"] if not case["case"].startswith(LARGE)]
    return small, [case for case in result["cases"] if case["case"].startswith(LARGE)]


def measured(cases: Sequence[Case], peer: str) -> list[Case]:
    return [case for case in cases if peer in case["contenders"]]


def ratio(case: Case, peer: str) -> float:
    """Our median over the peer's; 0 where it was not measured."""
    return case["contenders"][peer]["ratio"] if peer in case["contenders"] else 0.0


def median(cases: Sequence[Case], peer: str) -> float:
    return statistics.median(ratio(case, peer) for case in measured(cases, peer))


def slowest(cases: Sequence[Case], peer: str) -> list[Case]:
    return sorted(cases, key=lambda case: ratio(case, peer), reverse=True)[:WORST]


def listed(cases: Sequence[Case], peer: str) -> str:
    return ", ".join(f"{case['case'].removeprefix(LARGE)} {ratios(case, peer)}" for case in cases)


def ratios(case: Case, peer: str) -> str:
    """The ratio of the medians, and that of the minima where it is another."""
    pair = ratio(case, peer), case["contenders"][peer]["ratio_min"]
    return f"{pair[0]:.2f}" + (f" (minima {pair[1]:.2f})" if max(pair) > APART * min(pair) else "")


def microseconds(case: Case, name: str) -> str:
    return three_digits(case["contenders"][name]["median_s"] * SCALE["us"])


def row(cells: Sequence[str]) -> str:
    """One line of a markdown table."""
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
