"""Codecs: what makes something smaller, or elsewhere, of an array, and the array again. They can be chained.

A memory hook (base.py) stands on codecs. It sees to it that memory which several nodes save is packed once, and to
views; a codec sees arrays only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..autograd.graph import SaveInfo
from ..core.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


class Handle(Protocol):
    """What a codec makes of an array. It lives as long as a node holds it; what it holds goes with it."""

    @property
    def device_bytes(self) -> int:
        """Bytes that it holds now on the device that the array came from."""

    @property
    def host_bytes(self) -> int:
        """Bytes that it holds now in host memory, where that is not the array's device."""


class Codec:
    """Base of all codecs. One serves several threads at the same time.

    ahead: for how many nodes that are yet to run `prefetch` is called, each time one asks for what it saved; what one
    of them will ask for, too, is held until then. splits: it leaves arrays on the device, for the next of a chain.
    exact: what it unpacks has the same bits, so that it may be given what another codec made: codes, scales.
    """

    ahead = 0
    splits = False
    exact = True

    def takes(self, array: Array, info: SaveInfo) -> bool:
        """Whether `array` is to be packed; what no codec takes is kept as it is."""
        return True

    def pack(self, array: Array) -> Handle:
        """`array` is C-contiguous, not empty, and not the codec's to write to or to keep.

        Its memory may be written to, in the order of the stream that is current, as soon as this returns, unless
        `reader` answers. If it raises, nothing has happened.
        """
        raise NotImplementedError

    def reader(self, handle: Any) -> Any:
        """What still reads the array that `handle` was packed of, weakly referenceable, else None.

        Its `keep(copies)` is called before an operation writes to the memory.
        """
        return None

    def unpack(self, handle: Any) -> Array:
        """The array again: C-contiguous, new memory of nobody else's, same shape, dtype and device.

        Any number of times, until the handle dies: retain_graph, double backward. It is ready for the stream that is
        current.
        """
        raise NotImplementedError

    def prefetch(self, handle: Any) -> None:
        """`handle` will probably be unpacked soon, by this thread; called any number of times."""

    def forget(self, handle: Any) -> None:
        """`handle` will not be unpacked soon, although `prefetch` was called."""

    def split(self, handle: Any) -> tuple[tuple[Array, ...], Any]:
        """The arrays that `handle` holds, for the next codec of a chain, and what else `join` needs; if `splits`."""
        raise NotImplementedError

    def join(self, arrays: tuple[Array, ...], rest: Any) -> Any:
        """The handle again."""
        raise NotImplementedError


Condition = Callable[[Tensor, SaveInfo], bool]


def checked_predicate(hook: str, predicate: Any) -> Condition:
    """TypeError if it cannot be called."""
    if not callable(predicate):
        raise TypeError(f"{hook}: predicate must be a function of a tensor and a SaveInfo, got {predicate!r}")
    return predicate


class Stage(NamedTuple):
    """A codec, and when it is asked: if all conditions hold for the tensor that is saved."""

    codec: Codec
    conditions: tuple[Condition, ...] = ()

    def chosen(self, tensor: Tensor, info: SaveInfo) -> bool:
        return all(condition(tensor, info) for condition in self.conditions)


class Encoded(NamedTuple):
    """An array as the first codec of a chain packed it; what the others made of its arrays is in `parts`.

    A part that no other codec took is the array itself. Without other codecs `handle` is whole.
    """

    codec: Codec
    handle: Any  # or what else `join` needs
    parts: tuple[Any, ...] | None = None

    @property
    def device_bytes(self) -> int:
        if self.parts is None:
            return int(self.handle.device_bytes)
        return sum([part.device_bytes if isinstance(part, Encoded) else part.nbytes for part in self.parts])

    @property
    def host_bytes(self) -> int:
        if self.parts is None:
            return int(self.handle.host_bytes)
        return sum([part.host_bytes for part in self.parts if isinstance(part, Encoded)])

    def decode(self) -> Array:
        if self.parts is None:
            return self.codec.unpack(self.handle)
        arrays = [part.decode() if isinstance(part, Encoded) else part for part in self.parts]
        return self.codec.unpack(self.codec.join(tuple(arrays), self.handle))

    def reader(self) -> Any:
        """What still reads the array that was packed; codes that a chain goes on with are nobody else's to write to."""
        return self.codec.reader(self.handle) if self.parts is None else None

    def prefetch(self) -> None:
        for codec, handle in self._whole():
            codec.prefetch(handle)

    def forget(self) -> None:
        for codec, handle in self._whole():
            codec.forget(handle)

    def _whole(self) -> list[tuple[Codec, Any]]:
        """The handles of the last codecs, with these."""
        if self.parts is None:
            return [(self.codec, self.handle)]
        return [pair for part in self.parts if isinstance(part, Encoded) for pair in part._whole()]


def encode(codecs: tuple[Codec, ...], array: Array, info: SaveInfo) -> Encoded | None:
    """`array` through all codecs that take it, one after the other; None if none does."""
    for i, codec in enumerate(codecs):
        if codec.takes(array, info):
            handle, others = codec.pack(array), tuple([c for c in codecs[i + 1 :] if c.exact])
            if not others or not codec.splits:
                return Encoded(codec, handle)
            arrays, rest = codec.split(handle)
            return Encoded(codec, rest, tuple([_part(others, a, info) for a in arrays]))
    return None


def _part(codecs: tuple[Codec, ...], array: Array, info: SaveInfo) -> Any:
    encoded = encode(codecs, array, info)
    return array if encoded is None else encoded
