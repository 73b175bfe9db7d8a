"""The stages capture, core, ops and rest: pytest on a part of the tests, with what is installed.

    python -m ci.gpu.suite core --seconds 65 --results DIR --failures FILE [--passed FILE]

leaves DIR/core.xml and DIR/core.outcomes.jsonl. The part of this that runs inside pytest is
tests/support/gpu_session.py.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

from .outdir import OUTCOMES

TESTS = Path(__file__).resolve().parents[2] / "tests"
CAPTURE = ("cuda/test_graph*.py", "ops/test_op_capture.py")
CORE = (
    "backend/kernels/*", "cuda_emu/test_standin*.py", "backend/cuda/*", "cuda/*", "backend/quantization/*",
    "backend/transfer/*", "hooks/test_offload.py", "autograd/test_prefetch.py", "autograd/test_save_on_cpu.py",
    "ops/nn/test_layer_norm.py", "programs/test_cuda_training.py",
)  # fmt: skip
OPS = ("ops/test_op_*.py", "ops/test_saved_op_db.py")
WORKERS = 12  # each has a context on the GPU, and compiles kernels on a core of its own
RESTARTS = 40  # of workers that a test has taken along
PER_TEST = 90  # seconds
SESSION_TIMEOUT = (2, 3)  # the version of pytest-timeout that has --session-timeout


def stage_of(file: Path) -> str:
    """The stage that runs the tests of a file."""
    path = file.relative_to(TESTS)
    parts = {"capture": CAPTURE, "core": CORE, "ops": OPS}
    return next((stage for stage, patterns in parts.items() if _among(path, patterns)), "rest")


def _among(path: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(str(path), pattern) for pattern in patterns)


def others(stage: str) -> list[str]:
    """pytest's words for leaving out the files of other stages: a file that is named is imported, wanted or not."""
    return [f"--ignore={file}" for file in sorted(TESTS.rglob("test_*.py")) if stage_of(file) != stage]


def arguments(args: argparse.Namespace) -> list[str]:
    """All of pytest's arguments but the files."""
    results = Path(args.results)
    words = [
        "--device", "cuda", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:benchmark",
        f"--junitxml={results / args.stage}.xml", f"--outcomes={results / args.stage}{OUTCOMES}",
        f"--failures={args.failures}", f"--stage={args.stage}", f"--until={time.time() + args.seconds:.1f}",
        f"--timeout={PER_TEST}", "--timeout-method=thread", "--continue-on-collection-errors",
    ]  # fmt: skip
    if args.passed:
        words.append(f"--passed={args.passed}")
    if version("pytest-timeout") >= SESSION_TIMEOUT:
        words.append(f"--session-timeout={args.seconds:.1f}")
    else:
        print("pytest-timeout is older than 2.3 and has no --session-timeout: the deadline is ours alone", flush=True)
    if version("pytest-xdist"):
        words += [f"-n{min(WORKERS, cores())}", "--dist=worksteal", f"--max-worker-restart={RESTARTS}"]
    else:
        print("pytest-xdist is not installed: tests run one after the other", flush=True)
    return words


def version(package: str) -> tuple[int, ...]:
    """Of an installed package, () where it is not installed."""
    try:
        return tuple(map(int, re.findall(r"\d+", metadata.version(package))[:2]))
    except metadata.PackageNotFoundError:
        return ()


def cores() -> int:
    return len(os.sched_getaffinity(0))


def main(argv: Sequence[str] | None = None) -> None:
    """Becomes pytest."""
    parser = argparse.ArgumentParser(prog="python -m ci.gpu.suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stage", choices=("capture", "core", "ops", "rest"))
    parser.add_argument("--seconds", type=float, required=True, help="after so long no test begins")
    parser.add_argument("--results", required=True, help="folder of what comes out")
    parser.add_argument("--failures", required=True, help="file of JSON lines to append to")
    parser.add_argument("--passed", help="file with the names of tests to leave out")
    args = parser.parse_args(argv)
    for package in ("pytest", "pytest-timeout"):
        if not version(package):
            sys.exit(f"No module named {package}: the tests need it")
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # the workers share the cores
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a replaced worker should not rewrite each assertion again
    words = [sys.executable, "-m", "pytest", str(TESTS), *arguments(args)]
    print(*words, f"and without the files of stages other than {args.stage}", flush=True)
    os.execv(sys.executable, [*words, *others(args.stage)])


if __name__ == "__main__":
    main()
