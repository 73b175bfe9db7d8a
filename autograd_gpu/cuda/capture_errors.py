"""The error of a capture that failed: which op cannot be recorded, and where it was called."""

from __future__ import annotations

import contextlib
import re
import traceback
from pathlib import Path

from ..backend.cuda import capture

PACKAGE = Path(__file__).resolve().parents[1]
_GENERATED = re.compile(r"<generated (\w+) \d+>")


class CaptureError(RuntimeError):
    """What a block does cannot be recorded in a CUDA graph."""


def explain(error: BaseException, said: str | None) -> None:
    """Raises a CaptureError from `error`, unless that has nothing to do with the capture."""
    if not isinstance(error, Exception) or not capture.concerns_capture(error):
        return
    frames = traceback.extract_tb(error.__traceback__)
    where = next((f"{frame.filename}:{frame.lineno}" for frame in reversed(frames) if _is_users(frame.filename)), "?")
    # Raised here, since a frame that held it would be a cycle, which would keep the memory of the capture.
    raise CaptureError(f"{_name(frames)} cannot be captured in a CUDA graph, at {where}: {error}. Leave it out of the "
                       "captured code, or run the code without a graph" + (f" (CUDA: {said})" if said else "")
                       ) from error  # fmt: skip


def _name(frames: traceback.StackSummary) -> str:
    """The innermost op that was running, else what the user has called."""
    ops = [match[1] for frame in frames if (match := _GENERATED.fullmatch(frame.filename))]
    if ops:
        return ops[-1]
    called = [i for i, frame in enumerate(frames, 1) if _is_users(frame.filename)]
    within = frames[called[-1] :] if called else []
    return within[0].name if within else "this"


def _is_users(filename: str) -> bool:
    return filename != contextlib.__file__ and not filename.startswith(("<generated", "<frozen")) and not any(
        parent == PACKAGE or parent.name in ("cupy", "cupyx", "cupy_backends") for parent in Path(filename).parents
    )
