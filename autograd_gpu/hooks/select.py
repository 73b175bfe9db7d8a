"""select: a memory hook restricted to some saved tensors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..autograd.graph import SaveInfo
from ..backend.arrays.dtypes import as_dtype
from ..core.graph.hooks import RemovableHandle
from ..core.tensor import Tensor
from ..errors import check_count
from .base import MemoryHook, attachable
from .codec import Condition, Stage, checked_predicate


class Presence(threading.local):
    """The context of calls of some modules: counts the calls that this thread is inside."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc: object) -> None:
        self.depth -= 1

    def __deepcopy__(self, memo: dict[int, Any]) -> Presence:
        return self  # calls of a copied module count here, too

    def __reduce__(self) -> tuple[Any, ...]:
        return Presence, ()


class Inside:
    """The condition that a call of one of `modules` is running in this thread."""

    def __init__(self, modules: Iterable[Any]) -> None:
        self.presence = Presence()
        handles = [attachable("select", module)(self.presence) for module in modules]
        weakref.finalize(self, _remove, handles).atexit = False

    def __call__(self, tensor: Tensor, info: SaveInfo) -> bool:
        return self.presence.depth > 0


def _by(ops: frozenset[str], tensor: Tensor, info: SaveInfo) -> bool:
    return info.op in ops


def _large(min_bytes: int, tensor: Tensor, info: SaveInfo) -> bool:
    return tensor.nbytes >= min_bytes


def _of(dtypes: list[Any], tensor: Tensor, info: SaveInfo) -> bool:
    return tensor.dtype in dtypes


def _remove(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()


class select(MemoryHook):
    """Applies `hook` only to saved tensors that meet every condition; the others are saved unpacked.

    op: the name of the operation that saves the tensor, such as "tanh", or several names; docs/memory.md shows how to
    find it. min_bytes: the minimum size of the tensor. dtype: the tensor's dtype, or several. module: an nn.Module, or
    several, during whose calls the tensor is saved. predicate: a function of the tensor and an
    `ag.autograd.graph.SaveInfo`. Conditions are tested per save: memory that another node saves unpacked stays in use.
    The new hook counts bytes, `hook` does not. TypeError for an argument of another type.

    >>> x = ag.ones(64, 64, requires_grad=True)
    >>> with ag.hooks.select(ag.hooks.quantize(ag.float16), min_bytes=1 << 20) as hook:
    ...     y = x.exp()
    >>> hook.bytes_held
    0
    """

    def __init__(
        self, hook: MemoryHook, *, op: str | Iterable[str] | None = None, min_bytes: int = 0, dtype: Any = None,
        module: Any = None, predicate: Callable[[Tensor, SaveInfo], bool] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(hook, MemoryHook):
            raise TypeError(f"select: expected a hook of ag.hooks, got {type(hook).__name__}")
        conditions: list[Condition] = []
        if op is not None:
            ops = _listed(op)
            if not all(isinstance(name, str) for name in ops):
                raise TypeError(f"select: op must be the name of an operation, or several, got {op!r}")
            conditions.append(partial(_by, frozenset(ops)))
        check_count("select", "min_bytes", min_bytes)
        if min_bytes:
            conditions.append(partial(_large, min_bytes))
        if dtype is not None:
            conditions.append(partial(_of, [as_dtype(d) for d in _listed(dtype)]))
        if module is not None:
            conditions.append(Inside(_listed(module)))
        if predicate is not None:
            conditions.append(checked_predicate("select", predicate))
        super().__init__(tuple([Stage(codec, (*conditions, *before)) for codec, before in hook.stages]))


def _listed(value: Any) -> list[Any]:
    """`value` as a list; strings and modules, such as an iterable Sequential, are single values."""
    single = isinstance(value, str) or not isinstance(value, Iterable) or hasattr(value, "register_forward_context")
    return [value] if single else list(value)
