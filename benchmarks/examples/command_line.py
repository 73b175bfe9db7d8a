"""The command line that the examples share: --steps, --seed, --device and --out."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import autograd_gpu as ag


def parse(doc: str | None, steps: int, argv: Sequence[str] | None, least: int = 1) -> argparse.Namespace:
    """The arguments; ends the program if something that it needs is missing, before any work is done."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default: {steps})")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the picture (default: out)")
    args = parser.parse_args(argv)
    if args.steps < least:
        parser.error(f"argument --steps: at least {least} steps are needed, got {args.steps}")
    if args.device != "cpu" and not ag.cuda.is_available():
        sys.exit(f"--device {args.device}: no CUDA device answers; run `--device cpu` instead")
    if importlib.util.find_spec("matplotlib") is None:
        sys.exit("the examples draw with matplotlib: pip install 'autograd-gpu[demo]'")
    return args
