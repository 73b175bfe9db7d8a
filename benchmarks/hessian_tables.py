"""Tables of the workload `hessian`: beside the peers, by our methods, and over widths, inputs, depths and batches."""

from __future__ import annotations

from typing import Any

from .hessian_calls import METHODS
from .library_tables import (
    TITLES,
    by_minima,
    collapsed,
    common_unit,
    compared,
    counted,
    libraries,
    repeats,
    replays_compared,
    table,
    time,
)
from .report import OURS

MORE = "[Methods, memory, widths, numbers of inputs](hessian-figures.md)"
PRODUCTS = "Matrix products"
MIB = 1 << 20
Case = dict[str, Any]


def summary(result: dict[str, Any]) -> str:
    """For docs/benchmarks.md: times and products of the headline network beside the peers."""
    return "\n\n".join([heading(result), *beside(result), MORE])


def whole(result: dict[str, Any]) -> str:
    """For the page: the same, and the times, products and peak bytes of our methods, and the sweeps."""
    cases = headline(result)
    methods = [name for name in libraries(cases) if name in (OURS, *METHODS)]
    parts = [heading(result), *beside(result)]
    if len(methods) > 1:
        parts.append(by_method(cases, methods))
        parts.append(counted(cases, methods, "hidden products", PRODUCTS))
    parts.append(counted(cases, methods, "peak bytes", "Peak MiB", shown=lambda count: f"{count / MIB:.0f}"))
    parts.append(counted(cases, methods, "launches", "Kernel launches"))
    network = "{layers} hidden layers, batch {batch}".format(**result["config"])
    words = {"widths": f"{network}, no backward",
             "inputs": f"{network}, width {result['config']['width of inputs']}, no backward",
             "depths": "batch {batch}, width {width of inputs}, no backward".format(**result["config"]),
             "batches": "{layers} hidden layers, width {width of inputs}, no backward".format(**result["config"])}
    if "small" in result["config"]:  # results of earlier versions have none
        small = result["config"]["small"]
        words["small networks"] = f"2 -> {small['layers']} x width -> 1, batch {small['batch']}"
    for sweep, description in words.items():
        cases = in_sweep(result, sweep)
        if cases:
            names = libraries(cases)
            peers = [name for name in names if name not in (OURS, *METHODS)]
            parts += [f"**Over {sweep}** ({description}, {common_unit(cases)})", compared(cases, names, peers)]
            parts.append(replays_compared(cases))
            parts.append(counted(cases, names, "hidden products", PRODUCTS))
    return "\n\n".join(filter(None, parts))


def heading(result: dict[str, Any]) -> str:
    cases = result["cases"]
    return f"**{result['title']}** (medians of {repeats(cases)}, {common_unit(cases)})"


def headline(result: dict[str, Any]) -> list[Case]:
    """The cases that are in no sweep."""
    swept = {label for labels in result["config"]["sweeps"].values() for label in labels}
    return [case for case in result["cases"] if case["case"] not in swept]


def in_sweep(result: dict[str, Any], name: str) -> list[Case]:
    return [case for case in result["cases"] if case["case"] in result["config"]["sweeps"].get(name, [])]


def beside(result: dict[str, Any]) -> list[str]:
    """The headline network beside the peers: times and ratios, products, notes."""
    cases = headline(result)
    names = [name for name in libraries(cases) if name not in METHODS]
    notes = [f"{case['case']}: {note}." for case in cases for note in by_minima(case, names)]
    parts = [compared(cases, names, names[1:]), replays_compared(cases)]
    parts.append(counted(cases, names, "hidden products", PRODUCTS))
    return [*filter(None, parts), *([collapsed(notes)] if notes else [])]


def by_method(cases: list[Case], names: list[str]) -> str:
    """The times of our methods."""
    titles = [TITLES[name] for name in names]
    unit = common_unit(cases)
    return table([f"Our methods, {unit}", *titles], [[c["case"], *[time(c, n, unit) for n in names]] for c in cases])
