"""Checks that a recomputation saves the same tensors as the forward pass, and the error messages."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ...backend.arrays.device import Device
from ...core.declare.op import OpDef
from ...core.graph.storage import version_of
from ...core.interpret.watcher import Watcher
from ...core.tensor import Tensor

NAME = "autograd_gpu.utils.checkpoint"
TIP = ("Tip: To see a more detailed error message, either pass `debug=True` to `checkpoint(...)` or wrap the code "
       "block with `with autograd_gpu.utils.checkpoint.set_checkpoint_debug_enabled(True):`.")
PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"


class CheckpointError(RuntimeError):
    """Raised if a checkpointed function saves other tensors when it is recomputed.

    >>> issubclass(ag.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


class Metadata(NamedTuple):
    """The compared properties of a saved tensor; a changed version means that it was modified in place."""

    shape: tuple[int, ...]
    dtype: Any
    device: Device
    version: int

    def __str__(self) -> str:
        return f"{{'shape': {self.shape}, 'dtype': {self.dtype}, 'device': {self.device!r}}}"


def metadata(tensor: Tensor) -> Metadata:
    return Metadata(tensor.shape, tensor.dtype, tensor.device, version_of(tensor))


Check = Callable[[Tensor], Metadata] | None
CHECKS: dict[str, Check] = {"default": metadata, "none": None}


def check_of(name: str) -> Check:
    """The function of a `determinism_check` that records a tensor's properties; ValueError for an unknown name."""
    if name not in CHECKS:
        raise ValueError(f"determinism_check should be one of {list(CHECKS)}, but got {name}")
    return CHECKS[name]


def too_many() -> CheckpointError:
    return CheckpointError(f"{NAME}: trying to save more tensors during recomputation than during the original forward "
                           f"pass.\n{TIP}")


def too_few(expected: int, count: int) -> CheckpointError:
    return CheckpointError(
        f"{NAME}: A different number of tensors was saved during the original forward and recomputation.\n"
        f"Number of tensors saved during forward: {expected}\n"
        f"Number of tensors saved during recomputation: {count}.\n{TIP}"
    )


def different(changed: list[tuple[int, Metadata, Metadata]]) -> CheckpointError:
    lines = [f"tensor at position {i}:\nsaved metadata: {old}\nrecomputed metadata: {new}\n" for i, old, new in changed]
    return CheckpointError(f"{NAME}: Recomputed values for the following tensors have different metadata than during "
                           f"the forward pass.\n{''.join(lines)}.\n{TIP}")


# ---- debug=True --------------------------------------------------------------------------------------


class _Debug(threading.local):
    enabled: bool | None = None


DEBUG = _Debug()


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Overrides `debug` of checkpoints made by this thread inside the block; None has no effect.

    >>> with ag.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     y = ag.utils.checkpoint.checkpoint(ag.exp, ag.zeros(1, requires_grad=True), use_reentrant=False)
    """
    before = DEBUG.enabled
    DEBUG.enabled = enabled
    try:
        yield
    finally:
        DEBUG.enabled = before


def _described(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_described, value))}]"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, Tensor) else repr(value)


class OpLog(Watcher):
    """A watcher that records each call and its source line."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.traces: list[str] = []

    def clear(self) -> None:
        self.calls.clear()
        self.traces.clear()

    def around(self, op: OpDef, args: list[Any], attributes: dict[str, Any], forward: Any) -> tuple[Any, Any]:
        named = [f"{name}={value!r}" for name, value in attributes.items()]
        call = f"{op.name}({', '.join([*map(_described, args), *named])})"

        def done(out: Any) -> None:
            self.calls.append(f"{call} -> {_described(out)}")
            self.traces.append(_trace())

        return forward, done

    def text(self, label: str) -> str:
        rows, count = zip(self.calls, self.traces, strict=True), len(self.calls)
        parts = [f"{call}   ({i} of {count} in {label})\n{trace}\n" for i, (call, trace) in enumerate(rows, 1)]
        return "\n".join(parts)


def _trace() -> str:
    """The lines of the caller's own code, innermost first."""
    lines, frame = [], sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) and not name.startswith("<"):
            lines.append(f"{name}:{frame.f_lineno}:{frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return "\n".join(lines)


def explained(first: OpLog, second: OpLog) -> CheckpointError:
    """The error for a difference with `debug=True`: lists the operations of both runs."""
    parts = (
        "An error happened while unpacking tensors; dumping logs of latest computation because you passed `debug=True` "
        f"to `{NAME}.checkpoint()`.",
        "1. Stack traces of the operators that ran in the original forward", first.text("original"),
        "2. Stack traces of the operators that ran during recomputation", second.text("recompute"),
        "3. Log of operators in the original forward and recomputation",
        "Operations executed during the original forward:", "\n".join(first.calls),
        "Operations executed during recomputation:", "\n".join(second.calls),
        "ERROR: Detected non-determinism while running activation checkpointing. Compare the two logs to see where "
        "they differ; the stack traces say where each operation stands in your code.",
    )  # fmt: skip
    return CheckpointError("\n\n".join(parts))
