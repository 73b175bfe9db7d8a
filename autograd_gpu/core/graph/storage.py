"""The storage behind tensors: one version counter, shared by all views of it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from ... import errors
from ...modes import GRAD_OFF, INFERENCE

_LOCK = threading.Lock()

# How a view was created, if this forbids rewriting its history later; 0 is an ordinary view. The first three values are
# the mode bits at that time.
NO_GRAD, IN_INFERENCE, IN_INFERENCE_NO_GRAD = GRAD_OFF, INFERENCE, GRAD_OFF | INFERENCE
ONE_OF_SEVERAL, IN_FUNCTION = 4, 5
OF_SUCH_A_VIEW = 8  # this bit is set for views of such a view


class WriteListener(Protocol):
    """An object that saved the content of a buffer and copies it before the next write."""

    def keep(self, copies: dict[int, Any]) -> None:
        """Takes a copy, or reuses the one in `copies`, which maps the id of the array to the copy."""


class Storage:
    """Identity and version of one buffer.

    Created lazily: a tensor that was never viewed, saved as an output or written to has none, and its version is 0.
    `write_listeners` are notified before a write to the buffer.
    """

    __slots__ = ("__weakref__", "version", "write_listeners")

    write_listeners: weakref.WeakSet[WriteListener] | None

    def __init__(self) -> None:
        self.version = 0
        self.write_listeners = None


class FollowingStorage(Storage):
    """The storage of a tensor detached from its storage `before`: its version is that of `before` plus `ahead`.

    `detach_()` increases `ahead` by one: nodes that saved the tensor detect this in backward, nodes that saved a view
    of it do not. After `x.data = t` the memory is different, and the version is unchanged.
    """

    __slots__ = ("ahead", "origin")

    def __init__(self, before: Storage, more: int) -> None:
        self.origin, self.ahead = before, more
        if isinstance(before, FollowingStorage):  # avoids a growing chain
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
    """The listeners of read-only memory: no copies are needed, since a write raises."""

    def add(self, listener: WriteListener) -> None: ...

    def __iter__(self) -> Any:
        raise errors.read_only()


class ReadOnlyStorage(Storage):
    """The storage of a read-only array from outside, such as a file mapped for reading or a broadcast array."""

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
    """The storage of all tensors made in inference mode: it has no version, so saving such a tensor raises."""

    __slots__ = ()

    def __init__(self) -> None:
        self.write_listeners = None

    @property
    def version(self) -> int:  # type: ignore[override]
        raise errors.inference_saved()


INFERENCE_STORAGE = _InferenceStorage()


class HasStorage(Protocol):
    """The attribute of a tensor that this module uses."""

    _storage: Storage | None


def storage_of(tensor: HasStorage) -> Storage:
    """The storage of `tensor`, created if it has none yet."""
    storage = tensor._storage
    if storage is None:
        with _LOCK:  # two threads must not create two counters for one tensor
            storage = tensor._storage
            if storage is None:
                storage = tensor._storage = Storage()
    return storage


def version_of(tensor: HasStorage) -> int:
    storage = tensor._storage
    return 0 if storage is None else storage.version


def write_count(tensor: HasStorage) -> int:
    """The number of writes to the memory: its version, without the increments by `detach_()`."""
    storage = tensor._storage
    if isinstance(storage, FollowingStorage):
        storage = storage.origin
    return 0 if storage is None else storage.version


def listen_to_writes(storage: Storage, listener: WriteListener) -> None:
    """Registers `listener`: its `keep(copies)` is called once, before the next in-place write to the buffer."""
    if storage.write_listeners is None:
        storage.write_listeners = weakref.WeakSet()
    storage.write_listeners.add(listener)


def notify_write_listeners(storage: Storage) -> None:
    """Notifies the write listeners of the buffer, so that they take a copy, and removes them."""
    listeners, storage.write_listeners = storage.write_listeners, None
    copies: dict[int, Any] = {}
    for listener in list(listeners or ()):  # raises for a read-only array
        listener.keep(copies)


def before_write(tensors: Iterable[HasStorage]) -> None:
    """Calls `notify_write_listeners` for all tensors; code that writes to their arrays calls this first."""
    for tensor in tensors:
        storage = tensor._storage
        if storage is not None and storage.write_listeners is not None:
            notify_write_listeners(storage)


def bump_version(tensor: HasStorage) -> None:
    """Increments the version after a write to the memory, so that nodes which saved the tensor detect the write."""
    storage = tensor._storage or storage_of(tensor)
    if storage is not INFERENCE_STORAGE:
        storage.version += 1


def bump_versions(tensors: Iterable[HasStorage]) -> None:
    """`bump_version` of each."""
    for tensor in tensors:
        storage = tensor._storage or storage_of(tensor)
        if storage is not INFERENCE_STORAGE:
            storage.version += 1


def shares_memory(view: object, source: object) -> bool:
    """Whether the array `view` is `source` or was made as a view of it (cheap: compares only the base pointers)."""
    base = view.base  # type: ignore[attr-defined]
    return view is source or (base is not None and (base is source or base is source.base))  # type: ignore[attr-defined]
