"""Our CUDA kernels beside a copy of as many bytes, matrix products and an eager MLP step beside PyTorch's.

A kernel is bound by memory if it is as fast as a device-to-device copy that moves the bytes that the kernel must move;
both are timed in turns by CUDA events, behind other work, so that neither waits for the host. Without a GPU no kernel
is timed: bytes per element are shown as docs/kernels.md has them, counted by the emulator of tests/support/cuda_emu.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

import autograd_gpu as ag

from . import train_mlp
from .common import device_kind, list_of, make_parser, require_agreement, run_workload
from .kernel_families import FAMILIES, Make, dtypes
from .peers import clock_for, load_peers
from .report import OURS, Report, print_table
from .timing import Call, Clock, Contender, Timing, cupy_clock, interleave

NAME = "kernels"
PEERS = ("torch",)
MIB = 1 << 20
SHARE, STEP_RATIO = 0.8, 1.5  # accepted on a GPU: of a copy's speed, and of PyTorch's time for a step
FOOTPRINT = 256 * MIB  # of all arguments of a kernel, so that no call finds its own in the cache
DELAY = 128 * MIB  # bytes that keep the device busy for longer than the host takes for a call
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
LAYOUTS = {"NN": (False, False), "NT": (False, True), "TN": (True, False)}  # which operand is transposed
# dtype, precision of float32 products, and how far two libraries may be apart.
PRODUCTS = {
    "cuda": {
        "float32": ("float32", "highest", 1e-4), "TF32": ("float32", "high", 1e-2),
        "float16": ("float16", "highest", 1e-2), "bfloat16": ("bfloat16", "highest", 5e-2),
    },
    "cpu": {"float32": ("float32", "highest", 1e-4), "float64": ("float64", "highest", 1e-10)},
}  # fmt: skip
LARGEST = {"cuda": 8192, "cpu": 1024}
COUNTED = Path(__file__).resolve().parent.parent / "docs" / "kernels.md"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_parser(NAME, PEERS, __doc__)
    parser.add_argument("--mib", type=int, default=64, help="size of a matrix that kernels work on (default: 64)")
    known = list(FAMILIES)
    parser.add_argument("--families", type=list_of(*known), default=known, help="comma-separated (default: all)")
    return parser


Group = dict[str, tuple[Call, Clock]]  # what is compared: name -> how to do it, and the clock for that


def measure(groups: Mapping[str, Group], args: argparse.Namespace) -> dict[str, dict[str, Timing]]:
    """Time all groups in turns, by their labels: each run of `interleave` walks the heap first."""
    contenders = [
        Contender(f"{label}: {name}", call, clock)
        for label, group in groups.items()
        for name, (call, clock) in group.items()
    ]
    pause = {} if args.device == "cpu" else {"pause_s": 0.0}  # only threads need it
    timings = interleave(contenders, args.repeats, sample_s=args.sample_s, **pause)
    return {label: {name: timings[f"{label}: {name}"] for name in group} for label, group in groups.items()}


# ---- kernels ---------------------------------------------------------------------------------------------


class DeviceClock:
    """Seconds that calls take on the device, from the first one's start to the last one's end.

    It is kept busy by copies until the host has enqueued them all.
    """

    def __init__(self, nbytes: int) -> None:
        import cupy

        self.source, self.target = (cupy.zeros(nbytes, np.uint8) for _ in range(2))

    def __call__(self, call: Call, count: int) -> float:
        for _ in itertools.repeat(None, count):
            self.target.data.copy_from_device_async(self.source.data, self.source.nbytes)
        return cupy_clock(call, count)


def in_turn(calls: Sequence[Call]) -> Call:
    """Does one of `calls` after the other, and keeps their results until it is their turn again."""
    turns, kept = itertools.cycle(range(len(calls))), [None] * len(calls)

    def call() -> None:
        turn = next(turns)
        kept[turn] = calls[turn]()

    return call


def copy_of(nbytes: int) -> Call:
    """A copy on the device that reads and writes `nbytes` together."""
    import cupy

    source, target = (cupy.zeros(nbytes // 2, np.uint8) for _ in range(2))
    return lambda: target.data.copy_from_device_async(source.data, source.nbytes)


def contenders_of(name: str, dtype: np.dtype, clock: Clock, args: argparse.Namespace) -> tuple[int, Group]:
    """The bytes that a family moves; the family in one dtype, and a copy of as many bytes."""
    import cupy

    first = FAMILIES[name](Make(cupy, dtype, args.nbytes))
    sets = 1 if args.tiny else max(1, -(-FOOTPRINT // first.bytes))
    works = [first, *[FAMILIES[name](Make(cupy, dtype, args.nbytes)) for _ in range(sets - 1)]]
    copies = [copy_of(first.bytes) for _ in works]
    return first.bytes, {OURS: (in_turn([work.call for work in works]), clock), "copy": (in_turn(copies), clock)}


def measure_kernels(report: Report, args: argparse.Namespace) -> None:
    """Time every family in each of its dtypes."""
    clock = DeviceClock(1024 if args.tiny else DELAY)
    for name in args.families:
        with report.attempt(*family_labels(name)):
            measure_family(report, name, clock, args)


def family_labels(name: str) -> list[str]:
    """The names of a family's cases."""
    return [f"{name}, {dtype}" for dtype in dtypes(name)]


def measure_family(report: Report, name: str, clock: Clock, args: argparse.Namespace) -> None:
    """Time one family, all dtypes in turns."""
    made = [contenders_of(name, dtype, clock, args) for dtype in dtypes(name)]
    by_label = dict(zip(family_labels(name), made, strict=True))
    timings = measure({label: group for label, (_, group) in by_label.items()}, args)
    for label, (nbytes, _) in by_label.items():
        counts = {contender: {"GB/s": round(nbytes / t.median / 1e9)} for contender, t in timings[label].items()}
        report.add(label, timings[label], unit="us", counts=counts)


def counted() -> list[tuple[str, ...]]:
    """Kernel, bytes per element of float32, half types, float64; the least, the ratio, those of separate launches."""
    rows = re.findall(r"^\| `(\w+)`([^|]*)\|[^|]*\|[^|]*\|((?: [\d.]+ \|){6})$", COUNTED.read_text(), re.MULTILINE)
    return [(name + rest.rstrip(), *(cell.strip() for cell in cells.split("|")[:6])) for name, rest, cells in rows]


def show_counted() -> None:
    header = ("kernel", "float32", "16 bits", "float64", "least, float32", "ratio", "separate launches, float32")
    print_table("Bytes per element, counted by the emulator: no kernel was timed, for want of a GPU", header, counted())


# ---- products --------------------------------------------------------------------------------------------


@contextmanager
def precision(libraries: Sequence[ModuleType], name: str) -> Iterator[None]:
    """Every library's float32 products at that precision."""
    before = [lib.get_float32_matmul_precision() for lib in libraries]
    for lib in libraries:
        lib.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        for lib, former in zip(libraries, before, strict=True):
            lib.set_float32_matmul_precision(former)


@functools.cache
def numbers(size: int) -> np.ndarray:
    """Two square matrices."""
    return np.random.default_rng(8).random((2, size, size), np.float32) * 2 - 1


def product(lib: ModuleType, size: int, transposed: Sequence[bool], dtype: str, device: str) -> Call:
    """a @ b of two square matrices in a library with PyTorch's names, either transposed as a view."""
    operands = []
    for matrix, flip in zip(numbers(size), transposed, strict=True):
        operand = lib.tensor(matrix, device=device).to(getattr(lib, dtype))
        operands.append(operand.mT.contiguous().mT if flip else operand)
    a, b = operands
    return lambda: lib.matmul(a, b)


def product_labels(kind: str, args: argparse.Namespace) -> dict[str, tuple[str, int]]:
    """The names of the products of a kind of number, with layout and size."""
    largest = LARGEST[device_kind(args.device)]
    sizes = (32,) if args.tiny else [size for size in SIZES if size <= largest]
    return {f"product {layout}, {kind}, {size}": (layout, size) for layout, size in itertools.product(LAYOUTS, sizes)}


def measure_products(
    report: Report, kind: str, libraries: Mapping[str, ModuleType], args: argparse.Namespace
) -> None:
    """Check and time every product of a kind of number, in turns."""
    dtype, name, tolerance = PRODUCTS[device_kind(args.device)][kind]
    labels, groups = product_labels(kind, args), {}
    with precision(list(libraries.values()), name):
        for label, (layout, size) in labels.items():
            calls = {peer: product(lib, size, LAYOUTS[layout], dtype, args.device)
                     for peer, lib in libraries.items()}  # fmt: skip
            rows = {peer: [call()[:8].to(libraries[peer].float32)] for peer, call in calls.items()}
            require_agreement(rows, tolerance, label)
            groups[label] = {peer: (call, clock_for(libraries[peer], args.device)) for peer, call in calls.items()}
        timings = measure(groups, args)
    for label, taken in timings.items():
        operations = 2 * labels[label][1] ** 3
        counts = {peer: {"GFLOP/s": round(operations / timing.median / 1e9)} for peer, timing in taken.items()}
        report.add(label, taken, unit="us", counts=counts)


# ---- what is accepted ------------------------------------------------------------------------------------


def verdicts(report: Report) -> list[str]:
    """A line for each acceptance figure: pass or fail on a GPU, else why there is no verdict."""
    lines = []
    judged = report.device == "cuda" and not report.config["tiny"]
    for case in report.cases:
        contenders, label = case["contenders"], case["case"]
        if "copy" in contenders:
            share = 1 / contenders["copy"]["ratio"]
            lines.append(_line(share >= SHARE, judged, f"{label}: {share:.0%} of a copy's speed", f"{SHARE:.0%}"))
        elif "torch" in contenders and not label.startswith("product"):
            ratio = contenders["torch"]["ratio"]
            asked = f"at most {STEP_RATIO}x"
            lines.append(_line(ratio <= STEP_RATIO, judged, f"{label}: {ratio:.2f}x PyTorch's time", asked))
    return lines


def _line(good: bool, judged: bool, text: str, asked: str) -> str:
    word = ("pass" if good else "FAIL") if judged else "no verdict"
    return f"{word}  {text} (asked on a GPU: {asked})"


def run(args: argparse.Namespace) -> Report:
    """Kernels, where there is a GPU; then products and steps."""
    args.nbytes, args.hidden, args.sample_s, batch = args.mib * MIB, 256, 0.003, 128
    if args.tiny:
        args.nbytes, args.hidden, args.sample_s, batch = 4096, 16, 1e-5, 8
    present, absent = load_peers(args.peers, PEERS, args.device)
    kind = device_kind(args.device)
    title = f"Kernels at {args.nbytes / MIB:g} MiB, products and MLP steps, {args.device}"
    config = {"tiny": args.tiny, "bytes": args.nbytes, "batch": batch, "share": SHARE, "step_ratio": STEP_RATIO}
    if kind == "cpu":
        config["bytes_per_element"] = {name: cells for name, *cells in counted()}
    report = Report(NAME, title, kind, config, absent, args.json)
    families = args.families if kind == "cuda" else []
    steps = {optimizer: train_mlp.label_of(optimizer, batch) for optimizer in train_mlp.LEARNING_RATE}
    products = [label for number in PRODUCTS[kind] for label in product_labels(number, args)]
    report.plan([*[label for name in families for label in family_labels(name)], *products, *steps.values()])
    if families:
        measure_kernels(report, args)
    for number in PRODUCTS[kind]:
        with report.attempt(*product_labels(number, args)):
            measure_products(report, number, {OURS: ag, **present}, args)
    for optimizer, label in steps.items():
        with report.attempt(label):
            train_mlp.measure(report, present, batch, optimizer, args)
    return report


def main(argv: Sequence[str] | None = None) -> Report:
    """Run from the command line."""
    return run_workload(parser(), run, argv, comment=comment)


def comment(report: Report) -> None:
    """What there is to say beside the table."""
    if report.device == "cpu":
        show_counted()
    print("\n".join(verdicts(report)))


if __name__ == "__main__":
    main()
