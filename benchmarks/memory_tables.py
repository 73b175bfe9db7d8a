"""Table of the workload `saved_memory`: what each hook holds, what it loses, and what it costs."""

from __future__ import annotations

from typing import Any

from .op_tables import row
from .report import OURS

WITHOUT = "no hooks"
PEER = "torch"
Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """A row for each hook: the shares of our bytes, then for each activation the error and the share of the time."""
    cases: dict[str, dict[str, Case]] = {}
    for case in result["cases"]:
        activation, _, hook = case["case"].partition(", ")
        cases.setdefault(hook, {})[activation] = case
    without = cases.pop(WITHOUT)  # the first case of each activation
    errors, times = [[f"{what}, {name}" for name in without] for what in ("error", "step time")]
    lines = [row(["", "bytes held", "peak bytes", *errors, *times]), row(["---", *["---:"] * (2 + 2 * len(without))])]
    for hook, found in cases.items():
        pairs = {name: (found[name], base) for name, base in without.items() if name in found}
        cells = [
            f"{max(count(case, key) / count(base, key) for case, base in pairs.values()):.2f}x"
            for key in ("MiB held", "peak MiB")
        ]
        for cell in (error_cell, time_cell):
            cells += [cell(*pairs[name]) if name in pairs else "" for name in without]
        lines.append(row([hook, *cells]))
    repeats = min(case["repeats"] for case in result["cases"])
    title = result["title"].replace(", ms a step", "")
    return "\n".join([f"**{title}** (relative to no hooks, in brackets PyTorch's; medians of {repeats})", "", *lines])


def both(texts: dict[str, str]) -> str:
    """Ours, and in brackets the peer's where it ran."""
    return texts[OURS] + (f" ({texts[PEER]})" if PEER in texts else "")


def error_cell(case: Case, without: Case) -> str:
    return both({name: error(case, name) for name in case["contenders"]})


def time_cell(case: Case, without: Case) -> str:
    return both({name: time(case, without, name) for name in case["contenders"]})


def count(case: Case, key: str, library: str = OURS) -> float:
    return float(case["contenders"][library]["counts"][key])


def error(case: Case, library: str) -> str:
    """Such as 2.3e-4."""
    found = count(case, "error", library)
    return f"{found:.1e}".replace("e-0", "e-") if found else "0"


def time(case: Case, without: Case, library: str) -> str:
    """How many times as long as without hooks."""
    taken, base = [c["contenders"][library]["median_s"] for c in (case, without)]
    return f"{taken / base:.2f}x"
