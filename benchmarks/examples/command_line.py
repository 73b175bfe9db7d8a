"""The command line that the examples share: --steps, --seed, --device and --out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import autograd_gpu as ag

try:
    import matplotlib as mpl  # noqa: F401  ..plots imports it only after the training, when it draws
    import threadpoolctl
except ImportError as error:
    sys.exit(f"the examples need {error.name}: pip install 'autograd-gpu[demo]'")


def parse(doc: str | None, steps: int, argv: Sequence[str] | None, least: int = 1) -> argparse.Namespace:
    """The arguments; ends the program, with the reason, if they cannot be met."""
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
    return args


def one_thread() -> threadpoolctl.threadpool_limits:
    """A context in which products run on one thread: they are too small to gain from a second one, and on a busy
    machine waiting for it takes longer than the products."""
    return threadpoolctl.threadpool_limits(1)
