"""Batches in page-locked host memory."""

from __future__ import annotations

import warnings
from typing import Any

from ...backend.cuda import runtime
from ...core.tensor import Tensor
from .collate import in_containers


def pins(pin_memory: bool) -> bool:
    """Whether batches are to be pinned: if `pin_memory`, and there is a GPU; without one a warning."""
    if pin_memory and not runtime.is_available():
        warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
                      "won't be used.", stacklevel=5)
        return False
    return pin_memory


def pin_batch(batch: Any) -> Any:
    """`batch` with its tensors on the CPU in page-locked memory; an object with a method `pin_memory` pins itself."""
    if isinstance(batch, Tensor):
        return batch if batch.is_cuda else batch.pin_memory()
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    return in_containers(pin_batch, batch)
