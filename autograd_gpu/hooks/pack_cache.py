"""The cache of packed memory of a memory hook, by storage and version; the nodes own the entries.

1. Memory is identified by its storage object, by a weak reference, since addresses are reused after a free. Within a
   storage and version an array is identified by its footprint (memory_layout.py).
2. A node holds a PackedTensor: the packed footprint, and the node's view of it. The cache holds weak references only.
3. An unpacked array is shared while it is alive, unless it was written to.
4. On CUDA packed and unpacked memory is shared only within a thread and stream, since another stream would have to
   wait, and within a capture: a CUDA graph has to pack at each replay what was packed before it.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from ..autograd.graph import SaveInfo
from ..autograd.prefetch import Order
from ..backend import admitted, is_cuda
from ..backend.cuda import live_numbers, runtime
from ..core.graph.storage import Storage, listen_to_writes
from ..core.interpret.tracing import inlineable, tracer
from ..core.saved.saved_tensor import KEPT
from ..core.tensor import Float8Tensor, Tensor, wrap, wrap_codes
from .codec import Array, Codec, Encoded, Stage, encode, encode_traced
from .memory_layout import Footprint, View, footprint_of, owner, view_of
from .packing_ops import packed_view

Key = tuple[tuple[Codec, ...], Any]  # the chosen codecs, and the result of _sharing_key


class CacheEntry:
    """The packed footprints of a storage at one version."""

    __slots__ = ("packed", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.packed: list[weakref.ref[PackedFootprint]] = []

    def living(self) -> list[PackedFootprint]:
        living = [packed for ref in self.packed if (packed := ref()) is not None]
        self.packed = [weakref.ref(packed) for packed in living]
        return living


class PackedFootprint:
    """The packed memory of a footprint."""

    __slots__ = ("__weakref__", "encoded", "entry", "footprint", "forget", "key", "nbytes", "prefetch", "shared")

    def __init__(self, entry: CacheEntry, footprint: Footprint, key: Key, encoded: Encoded) -> None:
        self.entry, self.footprint, self.key, self.encoded = entry, footprint, key, encoded
        self.nbytes = math.prod(footprint.sizes) * footprint.dtype.itemsize
        self.shared: Any = None  # weak references to the unpacked array and its storage, and their sharing key
        self.prefetch, self.forget = encoded.prefetch, encoded.forget

    def unpack(self) -> tuple[Array, Storage]:
        """The elements of the footprint, and the storage shared by all tensors unpacked from it (step 3)."""
        shared, sharing = self.shared, _sharing_key(self.key[1] is not None)
        if shared is not None and shared[2] == sharing:
            array, storage = shared[0](), shared[1]()
            if array is not None and storage is not None and storage.version == 0:
                return array, storage
        array = admitted(self.encoded.decode())
        storage = Storage()
        whole = owner(array) if tracer() is None else array  # a trace knows arrays by identity
        if whole.flags.c_contiguous and whole.dtype == array.dtype and whole.size == array.size:
            self.shared = weakref.ref(whole), weakref.ref(storage), sharing
        return array, storage


def _sharing_key(on_cuda: bool) -> Any:
    """The key that users of an array must have in common: on CUDA thread, stream and capture, on the CPU None."""
    if not on_cuda:
        return None
    live = live_numbers.current()
    return threading.get_ident(), runtime.current.stream().ptr, 0 if live is None else live.number


class PackedTensor(NamedTuple):
    """The object that a node holds instead of a saved tensor."""

    packed: PackedFootprint
    view: View
    float8: np.dtype | None  # the dtype of a float8 tensor
    node_seq: int


class PackCache:
    """The pack and unpack functions of a memory hook, with a cache of packed memory."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        self.lock = threading.RLock()
        self.entries: weakref.WeakKeyDictionary[Storage, CacheEntry] = weakref.WeakKeyDictionary()
        self.all: weakref.WeakSet[PackedFootprint] = weakref.WeakSet()
        self.order = Order(max([stage.codec.ahead for stage in stages]))
        self.user_cache_hash = tuple([stage.word() for stage in stages])  # for the key of a compiled call

    def living(self) -> list[PackedFootprint]:
        """All packed footprints that nodes hold."""
        with self.lock:
            return list(self.all)

    def shown_bytes(self) -> int:
        """The bytes of unpacked memory that the nodes' tensors cover; memory covered by several counts once."""
        entries: dict[CacheEntry, list[PackedFootprint]] = {}
        for packed in self.living():
            entries.setdefault(packed.entry, []).append(packed)
        return sum([_shown(group) for group in entries.values()])

    @inlineable
    def pack(self, tensor: Tensor, info: SaveInfo) -> Any:
        """The pack hook: a PackedTensor, or KEPT for a tensor that no codec takes."""
        array = tensor._array
        codecs = tuple([stage.codec for stage in self.stages if stage.chosen(tensor, info)])
        footprint = footprint_of(array) if codecs else None
        if footprint is None:
            return KEPT
        with self.lock:
            try:
                packed = self._packed(footprint, (codecs, _sharing_key(is_cuda(array))), tensor, info)
                if packed is None:
                    return KEPT
                self.order.add(info.node_seq, packed)
            except BaseException:  # an in-place operation is undone, and its version number reused
                self.entries.pop(info.storage, None)
                raise
        float8 = tensor.dtype if isinstance(tensor, Float8Tensor) else None
        return PackedTensor(packed, view_of(array, footprint, packed.footprint), float8, info.node_seq)

    def _packed(self, footprint: Footprint, key: Key, tensor: Tensor, info: SaveInfo) -> PackedFootprint | None:
        """The packed memory that contains `footprint`, from the cache or packed now; None if no codec takes it."""
        entry = self.entries.get(info.storage)
        if entry is None or entry.version != info.version:
            entry = self.entries[info.storage] = CacheEntry(info.version)
        for packed in entry.living():
            if packed.key == key and packed.footprint.holds(footprint):
                return packed
        array = footprint.contiguous(tensor._array)
        encoded = encode(key[0], array, info) if tracer() is None else encode_traced(key[0], tensor, array, info)
        if encoded is None:
            return None
        packed = PackedFootprint(entry, footprint, key, encoded)
        self.all.add(packed)
        reader = encoded.reader()
        if reader is not None:
            listen_to_writes(info.storage, reader)
        entry.packed.append(weakref.ref(packed))
        return packed

    @inlineable
    def unpack(self, saved: PackedTensor) -> Tensor:
        """The unpack hook."""
        self.order.advance(saved.node_seq)
        array, storage = saved.packed.unpack()
        self.order.hold(saved.packed, saved.node_seq, (array, storage))
        if tracer() is not None:
            result = wrap(packed_view(wrap(array), view=saved.view)._array)
        else:
            array = saved.view.of(array)
            result = wrap(array) if saved.float8 is None else wrap_codes(array, saved.float8)
        result._storage = storage
        return result


def _shown(held: list[PackedFootprint]) -> int:
    """The bytes covered by footprints: of each connected group the span, or its elements' bytes if these are fewer."""
    total, stop, elements, start = 0, 0, 0, 0
    for packed in sorted(held, key=lambda packed: packed.footprint.start):
        footprint = packed.footprint
        if footprint.start >= stop:
            total += min(stop - start, elements)
            start, elements = footprint.start, 0
        stop, elements = max(stop, footprint.stop), elements + packed.nbytes
    return total + min(stop - start, elements)
