"""Tables of the workload `ops`: a summary for docs/benchmarks.md, all ops for docs/generated/op-speed.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .report import OURS, SCALE, three_digits

LARGE, MIDDLE = "10^6: ", "10^5: "  # how the names of cases on so many elements begin
WORST = 5
APART = 1.15  # ratios of medians and of minima that differ by this factor are both shown
PAGE = "generated/op-speed.md"
TITLES = {"torch": "PyTorch", "numpy": "NumPy"}
Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """The medians of all ops, the slowest ones, and the commonest ones one by one."""
    small, large = split(result)
    repeats = result["cases"][0]["repeats"]
    parts = [f"**{result['title']}** (medians of {repeats}; [every op]({PAGE}))"]
    commonest = [case for case in small if case["case"] in result["config"]["commonest"]]
    groups = [("2x2, all ops", small, "torch"), ("2x2, the commonest ops", commonest, "torch"),
              ("10^6 elements, all ops", large, "numpy")]
    rows = [(what, TITLES[peer], *figures(measured(cases, peer), peer))
            for what, cases, peer in groups if measured(cases, peer)]
    head = [row(["", "beside", "ops", "median ratio", "ratio above 1"]), row(["---", "---", *["---:"] * 3])]
    parts += ["\n".join([*head, *map(row, rows)])] if rows else []
    for what, cases, peers in (("slowest, 2x2", small, ("torch", "numpy")),
                               ("slowest, 10^6 elements", large, ("numpy", "torch"))):
        if measured(cases, peers[0]):
            parts.append(table(slowest(cases, peers[0]), peers, f"{what}, us"))
    if measured(commonest, "torch"):
        parts.append(folded("The commonest ops, 2x2", table(commonest, ("torch", "numpy"))))
    return "\n\n".join(parts)


def figures(cases: Sequence[Case], peer: str) -> tuple[str, str, str]:
    """How many ops, the median ratio, and how many ratios are above 1."""
    return str(len(cases)), f"{median(cases, peer):.2f}", str(sum(ratio(case, peer) > 1 for case in cases))


def folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def whole(result: dict[str, Any]) -> str:
    """Every case: our time and those of the others in microseconds, with the ratios."""
    small, large = split(result)
    first = table(sorted(small, key=lambda case: case["case"].lower()), ("torch", "numpy"))
    second = table(large, ("numpy", "torch"))
    middle = [case for case in result["cases"] if case["case"].startswith(MIDDLE)]
    third = f"**10^5 elements**\n\n{table(slowest_first(middle), ('torch',))}\n\n" if middle else ""
    return f"**2x2**\n\n{first}\n\n{third}**10^6 elements**\n\n{second}"


def table(cases: Sequence[Case], peers: Sequence[str], corner: str = "us") -> str:
    """A row per case; where a ratio of minima differs from that of the medians (APART), columns show these ratios."""
    present = [peer for peer in peers if measured(cases, peer)]
    apart = [peer for peer in present if any(differs(case, peer) for case in cases)]
    head = [corner, "ours", *[TITLES[peer] for peer in present], *[f"/ {TITLES[peer]}" for peer in present],
            *[f"/ {TITLES[peer]}, minima" for peer in apart]]
    lines = [row(head), row(["---", *["---:"] * (len(head) - 1)])]
    for case in cases:
        cells = [f"`{case['case'].removeprefix(LARGE).removeprefix(MIDDLE)}`", microseconds(case, OURS)]
        cells += [microseconds(case, peer) if peer in case["contenders"] else "" for peer in present]
        cells += [f"{ratio(case, peer):.2f}" if peer in case["contenders"] else "" for peer in present]
        cells += [f"{case['contenders'][peer]['ratio_min']:.2f}" if differs(case, peer) else "" for peer in apart]
        lines.append(row(cells))
    return "\n".join(lines)


def differs(case: Case, peer: str) -> bool:
    """Whether the ratio of the minima is another than that of the medians."""
    pair = ratio(case, peer), case["contenders"][peer]["ratio_min"] if peer in case["contenders"] else 0.0
    return max(pair) > APART * min(pair)


def split(result: dict[str, Any]) -> tuple[list[Case], list[Case]]:
    """The cases on 2x2 and those on a million elements."""
    small = [case for case in result["cases"] if not case["case"].startswith((LARGE, MIDDLE))]
    return small, [case for case in result["cases"] if case["case"].startswith(LARGE)]


def measured(cases: Sequence[Case], peer: str) -> list[Case]:
    return [case for case in cases if peer in case["contenders"]]


def ratio(case: Case, peer: str) -> float:
    """Our median over the peer's; 0 where it was not measured."""
    return case["contenders"][peer]["ratio"] if peer in case["contenders"] else 0.0


def median(cases: Sequence[Case], peer: str) -> float:
    return statistics.median(ratio(case, peer) for case in measured(cases, peer))


def slowest(cases: Sequence[Case], peer: str) -> list[Case]:
    return slowest_first(cases, peer)[:WORST]


def slowest_first(cases: Sequence[Case], peer: str = "torch") -> list[Case]:
    return sorted(cases, key=lambda case: ratio(case, peer), reverse=True)


def microseconds(case: Case, name: str) -> str:
    return three_digits(case["contenders"][name]["median_s"] * SCALE["us"])


def row(cells: Sequence[str]) -> str:
    """One line of a markdown table."""
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
