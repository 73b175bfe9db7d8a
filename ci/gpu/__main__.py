"""The command line of ci/gpu.sh, which says what comes out."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .run import Run
from .stages import DEFAULT, STAGES, plan


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; what cannot be is refused."""
    parser = argparse.ArgumentParser(prog="ci/gpu.sh", description="The head of ci/gpu.sh says what comes out.")
    parser.add_argument("out", metavar="OUTDIR", type=Path, help="folder for the results")
    known = f"{', '.join(STAGES)} (default: {' '.join(DEFAULT)})"
    parser.add_argument("stages", metavar="STAGE", nargs="*", help=known)
    parser.add_argument("--from", dest="earlier", metavar="DIR", type=Path, help="an earlier OUTDIR to go on from")
    parser.add_argument("--plan", action="store_true", help="print the stages and their limits, and run nothing")
    args = parser.parse_intermixed_args(argv)
    args.stages = list(dict.fromkeys(args.stages)) or list(DEFAULT)
    if unknown := [name for name in args.stages if name not in STAGES]:
        parser.error(f"there is no stage {unknown[0]!r}; there are: {', '.join(STAGES)}")
    if args.earlier is not None and not args.earlier.is_dir():
        parser.error(f"--from {args.earlier}: there is no such folder")
    try:
        args.scale = float(os.environ.get("GPU_SH_SCALE", "1"))
    except ValueError as error:
        parser.error(f"GPU_SH_SCALE: {error}")
    if args.plan:
        return args
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"OUTDIR: {error}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the stages; 0 if all of them passed, 1 if not, 128 + n where signal n ended the script."""
    args = parse(argv)
    if args.plan:
        print("\n".join([f"{name:<10}{seconds:4.0f} s" for name, seconds in plan(args.stages, args.scale)]))
        return 0
    with tempfile.TemporaryDirectory(prefix="gpu-sh-", ignore_cleanup_errors=True) as scratch:
        run = Run(args.out.resolve(), Path(scratch), args.earlier, args.scale)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, run.ask)
        passed = [run.stage(name, name == args.stages[-1]) for name in args.stages if not run.asked]
        run.close()
    return 128 + run.asked if run.asked else 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
