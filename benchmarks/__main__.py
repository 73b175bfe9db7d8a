"""Run every workload, each in a process of its own: python -m benchmarks [--device cpu|cuda].

`python -m benchmarks report` makes one HTML page of the results of several machines, and `python -m benchmarks check`
names what became slower; each has a --help of its own.

Prints the tables and writes benchmarks/results/<device>-<name>.json, from which
`python -m benchmarks.tables --write` makes the tables of README and docs. With --together they share a process,
where seconds are few and imports take some.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import regressions
from .restart import restart_unhindered
from .tables import RESULTS, WORKLOADS
from .together import run_together
from .web import page

COMMANDS = {"report": page.main, "check": regressions.main}


def parser() -> argparse.ArgumentParser:
    """The command line; what is not named here goes to every workload unchanged."""
    summary = (__doc__ or "").partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=summary)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="comma-separated (default: all)")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"where to write (default: {RESULTS})")
    parser.add_argument("--plots", action="store_true", help="write a PNG beside each JSON file")
    parser.add_argument("--together", action="store_true", help="in one process, which a crash replaces")
    parser.add_argument("--seconds", type=float, default=86400.0, help="with --together: for all of them, at most")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="with --together: append a JSON line for each")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen workloads; answers 1 if one of them failed."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        return COMMANDS[words[0]](words[1:])
    args, passed_on = parser().parse_known_args(words)
    kind, calls = args.device.partition(":")[0], {}
    for name in args.only.split(","):
        if name not in WORKLOADS:
            parser().error(f"no workload {name!r}; there are: {', '.join(WORKLOADS)}")
        target = args.out / f"{kind}-{name}.json"
        plot = ["--plot", str(target.with_suffix(".png"))] if args.plots else []
        calls[name] = ["--device", args.device, "--json", str(target), *plot, *passed_on]
    if args.together:
        failed = run_together(calls, args.seconds, args.lines)
    else:
        failed = [name for name, words in calls.items() if not run_apart(name, words)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run_apart(name: str, words: Sequence[str]) -> bool:
    """A process of its own: no library meets the threads, the heap or the caches of the workload before."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    if sys.argv[1:2] not in ([command] for command in COMMANDS):  # which measure nothing
        restart_unhindered()
    sys.exit(main())
