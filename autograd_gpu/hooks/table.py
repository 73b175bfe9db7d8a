"""What memory hooks have packed: found again by memory and version, held by the nodes alone.

1. The identity of memory is its storage object, weakly: an address is used again after a free. Within one storage and
   version an array is known by its region (region.py).
2. A node holds a Saved: what was packed, and where in it its own view lies. The table holds nothing.
3. What was unpacked is shared while somebody has it, unless it was written to.
4. Only the same thread shares on CUDA, and on the same stream: another would have to wait.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from ..autograd.graph import SaveInfo
from ..autograd.order import Order
from ..autograd.saved_hooks import check_unmodified
from ..backend import cuda, is_cuda
from ..core.tensor import StorageTensor, Tensor, wrap, wrap_codes
from ..core.views import Storage, save_before_write
from .codec import Array, Codec, Encoded, Stage, encode
from .region import Region, View, region_of, view_of

Key = tuple[tuple[Codec, ...], Any]  # the codecs chosen, and who may share


class Packed:
    """A region that was packed."""

    __slots__ = ("__weakref__", "encoded", "forget", "key", "nbytes", "prefetch", "region", "shared")

    def __init__(self, region: Region, key: Key, encoded: Encoded) -> None:
        self.region, self.key, self.encoded = region, key, encoded
        self.nbytes = math.prod(region.sizes) * region.dtype.itemsize
        self.shared: Any = None  # what was unpacked, and where, weakly
        self.prefetch, self.forget = encoded.prefetch, encoded.forget

    def unpack(self) -> tuple[Array, Storage]:
        """The region's elements, and the storage of all tensors that show them (step 3)."""
        found, place = self.shared, _place(self.key[1] is not None)
        if found is not None and found[2] == place:
            array, storage = found[0](), found[1]()
            if array is not None and storage is not None and storage.version == 0:
                return array.reshape(-1), storage
        array = self.encoded.decode()
        storage = Storage()
        owner = _owner(array)
        if owner.flags.c_contiguous and owner.dtype == array.dtype and owner.size == array.size:
            self.shared = weakref.ref(owner), weakref.ref(storage), place
        return array, storage


def _owner(array: Array) -> Array:
    """The array that lives as long as a view of `array` does."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


def _place(on_cuda: bool) -> Any:
    """Who may share what is made here: everybody, on CUDA what runs on the same stream of this thread."""
    return (threading.get_ident(), cuda.cupy().cuda.get_current_stream().ptr) if on_cuda else None


class Saved(NamedTuple):
    """What a node holds in place of a tensor."""

    packed: Packed
    view: View
    float8: np.dtype | None  # of a tensor of codes
    node_seq: int


class Kept(NamedTuple):
    """A tensor that no codec took."""

    tensor: Tensor
    version: int


class Table:
    """The pack and unpack of a memory hook."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        self.lock = threading.RLock()
        self.by_storage: weakref.WeakKeyDictionary[Storage, tuple[int, list[weakref.ref[Packed]]]] = (
            weakref.WeakKeyDictionary())
        self.all: weakref.WeakSet[Packed] = weakref.WeakSet()
        self.order = Order(max([stage.codec.ahead for stage in stages]))

    def living(self) -> list[Packed]:
        """All that nodes hold."""
        with self.lock:
            return list(self.all)

    def pack(self, tensor: Tensor, info: SaveInfo) -> Saved | Kept:
        """The pack hook."""
        array = tensor.array
        codecs = tuple([stage.codec for stage in self.stages if stage.chosen(tensor, info)])
        region = region_of(array) if codecs else None
        if region is None:
            return Kept(tensor, info.version)
        with self.lock:
            try:
                packed = self._packed(region, (codecs, _place(is_cuda(array))), array, info)
                if packed is None:
                    return Kept(tensor, info.version)
                self.order.add(info.node_seq, packed)
            except BaseException:  # an in-place operation is undone then, and its version comes again
                self.by_storage.pop(info.storage, None)
                raise
        float8 = tensor.dtype if isinstance(tensor, StorageTensor) else None
        return Saved(packed, view_of(array, region, packed.region), float8, info.node_seq)

    def _packed(self, region: Region, key: Key, array: Array, info: SaveInfo) -> Packed | None:
        """What holds `region`, packed now unless it was before."""
        version, refs = self.by_storage.get(info.storage, (info.version, []))
        before = [p for ref in refs if (p := ref()) is not None] if version == info.version else []
        for packed in before:
            if packed.key == key and packed.region.holds(region):
                return packed
        encoded = encode(key[0], region.contiguous(array), info)
        if encoded is None:
            return None
        packed = Packed(region, key, encoded)
        self.all.add(packed)
        reader = encoded.reader()
        if reader is not None:
            save_before_write(info.storage, reader)
        self.by_storage[info.storage] = info.version, [weakref.ref(p) for p in (*before, packed)]
        return packed

    def unpack(self, saved: Saved | Kept) -> Tensor:
        """The unpack hook."""
        if isinstance(saved, Kept):
            check_unmodified(saved.tensor, saved.version)
            return saved.tensor
        self.order.advance(saved.node_seq)
        array, storage = saved.packed.unpack()
        self.order.hold(saved.packed, saved.node_seq, (array, storage))
        array = saved.view.of(array)
        result = wrap(array) if saved.float8 is None else wrap_codes(array, saved.float8)
        result._storage = storage
        return result
