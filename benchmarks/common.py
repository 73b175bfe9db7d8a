"""What every workload's command line shares: arguments, agreement of results, output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import peers
from .plots import plot_report
from .report import Report
from .restart import restart_unhindered

MIN_REPEATS = 7


class Disagreement(Exception):
    """Two libraries gave different results for the same work, so timing them means nothing."""


def make_parser(
    name: str, measured: Sequence[str], doc: str | None, repeats: int = MIN_REPEATS
) -> argparse.ArgumentParser:
    """The arguments that all workloads have; `measured` are the peers that this one can run."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=(doc or "").partition("\n\n")[0]
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument(
        "--peers",
        type=peer_list,
        default=list(measured),
        help=f"comma-separated, or none (default: {','.join(measured)})",
    )
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument("--plot", metavar="PNG", help="draw the results here")
    parser.add_argument("--repeats", type=repeat_count, default=repeats, help=f"samples (default: {repeats})")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes: a smoke test, not a measurement")
    return parser


def list_of(*known: str, or_none: bool = False) -> Callable[[str], list[str]]:
    """A parser of comma-separated values out of `known`, or of the word none; anything else is refused."""

    def parse(text: str) -> list[str]:
        values = [] if or_none and text in ("", "none") else [value.strip() for value in text.split(",")]
        unknown = [value for value in values if value not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown value {unknown[0]!r}; known: {', '.join(known)}")
        return values

    return parse


def peer_list(text: str) -> list[str]:
    """Parse --peers; an unknown name is refused."""
    names = [] if text in ("", "none") else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in peers.ALL]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown peer {unknown[0]!r}; known: {', '.join(peers.ALL)}")
    return names


def repeat_count(text: str) -> int:
    """Parse --repeats; a median of fewer than seven samples says too little."""
    count = int(text)
    if count < MIN_REPEATS:
        raise argparse.ArgumentTypeError(f"at least {MIN_REPEATS} repeats are needed, got {count}")
    return count


def run_workload(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], Report],
    argv: Sequence[str] | None = None,
    plot: Callable[[Report, str], None] = plot_report,
    comment: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Parse, run, print, write: the `main` of every workload. Ends the program if a case has failed."""
    if argv is None:
        restart_unhindered()
    args = parser.parse_args(argv)
    if args.device != "cpu" and not ag.cuda.is_available():
        sys.exit(f"--device {args.device}: no CUDA device answers; run `--device cpu` instead")
    report = run(args)
    report.print()
    report.save()
    if args.plot:
        plot(report, args.plot)
    comment(report)
    if report.failed:
        sys.exit(f"{report.benchmark}: {len(report.failed)} of {len(report.planned)} cases failed")
    return report


def device_kind(device: str) -> str:
    """The device without its index: cpu or cuda."""
    return device.partition(":")[0]


def to_numpy(value: Any) -> np.ndarray:
    """A NumPy copy of a tensor or array of any of the libraries."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.array(value)


def relative_difference(expected: np.ndarray, value: np.ndarray) -> float:
    """The largest difference over the largest entry; infinite where zeros or another shape are expected and not met."""
    if expected.shape != value.shape or not expected.size:
        return 0.0 if expected.shape == value.shape else np.inf
    difference, scale = float(np.abs(value - expected).max()), float(np.abs(expected).max())
    if scale:
        return difference / scale
    return 0.0 if difference == 0 else np.inf


def require_agreement(
    results: Mapping[str, Sequence[Any]], tolerance: float, what: str
) -> dict[str, float]:
    """Compare every library's results with the first one's; answers {name: relative difference}.

    Raises Disagreement beyond `tolerance`, or at a NaN.
    """
    names = list(results)
    reference = [to_numpy(value) for value in results[names[0]]]
    differences = {}
    for name in names[1:]:
        pairs = zip(reference, results[name], strict=True)
        worst = float(np.max([relative_difference(expected, to_numpy(value)) for expected, value in pairs]))
        if not worst <= tolerance:  # NaN is a disagreement too
            raise Disagreement(
                f"{what}: {names[0]} and {name} differ by {worst:.2e} relative, allowed {tolerance:.0e}"
            )
        differences[name] = worst
    return differences
