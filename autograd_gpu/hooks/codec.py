"""Codecs: encode an array in fewer bytes or in other memory, and decode it. They can be chained.

A memory hook (base.py) applies codecs. The hook handles views, and packs memory that several nodes save once; a codec
sees arrays only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..autograd.graph import SaveInfo
from ..core.interpret.tracing import refuse
from ..core.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


class Handle(Protocol):
    """An encoded array. It lives as long as a node holds it, and owns its memory."""

    @property
    def device_bytes(self) -> int:
        """Bytes held now on the device of the array."""

    @property
    def host_bytes(self) -> int:
        """Bytes held now in host memory, 0 if the array is on the CPU."""


class Codec:
    """Base class of codecs; thread-safe.

    ahead: the number of upcoming nodes for which `prefetch` is called when a node unpacks; an unpacked array that one
    of them needs, too, is held until then. splits: the handle consists of device arrays that the next codec of a chain
    may encode. exact: unpacking restores the same bits, so the codec may encode codes and scales of another codec.
    """

    ahead = 0
    splits = False
    exact = True

    def word(self) -> Any:
        """Equal for codecs that do the same."""
        return self

    def takes(self, array: Array, info: SaveInfo) -> bool:
        """Whether this codec packs `array`; an array that no codec takes is saved unpacked."""
        return True

    def pack(self, array: Array) -> Handle:
        """Encodes `array`, which is C-contiguous and not empty; must not write to it or hold it.

        After the return later work on the current stream may write to its memory, unless `reader` returns an object.
        An exception must leave no side effects.
        """
        raise NotImplementedError

    def pack_by_ops(self, tensor: Tensor) -> Handle | None:
        """`pack` of the memory of a tensor in a call that is traced for `ag.compile`; None if it is not made of ops."""
        return None

    def reader(self, handle: Any) -> Any:
        """The object, weakly referenceable, that still reads the array of `handle`, or None.

        Its `keep(copies)` is called before an operation writes to the memory.
        """
        return None

    def unpack(self, handle: Any) -> Array:
        """Decodes to a C-contiguous array in new memory, of the same shape, dtype and device.

        May be called repeatedly while the handle lives (retain_graph, double backward). The result is ready for the
        current stream.
        """
        raise NotImplementedError

    def prefetch(self, handle: Any) -> None:
        """Called when `handle` will probably be unpacked soon by this thread; may be called repeatedly."""

    def forget(self, handle: Any) -> None:
        """Called when `handle` will not be unpacked soon after all."""

    def split(self, handle: Any) -> tuple[tuple[Array, ...], Any]:
        """The device arrays of `handle`, for the next codec of a chain, and the other data for `join`; if `splits`."""
        raise NotImplementedError

    def join(self, arrays: tuple[Array, ...], rest: Any) -> Any:
        """The handle from the results of `split`."""
        raise NotImplementedError


Condition = Callable[[Tensor, SaveInfo], bool]


def checked_predicate(hook: str, predicate: Any) -> Condition:
    """`predicate`; TypeError if it is not callable."""
    if not callable(predicate):
        raise TypeError(f"{hook}: predicate must be a function of a tensor and a SaveInfo, got {predicate!r}")
    return predicate


class Stage(NamedTuple):
    """A codec, and the conditions on a saved tensor under which it is used."""

    codec: Codec
    conditions: tuple[Condition, ...] = ()

    def chosen(self, tensor: Tensor, info: SaveInfo) -> bool:
        return all(condition(tensor, info) for condition in self.conditions)

    def word(self) -> Any:
        """Equal for stages that do the same."""
        return self.codec.word(), tuple(map(_condition_word, self.conditions))


def _condition_word(condition: Condition) -> Any:
    """A function with what it is given in advance, or the condition itself."""
    if not isinstance(condition, partial):
        return condition
    return condition.func, tuple([tuple(x) if isinstance(x, list) else x for x in condition.args])


class Encoded(NamedTuple):
    """An array encoded by a chain of codecs: the first codec's data, and its arrays encoded by the others in `parts`.

    A part that no other codec took is the array itself. Without other codecs `parts` is None.
    """

    codec: Codec
    handle: Any  # the handle, or with `parts` the other data for `join`
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
        """The `Codec.reader` of the array; None for a chain, whose later codecs read codes that nobody writes to."""
        return self.codec.reader(self.handle) if self.parts is None else None

    def prefetch(self) -> None:
        for codec, handle in self._whole():
            codec.prefetch(handle)

    def forget(self) -> None:
        for codec, handle in self._whole():
            codec.forget(handle)

    def _whole(self) -> list[tuple[Codec, Any]]:
        """The last codecs of the chain with their handles."""
        if self.parts is None:
            return [(self.codec, self.handle)]
        return [pair for part in self.parts if isinstance(part, Encoded) for pair in part._whole()]


def encode(codecs: tuple[Codec, ...], array: Array, info: SaveInfo) -> Encoded | None:
    """Encodes `array` with the first codec that takes it, and the result with the following ones; None if none does."""
    for i, codec in enumerate(codecs):
        if codec.takes(array, info):
            handle, others = codec.pack(array), tuple([c for c in codecs[i + 1 :] if c.exact])
            if not others or not codec.splits:
                return Encoded(codec, handle)
            arrays, rest = codec.split(handle)
            return Encoded(codec, rest, tuple([_part(others, a, info) for a in arrays]))
    return None


def encode_traced(codecs: tuple[Codec, ...], tensor: Tensor, array: Array, info: SaveInfo) -> Encoded | None:
    """`encode` for `array`, the memory of `tensor`, in a call that is traced: by operations, or the call is refused."""
    chosen = next((i for i, codec in enumerate(codecs) if codec.takes(array, info)), None)
    if chosen is None:
        return None
    codec = codecs[chosen]
    handle = None if any(c.exact for c in codecs[chosen + 1 :]) else codec.pack_by_ops(tensor)
    if handle is not None:
        return Encoded(codec, handle)
    refuse("a hook of ag.hooks offloads saved tensors", "use ag.hooks.quantize alone, or leave the call uncompiled")
    return encode(codecs, array, info)


def _part(codecs: tuple[Codec, ...], array: Array, info: SaveInfo) -> Any:
    encoded = encode(codecs, array, info)
    return array if encoded is None else encoded
