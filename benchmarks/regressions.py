"""What became slower: python -m benchmarks check NEW.json ... [--against OLD.json ...]

Compares ratios, since times of two runs are times of two machines, or of one in two moods. For each case and peer:

1. The samples of a run were taken in turns, so that sample i of ours and of the peer saw the same machine: their
   quotients are the run's ratios, and the spread of these is its noise.
2. `change` is the new median of the ratios over the old one; `noise` is what two medians with these spreads may differ
   by (WIDE standard errors).
3. A case became slower if `change` exceeds the noise and FLOOR, and the minima agree, beside every peer of both runs.

Counts, such as matrix products, launches and bytes, have no noise: one that grew is named, too, and so is a case that
fails now. Exit code 0: nothing became slower. 1: something did. 2: nothing could be compared.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .environment import place
from .library_tables import TITLES
from .report import OURS
from .tables import RESULTS

WIDE = 4.0
FLOOR = 1.10  # below that, two runs of the same code differ on most machines
MINIMA = 1.05
PEERS = ("torch", "torch.func", "jax", "jax eager", "numpy", "copy")
COUNTS = (
    "hidden products", "matrix products", "products", "launches", "allocations", "cudaMalloc", "to device", "to host",
    "waits", "calls", "peak bytes", "MiB held", "peak MiB",
)  # fmt: skip
MORE = 1.02  # bytes depend a little on the versions of Python and NumPy
Case = dict[str, Any]


class Spread(NamedTuple):
    """The logarithms of a run's ratios: their median, and its standard error."""

    centre: float
    error: float


class Finding(NamedTuple):
    """Something that became worse."""

    where: str  # device, workload and case
    text: str


def spread(case: Case, peer: str) -> Spread:
    """The ratios of ours to `peer`, turn by turn."""
    pairs = zip(*[case["contenders"][name]["samples_s"] for name in (OURS, peer)], strict=False)
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    low, _, high = statistics.quantiles(logs, n=4)
    deviation = (high - low) / 1.349  # the quartiles of a normal distribution lie 1.349 deviations apart
    return Spread(statistics.median(logs), 1.253 * deviation / math.sqrt(len(logs)))  # 1.253: a median's, not a mean's


def slower(new: Case, old: Case) -> str | None:
    """How much slower a case became beside the peers of both runs; None if that is not certain."""
    shared = [p for p in PEERS if p in new["contenders"] and p in old["contenders"]]
    texts = []
    for peer in shared:
        now, before = spread(new, peer), spread(old, peer)
        change, noise = now.centre - before.centre, WIDE * math.hypot(now.error, before.error)
        minima = new["contenders"][peer]["ratio_min"] / old["contenders"][peer]["ratio_min"]
        if change <= max(noise, math.log(FLOOR)) or minima <= MINIMA:
            return None
        texts.append(f"{math.exp(change):.2f} times (ratio to {TITLES.get(peer, peer)} {math.exp(before.centre):.2f}, "
                     f"now {math.exp(now.centre):.2f}; noise {math.exp(noise) - 1:.0%})")
    return "; ".join(texts) or None


def grown(new: Case, old: Case) -> Iterator[str]:
    """The counts of ours that grew."""
    now, before = (case["contenders"][OURS]["counts"] for case in (new, old))
    for key in COUNTS:
        if key in now and key in before and now[key] > before[key] * MORE:
            yield f"{key}: {before[key]:,}, now {now[key]:,}"


def compare(new: dict[str, Any], old: dict[str, Any]) -> list[Finding]:
    """What of the result `new` is worse than in `old`, which measured the same workload."""
    title = f"{new['device']} {new['benchmark']}"
    before = {case["case"]: case for case in old["cases"]}
    findings = [
        Finding(f"{title}: {name}", f"fails now: {error}") for name, error in new.get("failed", {}).items()
        if name in before
    ]  # fmt: skip
    for case in new["cases"]:
        known = before.get(case["case"])
        if known is not None:
            texts = [text for text in (slower(case, known), *grown(case, known)) if text]
            findings += [Finding(f"{title}: {case['case']}", text) for text in texts]
    return findings


def comparable(new: dict[str, Any], old: dict[str, Any], any_machine: bool) -> str | None:
    """Why two results cannot be compared; None if they can."""
    places = [place(result["environment"], result["device"]) for result in (new, old)]
    if places[0] != places[1] and not any_machine:
        return f"measured on {places[0]}, and before on {places[1]}; --any-machine compares the ratios even so"
    configs = [{key: value for key, value in result["config"].items() if key != "sweeps"} for result in (new, old)]
    changed = [key for key in configs[0].keys() & configs[1].keys() if configs[0][key] != configs[1][key]]
    return f"another {', '.join(sorted(changed))} than before" if changed else None


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, folders as the JSON files in them."""
    return [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]


def load(paths: Sequence[Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """The results in files and folders, by device and workload; ValueError for two of the same."""
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for file in files_in(paths):
        if not file.is_file():
            sys.exit(f"check: there is no file {file}; `python -m benchmarks --out DIR` writes results")
        result = json.loads(file.read_text())
        key = result["device"], result["benchmark"]
        if key in results:
            raise ValueError(f"{file} has {' '.join(key)}, and so has a file before it: give one of them")
        results[key] = result
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what became slower; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks check", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("new", nargs="+", type=Path, metavar="NEW.json", help="results of a run, or a folder of them")
    parser.add_argument("--against", nargs="+", type=Path, metavar="OLD.json", default=[RESULTS],
                        help=f"results to compare with, or folders (default: {RESULTS})")
    parser.add_argument("--any-machine", action="store_true", help="compare ratios of different machines, too")
    args = parser.parse_args(argv)
    new, old = load(args.new), load(args.against)
    findings, compared = [], 0
    for key, result in new.items():
        title = " ".join(key)
        if key not in old:
            print(f"{title}: not measured before")
            continue
        reason = comparable(result, old[key], args.any_machine)
        if reason is not None:
            print(f"{title}: not compared, {reason}")
            continue
        cases = {case["case"] for case in result["cases"]} & {case["case"] for case in old[key]["cases"]}
        compared += len(cases)
        print(f"{title}: {len(cases)} cases, against {old[key]['environment']['date'][:10]} "
              f"({old[key]['environment']['commit']})")
        findings += compare(result, old[key])
    for finding in findings:
        print(f"  slower  {finding.where}: {finding.text}")
    if not compared and not findings:
        print("nothing could be compared", file=sys.stderr)
        return 2
    print(f"{len(findings) or 'none'} of {compared} cases became slower")
    return 1 if findings else 0
