"""Run every workload, each in a process of its own: python -m benchmarks [--device cpu|cuda].

Prints the tables and writes benchmarks/results/<device>-<name>.json, from which
`python -m benchmarks.tables --write README.md` makes the tables of the README.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .tables import RESULTS, WORKLOADS


def parser() -> argparse.ArgumentParser:
    """The command line; what is not named here goes to every workload unchanged."""
    summary = (__doc__ or "").partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=summary)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="comma-separated (default: all)")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"where to write (default: {RESULTS})")
    parser.add_argument("--plots", action="store_true", help="write a PNG beside each JSON file")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen workloads; answers 1 if one of them failed."""
    args, passed_on = parser().parse_known_args(argv)
    kind, failed = args.device.partition(":")[0], []
    for name in args.only.split(","):
        if name not in WORKLOADS:
            parser().error(f"no workload {name!r}; there are: {', '.join(WORKLOADS)}")
        target = args.out / f"{kind}-{name}.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--device", args.device, "--json", str(target)]
        command += ["--plot", str(target.with_suffix(".png"))] if args.plots else []
        # A process each: no library meets the threads, the heap or the caches of the workload before.
        if subprocess.run([*command, *passed_on], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
