"""The storage behind tensors: one version counter, shared by all views of it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from ... import errors

_LOCK = threading.Lock()

# How a view was made, where that forbids to rewrite its history later; 0 is an ordinary view. The first three are the
# modes' bits at the time, GRAD_OFF and INFERENCE.
NO_GRAD, IN_INFERENCE, IN_INFERENCE_NO_GRAD = 1, 2, 3
ONE_OF_SEVERAL, IN_FUNCTION = 4, 5
OF_SUCH_A_VIEW = 8  # the bit that is set for views of such a view


class Saver(Protocol):
    """Keeps the content of a buffer: takes a copy before the next write, or one that another saver put in `copies`."""

    def keep(self, copies: dict[int, Any]) -> None: ...  # by the id of the array, which its saver still holds


class Storage:
    """Identity and version of one buffer.

    Made lazily: a tensor that was never viewed, saved as an output or written to has none, and is at version 0.
    `savers`: those that `keep()` a copy before the buffer is written to.
    """

    __slots__ = ("__weakref__", "savers", "version")

    savers: weakref.WeakSet[Saver] | None

    def __init__(self) -> None:
        self.version = 0
        self.savers = None


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
    def savers(self) -> weakref.WeakSet[Saver] | None:
        return self.origin.savers

    @savers.setter
    def savers(self, value: weakref.WeakSet[Saver] | None) -> None:
        self.origin.savers = value


class _NoWriters:
    """The savers of memory that nobody may write to: none has to keep anything, and a write raises."""

    def add(self, saver: Saver) -> None: ...

    def __iter__(self) -> Any:
        raise errors.read_only()


class ReadOnlyStorage(Storage):
    """The storage of an array that came in read-only: a file mapped for reading, say, or a stretched array."""

    __slots__ = ()

    def __init__(self) -> None:
        self.version = 0

    @property
    def savers(self) -> Any:
        return _NO_WRITERS

    @savers.setter
    def savers(self, value: weakref.WeakSet[Saver] | None) -> None: ...


_NO_WRITERS = _NoWriters()


class _InferenceStorage(Storage):
    """What all tensors made in inference mode have: no version, so that saving one raises."""

    __slots__ = ()

    def __init__(self) -> None:
        self.savers = None

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


def writes_to(tensor: HasStorage) -> int:
    """How often the memory was written to: its version, but for what `detach_()` added."""
    storage = tensor._storage
    if isinstance(storage, FollowingStorage):
        storage = storage.origin
    return 0 if storage is None else storage.version


def save_before_write(storage: Storage, saver: Saver) -> None:
    """`saver.keep(copies)` is called before the next in-place operation writes to the buffer, once."""
    if storage.savers is None:
        storage.savers = weakref.WeakSet()
    storage.savers.add(saver)


def about_to_write(storage: Storage) -> None:
    """Whoever saved the buffer for its present content takes a copy."""
    savers, storage.savers = storage.savers, None
    copies: dict[int, Any] = {}
    for saver in list(savers or ()):  # raises for a read-only array
        saver.keep(copies)


def before_write(tensors: Iterable[HasStorage]) -> None:
    """`about_to_write` for all of them, by code that writes to arrays."""
    for tensor in tensors:
        storage = tensor._storage
        if storage is not None and storage.savers is not None:
            about_to_write(storage)


def bump_version(tensor: HasStorage) -> None:
    """Says that `tensor`'s memory was written to: whoever saved it for backward will notice."""
    storage = tensor._storage or storage_of(tensor)
    if storage is not INFERENCE_STORAGE:
        storage.version += 1


def shares_memory(view: object, source: object) -> bool:
    """Whether the array `view` is `source` or was made as a view of it (cheap: looks at the base pointers only)."""
    base = view.base  # type: ignore[attr-defined]
    return view is source or (base is not None and (base is source or base is source.base))  # type: ignore[attr-defined]
