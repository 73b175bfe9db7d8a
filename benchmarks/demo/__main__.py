"""The demo: python -m benchmarks.demo [--device auto|cpu|cuda] [--epochs N] [--out out].

1. An MLP learns scikit-learn's digits, real data, to at least 97 % on digits it has not seen.
2. The Hessian workload runs, with its matrix products counted, beside PyTorch if that is installed.
3. out/report.html tells the story; out/training.png and out/demo.json hold the parts.

The exit code is 1 if the accuracy is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import autograd_gpu as ag

try:
    import threadpoolctl  # comes with scikit-learn
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table

    from . import report
    from .training import PLACES, Outcome, load_digits, train
except ImportError as error:
    sys.exit(f"the demo needs {error.name}: pip install 'autograd-gpu[demo]', or run `make demo`")

from .. import hessian
from ..report import OURS
from ..restart import restart_unhindered

TARGET = 0.97  # test accuracy


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo",
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training set (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, dropout and shuffling (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write (default: out)")
    parser.add_argument("--tiny", action="store_true", help="smallest Hessian: a smoke test")
    return parser


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


def train_with_progress(args: argparse.Namespace, device: str, console: Console) -> Outcome:
    """Train under a progress bar that shows loss and accuracies."""
    digits = load_digits()
    shown = len(digits.train_y)
    console.print(
        f"Digits to learn from: {shown // PLACES} images, each also shifted by a pixel in four directions: {shown}"
    )
    console.print(f"Digits to be tested on: {len(digits.test_y)} images\n")
    columns = (
        TextColumn("[bold blue]training"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=args.epochs, figures="")

        def show(loss: float, train_accuracy: float, test_accuracy: float) -> None:
            figures = f"loss {loss:.4f}  train {train_accuracy:.1%}  test {test_accuracy:.1%}"
            progress.update(task, advance=1, figures=figures)

        # A product of 64 x 64 x 256 gains nothing from a second BLAS thread, and on a busy machine waiting
        # for that thread made training 60 times slower.
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            return train(digits, device, args.epochs, args.seed, show)


def print_classes(outcome: Outcome, console: Console) -> None:
    """Precision, recall and F1 of each digit, and what was taken for what."""
    table = Table(title="Test digits", title_style="bold", title_justify="left")
    for name in ("digit", "precision", "recall", "F1", "images"):
        table.add_column(name, justify="right")
    for scores in outcome.per_class():
        figures = (f"{scores.precision:.3f}", f"{scores.recall:.3f}", f"{scores.f1:.3f}")
        table.add_row(str(scores.digit), *figures, str(scores.images))
    console.print(table)
    mistakes = [f"{true} as {said} ({times}x)" for true, said, times in outcome.mistakes()]
    wrong = int(outcome.confusion.sum() - outcome.confusion.trace())
    console.print(f"{wrong} of {outcome.confusion.sum()} misread: {', '.join(mistakes) or 'none'}\n")


def measure_hessian(device: str, tiny: bool, console: Console) -> hessian.Report:
    """The Hessian workload at CPU size, without backward; PyTorch runs a loop over gradients."""
    arguments = ["--device", device, "--batch", "2000", "--precisions", "fp32", "--parts", "hessian"]
    arguments += ["--activations", "Tanh,ReLU", "--methods", "none", "--sweeps", "none"]
    arguments += ["--peers", "torch", *(["--tiny"] if tiny else [])]
    with console.status("Hessian of a 6 x 512 network, Tanh and ReLU ..."):
        measured = hessian.run(hessian.parser().parse_args(arguments))
    measured.print()
    for case in measured.cases:
        counts = {name: result["counts"]["hidden products"] for name, result in case["contenders"].items()}
        console.print(f"  {case['case']}: {counts[OURS]} hidden products", end="")
        console.print(f", PyTorch {counts['torch']}" if "torch" in counts else "")
    return measured


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; answers the exit code."""
    args, console = parser().parse_args(argv), Console()
    device = choose_device(args.device, console)
    outcome = train_with_progress(args, device, console)
    print_classes(outcome, console)
    measured = measure_hessian(device, args.tiny, console)
    accuracy = outcome.test_accuracy[-1]
    story = report.collect(outcome, measured, device, args.seed, TARGET)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "demo.json").write_text(json.dumps(story, indent=1) + "\n")
    report.draw_training(outcome, args.out / "training.png", TARGET)
    report.write_html(story, args.out / "training.png", args.out / "report.html")
    console.print(f"\nTrained in {outcome.seconds:.1f} s to {accuracy:.2%} on digits it had not seen.")
    console.print(f"Report: {args.out / 'report.html'}", highlight=False)
    if accuracy < TARGET:
        print(f"test accuracy {accuracy:.2%} is below {TARGET:.0%}: train for more --epochs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    restart_unhindered()
    sys.exit(main())
