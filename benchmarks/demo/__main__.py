"""The demo: python -m benchmarks.demo [--device auto|cpu|cuda] [--full] [--only digits,memory] [--out out].

1. digits: an MLP learns handwritten digits, and shows what it misreads.
2. terrain: a sine network learns real elevations, and gives exact slope, aspect and curvature.
3. derivatives: Hessians and a Laplacian by `func` and by a loop of `grad`, beside PyTorch and JAX if installed.
4. memory: a deep network is trained behind hooks that store what it saves in fewer bytes.

out/report.html shows all of it, out/demo.json holds the figures; both are written after each chapter. A chapter that
fails says so there, and the others run. The exit code is then 1, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import autograd_gpu as ag

from ..environment import blas_kernels, environment
from ..restart import restart_unhindered

try:
    from rich.console import Console

    from . import derivatives, digits, memory, page, terminal, terrain, tour
    from .story import Settings
except ImportError as error:
    sys.exit(f"the demo needs {error.name}: pip install 'autograd-gpu[demo]', or run `make demo`")

CHAPTERS = {"digits": digits, "terrain": terrain, "derivatives": derivatives, "memory": memory}
PIPE_WIDTH = 110  # columns where the output is no terminal


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo",
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--full", action="store_true", help="sizes for a GPU")
    parser.add_argument("--tiny", action="store_true", help="a tenth of the work: a smoke test")
    help = f"chapters, comma-separated (default: {','.join(CHAPTERS)})"
    parser.add_argument("--only", type=chapter_names, default=list(CHAPTERS), help=help)
    parser.add_argument("--epochs", type=int, help="passes over the digits (default: 20)")
    help = "fit the terrain's gradient, too (default: yes)"
    parser.add_argument("--sobolev", action=argparse.BooleanOptionalAction, default=True, help=help)
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write (default: out)")
    return parser


def chapter_names(text: str) -> list[str]:
    """Parse --only."""
    names = text.split(",")
    unknown = [name for name in names if name not in CHAPTERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown chapter {unknown[0]!r}; there are: {', '.join(CHAPTERS)}")
    return names


def choose_device(device: str, console: Console) -> str:
    """Resolve "auto", and say what was chosen and why."""
    available = ag.cuda.is_available()
    if device == "auto":
        device = "cuda" if available else "cpu"
        why = "a CUDA device answers" if available else "no CUDA device answers"
        console.print(f"Device: [bold]{device}[/], {why}")
    elif device != "cpu" and not available:
        sys.exit(f"--device {device}: no CUDA device answers; run `--device cpu` instead")
    else:
        console.print(f"Device: [bold]{device}[/]")
    return device


def about(args: argparse.Namespace, device: str) -> dict[str, Any]:
    """What was run, and where."""
    where = environment(device)
    words = [f"--device {device}", *[f"--{name}" for name in ("full", "tiny") if getattr(args, name)]]
    words += ["--no-sobolev"] if not args.sobolev else []
    words += [f"--epochs {args.epochs}"] if args.epochs else []
    command = " ".join(["python -m benchmarks.demo", *words, f"--seed {args.seed}"])
    return {"device": device, "command": command, "environment": where, "blas": blas_kernels(where)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; answers the exit code."""
    args = parser().parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    device = choose_device(args.device, console)
    settings = Settings(device, args.full, args.tiny, args.seed, args.epochs, args.sobolev)
    modules = {name: CHAPTERS[name] for name in args.only}
    chapters = tour.start(modules)
    bars = terminal.Bars(console, chapters)
    with bars.progress:
        for chapter in tour.run(chapters, modules, settings, bars.advance):
            bars.finish(chapter)
            terminal.tell(console, chapter)
            page.write(chapters, about(args, device), args.out)
    console.print(f"\nReport: {args.out / 'report.html'}", highlight=False)
    states = {chapter.state for chapter in chapters}
    for chapter in chapters:
        if chapter.error:
            print(f"{chapter.title}: {chapter.state}, {chapter.error}", file=sys.stderr)
    return 130 if "interrupted" in states else 1 if "failed" in states else 0


if __name__ == "__main__":
    restart_unhindered()
    sys.exit(main())
