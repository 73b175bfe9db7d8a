"""Table of the workload `saved_memory`: what each hook holds, what it loses, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .op_tables import row
from .report import OURS

WITHOUT = "no hooks"
PEER = "torch"
Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """A row for each hook: the share of the bytes, and for each activation the error and the share of the time."""
    cases: dict[str, dict[str, Case]] = {}
    for case in result["cases"]:
        activation, _, hook = case["case"].partition(", ")
        cases.setdefault(hook, {})[activation] = case
    without = cases.pop(WITHOUT)
    head = ["", "bytes held", *[f"error, {name}" for name in without], *[f"step time, {name}" for name in without]]
    lines = [row(head), row(["---", *["---:"] * (len(head) - 1)])]
    for hook, found in cases.items():
        held = max(share(found[name], base, _held) for name, base in without.items())
        errors = [both(found[name], _error) for name in without]
        times = [both(found[name], lambda case, library, base=base: f"{share(case, base, _time, library):.2f}x")
                 for name, base in without.items()]  # fmt: skip
        lines.append(row([hook, f"{held:.2f}x", *errors, *times]))
    repeats = min(case["repeats"] for case in result["cases"])
    title = result["title"].replace(", ms a step", "")
    heading = f"**{title}** (relative to no hooks, in brackets PyTorch's; medians of {repeats})"
    return "\n".join([heading, "", *lines])


def both(case: Case, text: Callable[[Case, str], str]) -> str:
    """Ours, and in brackets the peer's where it ran."""
    return text(case, OURS) + (f" ({text(case, PEER)})" if PEER in case["contenders"] else "")


def share(case: Case, without: Case, number: Callable[[Mapping[str, Any]], float], library: str = OURS) -> float:
    """How much of what it takes without hooks."""
    return number(case["contenders"][library]) / number(without["contenders"][library])


def _held(contender: Mapping[str, Any]) -> float:
    return float(contender["counts"]["MiB held"])


def _time(contender: Mapping[str, Any]) -> float:
    return float(contender["median_s"])


def _error(case: Case, library: str) -> str:
    error = float(case["contenders"][library]["counts"]["error"])
    return f"{error:.1e}".replace("e-0", "e-") if error else "0"
