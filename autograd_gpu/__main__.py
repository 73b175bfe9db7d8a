"""The command line: python -m autograd_gpu info, trace, demo, bench."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from . import __version__, info
from .profiler import script

ROOT = Path(__file__).resolve().parent.parent  # of a checkout, where benchmarks/ stands beside the package
MISSING = (
    "{} is a part of the repository, which an installed wheel does not contain: there is no benchmarks/ in {}. Run "
    "this in a checkout of autograd_gpu, or in its unpacked source archive"
)


class Command(NamedTuple):
    """What a command does with the words behind it, and its line of help."""

    run: Callable[[Sequence[str]], int]
    help: str


def show(words: Sequence[str]) -> int:
    """Prints the report of the installation."""
    argparse.ArgumentParser(prog="python -m autograd_gpu info").parse_args(words)
    print(f"{'autograd_gpu':<13}{__version__}")
    for subject, text in info.lines():
        print(f"{subject:<13}{text}")
    return 0


def of_checkout(module: str) -> Callable[[Sequence[str]], int]:
    """A command that is `python -m module` of a checkout, with its own arguments and --help."""

    def run(words: Sequence[str]) -> int:
        if not (ROOT / "benchmarks" / "__main__.py").is_file():
            print(MISSING.format(module, ROOT), file=sys.stderr)
            return 2
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])  # from any folder
        command = [sys.executable, "-m", module, *words]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode

    return run


COMMANDS = {
    "info": Command(show, "versions, devices, BLAS and its kernels; what is missing, and how to get it"),
    "trace": Command(script.trace, "runs a script, writes its trace and prints its profile"),
    "demo": Command(of_checkout("benchmarks.demo"), "four chapters, with one report in out/report.html"),
    "bench": Command(of_checkout("benchmarks"), "benchmarks beside PyTorch and JAX; bench report, bench check"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m autograd_gpu", description=f"autograd_gpu {__version__}",
        epilog="\n".join(f"{name:<6}{command.help}" for name, command in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the command's own arguments; --help lists them")
    words = sys.argv[1:] if argv is None else argv
    if not words:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(words)
    return COMMANDS[options.command].run(options.words)


if __name__ == "__main__":
    sys.exit(main())
