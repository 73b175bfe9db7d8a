"""The storage behind tensors: one version counter, shared by all views of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tensor import Tensor

_LOCK = threading.Lock()


class Storage:
    """Identity and version of one buffer.

    Made lazily: a tensor that was never viewed, saved as an output or written to has none, and is at version 0.
    """

    __slots__ = ("__weakref__", "version")

    def __init__(self) -> None:
        self.version = 0


def storage_of(tensor: Tensor) -> Storage:
    """The storage of `tensor`, made if it has none yet."""
    storage = tensor._storage
    if storage is None:
        with _LOCK:  # two threads must not give one tensor two counters
            storage = tensor._storage
            if storage is None:
                storage = tensor._storage = Storage()
    return storage


def version_of(tensor: Tensor) -> int:
    storage = tensor._storage
    return 0 if storage is None else storage.version


def bump_version(tensor: Tensor) -> None:
    """Says that `tensor`'s memory was written to: whoever saved it for backward will notice."""
    (tensor._storage or storage_of(tensor)).version += 1


def shares_memory(view: object, source: object) -> bool:
    """Whether the array `view` is `source` or was made as a view of it (cheap: looks at the base pointers only)."""
    base = view.base  # type: ignore[attr-defined]
    return view is source or (base is not None and (base is source or base is source.base))  # type: ignore[attr-defined]
