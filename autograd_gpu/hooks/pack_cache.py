"""What memory hooks have packed: found again by memory and version, held by the nodes alone.

1. The identity of memory is its storage object, weakly: an address is used again after a free. Within one storage and
   version an array is known by its region (memory_layout.py).
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
from ..autograd.prefetch import Order
from ..autograd.saved_hooks import Kept
from ..backend import admitted, is_cuda
from ..backend.cuda import runtime
from ..core.graph.storage import Storage, listen_to_writes
from ..core.tensor import StorageTensor, Tensor, wrap, wrap_codes
from .codec import Array, Codec, Encoded, Stage, encode
from .memory_layout import Region, View, owner, region_of, view_of

Key = tuple[tuple[Codec, ...], Any]  # the codecs chosen, and who may share


class Content:
    """What a storage holds at one version, and what of that is packed."""

    __slots__ = ("packed", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.packed: list[weakref.ref[Packed]] = []

    def living(self) -> list[Packed]:
        found = [packed for ref in self.packed if (packed := ref()) is not None]
        self.packed = [weakref.ref(packed) for packed in found]
        return found


class Packed:
    """A region that was packed."""

    __slots__ = ("__weakref__", "content", "encoded", "forget", "key", "nbytes", "prefetch", "region", "shared")

    def __init__(self, content: Content, region: Region, key: Key, encoded: Encoded) -> None:
        self.content, self.region, self.key, self.encoded = content, region, key, encoded
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
        array = admitted(self.encoded.decode())
        storage = Storage()
        whole = owner(array)
        if whole.flags.c_contiguous and whole.dtype == array.dtype and whole.size == array.size:
            self.shared = weakref.ref(whole), weakref.ref(storage), place
        return array, storage


def _place(on_cuda: bool) -> Any:
    """Who may share what is made here: everybody, on CUDA what runs on the same stream of this thread."""
    return (threading.get_ident(), runtime.cupy().cuda.get_current_stream().ptr) if on_cuda else None


class Saved(NamedTuple):
    """What a node holds in place of a tensor."""

    packed: Packed
    view: View
    float8: np.dtype | None  # of a tensor of codes
    node_seq: int


class Table:
    """The pack and unpack of a memory hook."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        self.lock = threading.RLock()
        self.contents: weakref.WeakKeyDictionary[Storage, Content] = weakref.WeakKeyDictionary()
        self.all: weakref.WeakSet[Packed] = weakref.WeakSet()
        self.order = Order(max([stage.codec.ahead for stage in stages]))

    def living(self) -> list[Packed]:
        """All that nodes hold."""
        with self.lock:
            return list(self.all)

    def shown_bytes(self) -> int:
        """Bytes of memory that all of these show; what several of a content show counts once."""
        contents: dict[Content, list[Packed]] = {}
        for packed in self.living():
            contents.setdefault(packed.content, []).append(packed)
        return sum([_shown(found) for found in contents.values()])

    def pack(self, tensor: Tensor, info: SaveInfo) -> Saved | Kept:
        """The pack hook; what no codec takes is kept."""
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
                self.contents.pop(info.storage, None)
                raise
        float8 = tensor.dtype if isinstance(tensor, StorageTensor) else None
        return Saved(packed, view_of(array, region, packed.region), float8, info.node_seq)

    def _packed(self, region: Region, key: Key, array: Array, info: SaveInfo) -> Packed | None:
        """What holds `region`, packed now unless it was before."""
        content = self.contents.get(info.storage)
        if content is None or content.version != info.version:
            content = self.contents[info.storage] = Content(info.version)
        for packed in content.living():
            if packed.key == key and packed.region.holds(region):
                return packed
        encoded = encode(key[0], region.contiguous(array), info)
        if encoded is None:
            return None
        packed = Packed(content, region, key, encoded)
        self.all.add(packed)
        reader = encoded.reader()
        if reader is not None:
            listen_to_writes(info.storage, reader)
        content.packed.append(weakref.ref(packed))
        return packed

    def unpack(self, saved: Saved | Kept) -> Tensor:
        """The unpack hook."""
        if isinstance(saved, Kept):
            return saved.unpack()
        self.order.advance(saved.node_seq)
        array, storage = saved.packed.unpack()
        self.order.hold(saved.packed, saved.node_seq, (array, storage))
        array = saved.view.of(array)
        result = wrap(array) if saved.float8 is None else wrap_codes(array, saved.float8)
        result._storage = storage
        return result


def _shown(found: list[Packed]) -> int:
    """Bytes from the first to the last of each group that touches, or of its elements if these are fewer."""
    total, stop, elements, start = 0, 0, 0, 0
    for packed in sorted(found, key=lambda packed: packed.region.start):
        region = packed.region
        if region.start >= stop:
            total += min(stop - start, elements)
            start, elements = region.start, 0
        stop, elements = max(stop, region.stop), elements + packed.nbytes
    return total + min(stop - start, elements)
