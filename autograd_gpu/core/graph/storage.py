"""The storage behind tensors: one version counter, shared by all views of it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from ... import errors
from ...config import GRAD_OFF, INFERENCE

_LOCK = threading.Lock()

# How a view was made, where that forbids to rewrite its history later; 0 is an ordinary view. The first three are the
# modes' bits at the time.
NO_GRAD, IN_INFERENCE, IN_INFERENCE_NO_GRAD = GRAD_OFF, INFERENCE, GRAD_OFF | INFERENCE
ONE_OF_SEVERAL, IN_FUNCTION = 4, 5
OF_SUCH_A_VIEW = 8  # the bit that is set for views of such a view


class WriteListener(Protocol):
    """Something that saved the content of a buffer, and takes a copy before the next write to it."""

    def keep(self, copies: dict[int, Any]) -> None:
        """Takes a copy, unless another listener put one in `copies`, by the id of the array, which it still holds."""


class Storage:
    """Identity and version of one buffer.

    Made lazily: a tensor that was never viewed, saved as an output or written to has none, and is at version 0.
    `write_listeners` are told before the buffer is written to.
    """

    __slots__ = ("__weakref__", "version", "write_listeners")

    write_listeners: weakref.WeakSet[WriteListener] | None

    def __init__(self) -> None:
        self.version = 0
        self.write_listeners = None


class FollowingStorage(Storage):
    """The storage of a tensor that was cut off from `before`, its storage: one version counter, `ahead` of that by a
    constant.

    After `detach_()` by one more, so that whoever saved the tensor for backward notices, and nobody who saved a view of
    it. After `x.data = t` the memory is another, and the version stays.
    """

    __slots__ = ("ahead", "origin")

    def __init__(self, before: Storage, more: int) -> None:
        self.origin, self.ahead = before, more
        if isinstance(before, FollowingStorage):  # else a chain would grow
            self.origin, self.ahead = before.origin, before.ahead + more

    @property
    def version(self) -> int:
        return self.origin.version + self.ahead

    @version.setter
    def version(self, value: int) -> None:
        self.origin.version = value - self.ahead

    @property
    def write_listeners(self) -> weakref.WeakSet[WriteListener] | None:
        return self.origin.write_listeners

    @write_listeners.setter
    def write_listeners(self, value: weakref.WeakSet[WriteListener] | None) -> None:
        self.origin.write_listeners = value


class _RefusingListeners:
    """The listeners of read-only memory: none has to keep anything, and a write raises."""

    def add(self, listener: WriteListener) -> None: ...

    def __iter__(self) -> Any:
        raise errors.read_only()


class ReadOnlyStorage(Storage):
    """The storage of an array that came in read-only: a file mapped for reading, say, or a stretched array."""

    __slots__ = ()

    def __init__(self) -> None:
        self.version = 0

    @property
    def write_listeners(self) -> Any:
        return _REFUSING_LISTENERS

    @write_listeners.setter
    def write_listeners(self, value: weakref.WeakSet[WriteListener] | None) -> None: ...


_REFUSING_LISTENERS = _RefusingListeners()


class _InferenceStorage(Storage):
    """What all tensors made in inference mode have: no version, so that saving one raises."""

    __slots__ = ()

    def __init__(self) -> None:
        self.write_listeners = None

    @property
    def version(self) -> int:  # type: ignore[override]
        raise errors.inference_saved()


INFERENCE_STORAGE = _InferenceStorage()



class HasStorage(Protocol):
    """What this module needs of a tensor."""

    _storage: Storage | None


def storage_of(tensor: HasStorage) -> Storage:
    """The storage of `tensor`, made if it has none yet."""
    storage = tensor._storage
    if storage is None:
        with _LOCK:  # two threads must not give one tensor two counters
            storage = tensor._storage
            if storage is None:
                storage = tensor._storage = Storage()
    return storage


def version_of(tensor: HasStorage) -> int:
    storage = tensor._storage
    return 0 if storage is None else storage.version


def write_count(tensor: HasStorage) -> int:
    """How often the memory was written to: its version, but for what `detach_()` added."""
    storage = tensor._storage
    if isinstance(storage, FollowingStorage):
        storage = storage.origin
    return 0 if storage is None else storage.version


def listen_to_writes(storage: Storage, listener: WriteListener) -> None:
    """`listener.keep(copies)` is called before the next in-place operation writes to the buffer, once."""
    if storage.write_listeners is None:
        storage.write_listeners = weakref.WeakSet()
    storage.write_listeners.add(listener)


def notify_write_listeners(storage: Storage) -> None:
    """Lets those that saved the content of the buffer take a copy."""
    listeners, storage.write_listeners = storage.write_listeners, None
    copies: dict[int, Any] = {}
    for listener in list(listeners or ()):  # raises for a read-only array
        listener.keep(copies)


def before_write(tensors: Iterable[HasStorage]) -> None:
    """`notify_write_listeners` for all of them, by code that writes to arrays."""
    for tensor in tensors:
        storage = tensor._storage
        if storage is not None and storage.write_listeners is not None:
            notify_write_listeners(storage)


def bump_version(tensor: HasStorage) -> None:
    """Says that `tensor`'s memory was written to: whoever saved it for backward will notice."""
    storage = tensor._storage or storage_of(tensor)
    if storage is not INFERENCE_STORAGE:
        storage.version += 1


def shares_memory(view: object, source: object) -> bool:
    """Whether the array `view` is `source` or was made as a view of it (cheap: looks at the base pointers only)."""
    base = view.base  # type: ignore[attr-defined]
    return view is source or (base is not None and (base is source or base is source.base))  # type: ignore[attr-defined]
