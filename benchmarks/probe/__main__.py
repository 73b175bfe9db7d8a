"""The command line of the probe: every check in its turn, within a time for all of them."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..relay import Answer, Job, relay
from .checks import ORDER, do
from .table import CHECKS

EMULATED = 10  # times the seconds of a check: the stand-in is slow, and the machine may be a busy one


def line_of(answer: Answer, emulated: bool) -> dict[str, Any]:
    """What is written of a check."""
    outcome = {"ok": False, "error": answer.lost} if answer.lost else answer.value
    name = answer.job.name
    head = {"check": name, "ok": outcome["ok"], "emulated": emulated, "seconds": round(answer.seconds, 3)}
    return head | {"questions": CHECKS[name].questions} | outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the checks; 0 if all is as expected."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=Path, required=True, metavar="FILE", help="append a JSON line for each check")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all of them, at most")
    parser.add_argument("--only", action="append", choices=ORDER, metavar="CHECK", help="one check; may be repeated")
    args = parser.parse_args(argv)
    emulated, good, names = in_emulator(), 0, args.only or ORDER
    file = os.open(args.lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    patience = EMULATED if emulated else 1
    jobs = [Job(name, patience * CHECKS[name].seconds) for name in names]
    for answer in relay(jobs, do, time.monotonic() + args.seconds):
        line = line_of(answer, emulated)
        good += line["ok"]
        os.write(file, json.dumps(line, default=plain).encode() + b"\n")
        print(f"{'ok  ' if line['ok'] else 'NOT '} {line['check']}", line.get("error", ""), flush=True)
    os.close(file)
    print(f"{good} of {len(names)} checks are as expected")
    if emulated:
        print("The stand-in of tests/support/cuda_emu took the GPU's place: none of this is a GPU result.")
    return 0 if good == len(names) else 1


def in_emulator() -> bool:
    """Whether CuPy is the stand-in; the real one is not imported here."""
    return importlib.util.find_spec("cupy") is not None and importlib.util.find_spec("cupy._emulation") is not None


def plain(value: Any) -> Any:
    """A NumPy number as one of Python's."""
    return value.item()


if __name__ == "__main__":
    sys.exit(main())
