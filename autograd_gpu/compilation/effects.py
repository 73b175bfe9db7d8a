"""What programs do to tensors from outside."""

from __future__ import annotations

from typing import Any

from ..backend.cuda import exact
from ..core.graph import journals
from ..core.graph.storage import before_write, bump_version
from ..core.tensor import Tensor, wrap


def set_grad(leaf: Tensor, array: Any) -> None:
    """Sets the `.grad` of a leaf."""
    if journals.OPEN:
        journals.note(leaf)
    leaf._grad = None if array is None else wrap(array)


def write(tensor: Tensor | None, target: Any, source: Any) -> None:
    """target[...] = source; `tensor`, if somebody outside can see the memory, gets the next version."""
    if tensor is not None:
        before_write((tensor,))
        bump_version(tensor)
    target[...] = exact.assignable(source, target)
