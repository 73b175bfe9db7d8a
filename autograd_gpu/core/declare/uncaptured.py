"""The word `no_capture`: ops that cannot be recorded in a CUDA graph say so before they spoil the capture."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...backend.cuda import capture, runtime
from ...errors import OpDeclarationError

REASONS = {
    "cuSOLVER": "cuSOLVER is called by CuPy",
    "cuBLAS": "cuBLAS is called by CuPy",
    "sizes": "the size of a result depends on values, for which the host waits",
    "host": "numbers are copied between the host and the device",
}


def refused_in_captures(op: str, word: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward` of an op, for CUDA; it raises while the current stream is being captured."""
    if word not in REASONS:
        raise OpDeclarationError(f"op {op}: no_capture is one of {', '.join(REASONS)}; got {word!r}")

    @functools.wraps(forward)
    def refusing(*args: Any, **attributes: Any) -> Any:
        if capture.is_captured(runtime.current.stream()):
            raise capture.Refused(REASONS[word])
        return forward(*args, **attributes)

    return refusing
