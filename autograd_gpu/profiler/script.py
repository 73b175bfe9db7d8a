"""python -m autograd_gpu trace SCRIPT: runs a script under a profile, writes its trace and prints its table."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from .averages import OLD_SORTS, SORTS
from .profiling import profile


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m autograd_gpu trace", description=__doc__)
    parser.add_argument("-o", "--output", default="trace.json.gz", help="the trace, for ui.perfetto.dev (%(default)s)")
    parser.add_argument("--sort-by", default="self_cpu_time_total", choices=[*SORTS, *OLD_SORTS], metavar="COLUMN",
                        help="the column of the table that decides the order (%(default)s)")  # fmt: skip
    parser.add_argument("--rows", type=int, default=30, help="rows of the table, -1 for all (%(default)s)")
    parser.add_argument("--shapes", action="store_true", help="record shapes of inputs, and sum by them")
    parser.add_argument("--memory", action="store_true", help="record live bytes by category")
    parser.add_argument("--stacks", metavar="FILE", help="write stacks for flame graphs")
    parser.add_argument("script", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    return parser.parse_args(words)


def trace(words: Sequence[str]) -> int:
    """Runs the script that the words name; returns its exit code. The trace is written whether it fails or not."""
    options = _parsed(words)
    script = Path(options.script)
    if not script.is_file():
        print(f"trace: there is no script {script}", file=sys.stderr)
        return 2
    prof = profile(record_shapes=options.shapes, profile_memory=options.memory, with_stack=bool(options.stacks))
    try:
        with prof:
            code = _run(script, options.arguments)
    finally:
        prof.export_chrome_trace(options.output)
        if options.stacks and prof.events():
            prof.export_stacks(options.stacks)
        print(prof.key_averages(options.shapes).table(options.sort_by, options.rows))
        print(f"trace: {options.output}; open it in ui.perfetto.dev")
    return code


def _run(script: Path, arguments: Sequence[str]) -> int:
    """Runs a script as `python script arguments` does; returns what it passes to sys.exit."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    finally:
        sys.argv, sys.path[0] = before
    return 0
