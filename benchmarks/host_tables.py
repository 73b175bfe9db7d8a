"""Table of the workload `host_time`: what the host does for each step."""

from __future__ import annotations

import textwrap
from typing import Any

from .library_tables import WIDTH, repeats, table
from .report import OURS, three_digits

PACKAGE = "us, package"


def summary(result: dict[str, Any]) -> str:
    """A row for each step: its counts, then the time in the package and with the stand-in's own."""
    cases = result["cases"]
    names = [name for name in cases[0]["contenders"][OURS]["counts"] if name != PACKAGE]
    rows = []
    for case in cases:
        ours = case["contenders"][OURS]
        counts = ours["counts"]
        rows.append([case["case"], *[f"{counts[name]:,}" for name in names],
                     three_digits(counts[PACKAGE] / 1e3), three_digits(ours["median_s"] * 1e3)])  # fmt: skip
    times = f"ms of the CPU, medians of {repeats(cases)}: in the package, with the stand-in for CuPy"
    heading = textwrap.fill(f"**{result['title']}** ({times})", WIDTH)
    return f"{heading}\n\n{table(['', *names, 'package', 'with stand-in'], rows)}"
