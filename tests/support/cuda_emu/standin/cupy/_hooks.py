"""cupy.cuda.MemoryHook: callbacks around what pools do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Registered(threading.local):
    def __init__(self) -> None:
        self.hooks: dict[str, MemoryHook] = {}


_registered = _Registered()


def get_memory_hooks() -> dict[str, MemoryHook]:
    return _registered.hooks


class MemoryHook:
    """Base class; `with hook:` registers it for the thread."""

    name = "MemoryHook"

    def __enter__(self) -> MemoryHook:
        if self.name in _registered.hooks:
            raise KeyError(f"memory hook {self.name} already exists")
        _registered.hooks[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        del _registered.hooks[self.name]

    def alloc_preprocess(self, **kwargs: Any) -> None: ...
    def alloc_postprocess(self, **kwargs: Any) -> None: ...
    def malloc_preprocess(self, **kwargs: Any) -> None: ...
    def malloc_postprocess(self, **kwargs: Any) -> None: ...
    def free_preprocess(self, **kwargs: Any) -> None: ...
    def free_postprocess(self, **kwargs: Any) -> None: ...


@contextmanager
def around(what: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Calls the hooks' <what>_preprocess and _postprocess; the block adds what only the latter can know."""
    hooks = tuple(_registered.hooks.values())
    after = {"mem_ptr": 0, "pmem_id": 0} if what == "malloc" else {"mem_ptr": 0} if what == "alloc" else {}
    for hook in hooks:
        getattr(hook, f"{what}_preprocess")(**facts)
    try:
        yield after
    finally:
        for hook in hooks:
            getattr(hook, f"{what}_postprocess")(**facts, **after)
