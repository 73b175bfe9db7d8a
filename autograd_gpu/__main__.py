"""The command line: python -m autograd_gpu info, python -m autograd_gpu trace SCRIPT."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__, info
from .profiler import script


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m autograd_gpu", description=f"autograd_gpu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, devices, BLAS and its kernels; what is missing, and how to get it")
    script.add_arguments(commands.add_parser("trace", help="runs a script, writes its trace and prints its profile"))
    options = parser.parse_args(argv)
    if options.command == "trace":
        return script.trace(options)
    print(f"{'autograd_gpu':<13}{__version__}")
    for subject, text in info.lines():
        print(f"{subject:<13}{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
