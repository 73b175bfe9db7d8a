"""Tables of the workload `saved_memory`: the bytes each hook holds, the error it adds, and the time it takes."""

from __future__ import annotations

from typing import Any

from .op_tables import row
from .report import OURS

WITHOUT = "no hooks"
PEER = "torch"
Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """A row for each hook: the shares of our bytes, then for each activation the error and the share of the time."""
    return f"{heading(result)}\n\n{table(result, OURS)}"


def whole(result: dict[str, Any]) -> str:
    """The same, and the errors and times of the peer's hooks in a table of their own."""
    peer = [f"PyTorch's:\n\n{table(result, PEER)}"] if any(PEER in c["contenders"] for c in result["cases"]) else []
    return "\n\n".join([summary(result), *peer])


def heading(result: dict[str, Any]) -> str:
    repeats = min(case["repeats"] for case in result["cases"])
    title = result["title"].replace(", ms a step", "")
    return f"**{title}** (bytes and times relative to no hooks; medians of {repeats})"


def table(result: dict[str, Any], library: str) -> str:
    cases: dict[str, dict[str, Case]] = {}
    for case in result["cases"]:
        if library in case["contenders"]:
            activation, _, hook = case["case"].partition(", ")
            cases.setdefault(hook, {})[activation] = case
    without = cases.pop(WITHOUT)  # the first case of each activation
    shares = {"bytes held": "MiB held", "peak bytes": "peak MiB"} if library == OURS else {}
    errors, times = [[f"{what}, {name}" for name in without] for what in ("error", "step time")]
    head = ["", *shares, *errors, *times]
    lines = [row(head), row(["---", *["---:"] * (len(head) - 1)])]
    for hook, group in cases.items():
        pairs = {name: (group[name], base) for name, base in without.items() if name in group}
        cells = [f"{max(count(case, key) / count(base, key) for case, base in pairs.values()):.2f}"
                 for key in shares.values()]
        cells += [error(pairs[name][0], library) if name in pairs else "" for name in without]
        cells += [time(*pairs[name], library) if name in pairs else "" for name in without]
        lines.append(row([hook, *cells]))
    return "\n".join(lines)


def count(case: Case, key: str, library: str = OURS) -> float:
    return float(case["contenders"][library]["counts"][key])


def error(case: Case, library: str) -> str:
    """Such as 2.3e-4."""
    value = count(case, "error", library)
    return f"{value:.1e}".replace("e-0", "e-") if value else "0"


def time(case: Case, without: Case, library: str) -> str:
    """How many times as long as without hooks."""
    taken, base = [c["contenders"][library]["median_s"] for c in (case, without)]
    return f"{taken / base:.2f}"
