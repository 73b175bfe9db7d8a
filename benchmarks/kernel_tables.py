"""The tables of the workload `kernels`: each family's speed beside a copy, products and steps beside PyTorch."""

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
    """GB/s of each family in each dtype, then the same as a share of the speed of a copy."""
    families = list(dict.fromkeys(case["case"].rpartition(", ")[0] for case in cases))
    dtypes = list(dict.fromkeys(case["case"].rpartition(", ")[2] for case in cases))
    by_case = {case["case"]: case["contenders"] for case in cases}
    figures = {
        "GB/s": {label: str(contenders[OURS]["counts"]["GB/s"]) for label, contenders in by_case.items()},
        "share of a copy": {label: f"{1 / contenders['copy']['ratio']:.0%}" for label, contenders in by_case.items()},
    }
    parts = []
    for what, cells in figures.items():
        lines = [row([what, *dtypes]), row(["---", *["---:"] * len(dtypes)])]
        lines += [row([f"`{kind}`", *[cells.get(f"{kind}, {dtype}", "") for dtype in dtypes]]) for kind in families]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def ratios(cases: Sequence[Case]) -> str:
    """Ours / PyTorch's: of each kind of product the median and the range over sizes and layouts, and each step."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        label = case["case"]
        kind = label.split(", ")[1] if label.startswith("product") else None
        groups.setdefault(f"products of {kind}" if kind else label, []).append(case)
    lines = [row(["", "ours", "/ PyTorch", "least", "most"]), row(["---", *["---:"] * 4])]
    for label, group in groups.items():
        values = [case["contenders"]["torch"]["ratio"] for case in group]
        spread = [f"{min(values):.2f}", f"{max(values):.2f}"] if len(values) > 1 else ["", ""]
        lines.append(row([label, time_of(group), f"{statistics.median(values):.2f}", *spread]))
    return "\n".join(lines)


def time_of(group: Sequence[Case]) -> str:
    """The time of a step; products of many sizes have none."""
    if len(group) > 1:
        return ""
    (case,) = group
    return f"{three_digits(case['contenders'][OURS]['median_s'] * SCALE[case['unit']])} {case['unit']}"
