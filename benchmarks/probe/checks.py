"""All checks in their order, and how one of them runs in a child process."""

from __future__ import annotations

import traceback

from ..together import OutOfTime, at_most, device_answers
from . import arithmetic, behaviour, capture, copies, gradients, host_time, kernels, machine
from .table import CHECKS, Found, lab

MODULES = (arithmetic, behaviour, capture, copies, gradients, host_time, kernels, machine)  # they fill the table
LINES = 15  # of a traceback
# By value: those that answer a question by themselves come first, and what breaks the device last.
ORDER = (
    "device", "reference counts of gradients", "where keeps the dtype", "capture of a ufunc and a RawKernel",
    "capture of ufunc, RawKernel and cuBLAS by ctypes", "private pool under capture", "copies as nodes of a graph",
    "capture of an optimizer step", "host time of an optimizer step", "copies overlap", "page-locked memory",
    "prefetch of offloaded tensors", "products", "layer with relu by cuBLASLt", "host time",
    *[f"kernel {file}" for file in kernels.FILES], "ufuncs on tensors", "overlapping operands", "launches",
    "watched allocations", "product added into a gradient", "batched linear algebra", "an illegal address",
)  # fmt: skip


def do(name: str, seconds: float) -> tuple[Found, bool]:
    """Runs a check in this process: what it found, and whether others may follow it here."""
    chosen = CHECKS[name]
    try:
        with at_most(seconds):
            outcome = chosen.run(lab())
    except OutOfTime:
        outcome = {"ok": False, "error": f"was not done within {seconds:g} s"}
    except Exception as error:
        lines = traceback.format_exc().splitlines()[-LINES:]
        outcome = {"ok": False, "error": f"{type(error).__name__}: {error}", "lines": lines}
    answers = device_answers()
    if not answers and not chosen.breaks:
        outcome = {"error": "the device answers no more", **outcome, "ok": False}
    return outcome, answers and not ("error" in outcome and chosen.captures)
