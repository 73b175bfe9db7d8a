"""README's tables of the workload `kernels`: each family's speed beside a copy, products and steps beside PyTorch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .op_tables import row
from .report import OURS, SCALE, three_digits

Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """Families by dtypes, products by kinds of numbers, a row for each step; what was not measured has no table."""
    kernels = [case for case in result["cases"] if "copy" in case["contenders"]]
    rest = [case for case in result["cases"] if "torch" in case["contenders"]]
    parts = [f"**{result['title']}**", *([speeds(kernels)] if kernels else []), *([ratios(rest)] if rest else [])]
    return "\n\n".join(parts)


def speeds(cases: Sequence[Case]) -> str:
    """GB/s of each family in each dtype, and in brackets the share of a copy's that it is."""
    families = list(dict.fromkeys(case["case"].rpartition(", ")[0] for case in cases))
    dtypes = list(dict.fromkeys(case["case"].rpartition(", ")[2] for case in cases))
    cells = {case["case"]: speed(case) for case in cases}
    lines = [row(["GB/s (of a copy)", *dtypes]), row(["---", *["---:"] * len(dtypes)])]
    lines += [row([f"`{each}`", *[cells.get(f"{each}, {dtype}", "") for dtype in dtypes]]) for each in families]
    return "\n".join(lines)


def speed(case: Case) -> str:
    contenders = case["contenders"]
    return f"{contenders[OURS]['counts']['GB/s']} ({1 / contenders['copy']['ratio']:.0%})"


def ratios(cases: Sequence[Case]) -> str:
    """Ours / PyTorch's: the median over sizes and layouts of each kind of product, and each step."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        label = case["case"]
        kind = label.split(", ")[1] if label.startswith("product") else None
        groups.setdefault(f"products of {kind}, median of sizes and layouts" if kind else label, []).append(case)
    lines = [row(["", "ours", "ours / PyTorch"]), row(["---", "---:", "---:"])]
    for label, group in groups.items():
        found = [case["contenders"]["torch"]["ratio"] for case in group]
        spread = f" ({min(found):.2f} to {max(found):.2f}x)" if len(found) > 1 else ""
        lines.append(row([label, time_of(group), f"{statistics.median(found):.2f}x{spread}"]))
    return "\n".join(lines)


def time_of(group: Sequence[Case]) -> str:
    """The time of a step; products of many sizes have none."""
    if len(group) > 1:
        return ""
    (case,) = group
    return f"{three_digits(case['contenders'][OURS]['median_s'] * SCALE[case['unit']])} {case['unit']}"
