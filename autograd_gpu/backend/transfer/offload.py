"""Offloading of device arrays to page-locked host memory and back, overlapping with the compute stream.

    1. `pack` queues a copy on the outgoing lane, after the work that computes the array and after the last copies that
       use the same block of the slab.
    2. The array is held until the copy is complete. With more than `ahead` such arrays, the compute stream waits.
    3. `prefetch` allocates on the compute stream, and queues the copy on the incoming lane, after the allocation and
       after the copy to the host.
    4. `unpack` copies the array if it is still on the device, else takes the prefetched array, else copies from the
       host; the compute stream waits for the copy. The host copy lives as long as the handle: backward may run again.

All device memory is allocated and freed on the compute stream, since CuPy's pool has a free list per stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import counters
from ..cuda import runtime
from . import pinned_memory
from .copy_engine import CopyEngine, Fence, PendingCopy, engine, record, wait

Array = Any  # cupy.ndarray
MIN_BYTES = 1 << 16  # smaller arrays are not worth the overhead of a copy


class Arrival:
    """A copy to the device in flight: `array` is valid after `fence`, for work on `stream`."""

    __slots__ = ("array", "engine", "fence", "stream")

    def __init__(self, owner: CopyEngine, array: Array, stream: Any, fence: Fence) -> None:
        self.engine, self.array, self.stream, self.fence = owner, array, stream, fence

    def take(self, stream: Any) -> Array | None:
        """The array, after making `stream` wait for the copy; None if it was made for another stream."""
        if stream.ptr != self.stream.ptr:
            return None
        wait(stream, self.fence.event)
        array, self.array = self.array, None
        return array

    def __del__(self) -> None:
        if getattr(self, "fence", None) is not None and self.array is not None:  # not taken
            self.engine.pending.append(PendingCopy(self.array, self.engine, self.stream, self.fence))


class Source:
    """The packed array, still on the device, held for an unpack that comes soon."""

    __slots__ = ("array", "copy")

    fence = None

    def __init__(self, array: Array, copy: PendingCopy) -> None:
        self.array, self.copy = array, copy

    def take(self, stream: Any) -> Array | None:
        """A copy of the array; None if the array was written to, or `stream` is not its stream."""
        if self.copy.stale or stream.ptr != self.copy.stream.ptr:
            return None
        return self.array.copy(order="C" if self.array.flags.c_contiguous else "F")


class Pinned(NamedTuple):
    """A block of page-locked memory that holds an array, and the copy that writes it."""

    block: pinned_memory.Block
    copy: PendingCopy


class Offloaded:
    """The handle of an offloaded array: its `shape`, `dtype` and `order`, and its host memory.

    `ahead` is the number of copies to the host that may be in flight before the compute stream waits for one.
    """

    __slots__ = ("__weakref__", "ahead", "dtype", "engine", "nbytes", "order", "pageable", "pinned", "prefetched",
                 "shape", "spill")  # fmt: skip

    def __init__(self, array: Array, owner: CopyEngine, ahead: int) -> None:
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, int(array.nbytes)
        self.order = "C" if array.flags.c_contiguous else "F"
        self.engine, self.ahead = owner, ahead
        self.pinned: Pinned | None = None
        self.pageable: np.ndarray | None = None  # used instead if the slab is full
        self.spill: pinned_memory.Spill | None = None
        self.prefetched: list[Arrival | Source] = []  # for the next unpack

    @property
    def source(self) -> PendingCopy | None:
        """The copy that reads the packed array; call its `keep` before a write to that array."""
        return None if self.pinned is None else self.pinned.copy

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory held, without rounding."""
        return self.nbytes

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory held now."""
        self.engine.settle(len(self.engine.pending))
        arrays = {id(source.array) for source in self.prefetched}
        if self.source is not None and self.source.array is not None:
            arrays.add(id(self.source.array))
        return self.nbytes * len(arrays)

    def prefetch(self) -> None:
        """Starts the copy to the device, or holds the array if it is still there; ignores lack of memory."""
        if self.pinned is None or self.prefetched:
            return
        copy = self.pinned.copy
        with self.engine.device:
            array = copy.array
            try:
                source = _fetch(self, self.pinned) if array is None else Source(array, copy)
            except MemoryError:  # unpack tries again, when more memory is free, and raises
                return
            self.prefetched.append(source)

    def forget(self) -> None:
        """Undoes prefetch."""
        self.prefetched.clear()

    def unpack(self) -> Array:
        """The array on its device, in new memory, for work on the current stream. May be called repeatedly."""
        if self.spill is not None:
            self.spill.slab.warn_if_full()
        with self.engine.device:
            stream = _current_stream()
            if self.pinned is None:
                return runtime.cupy().array(self.pageable, order=self.order)
            array = _prefetched(self, self.pinned.copy, stream)
            if array is None:
                array = _fetch(self, self.pinned).take(stream)
            self.engine.settle(self.ahead)
            return array


def pack(array: Array, slab_bytes: int = pinned_memory.DEFAULT_BYTES, ahead: int = 2) -> Offloaded:
    """Starts the copy of a CuPy array to the host; if the slab is full, copies to pageable memory, which blocks.

    Call `source.keep({})` of the handle before a write to the memory of `array`. MemoryError if the slab cannot be
    allocated; RuntimeError while the current stream is being captured.
    """
    owner = engine(array.device.id)
    with owner.device:
        stream = _current_stream()
        if not array.flags.forc:
            array = runtime.cupy().ascontiguousarray(array)
        packed = Offloaded(array, owner, ahead)
        slab = pinned_memory.slab(slab_bytes)
        block = slab.take(packed.nbytes) if packed.nbytes else None
        if block is not None:
            packed.pinned = Pinned(block, _send(owner, block, array, stream))
            owner.settle(ahead)
        else:
            packed.pageable = array.get(order=packed.order)
            packed.spill = pinned_memory.Spill(slab, packed.nbytes) if packed.nbytes else None
    return packed


def _current_stream() -> Any:
    """The current stream of the current device; RuntimeError while it is being captured."""
    stream = runtime.cupy().cuda.get_current_stream()
    if stream.is_capturing():
        raise RuntimeError("saved tensors cannot be offloaded while their stream is being captured in a CUDA graph: "
                           "the copies are not part of the graph; capture without the offloading hook")
    return stream


def _send(owner: CopyEngine, block: pinned_memory.Block, array: Array, stream: Any) -> PendingCopy:
    """Queues the copy of `array` into `block` on the outgoing lane."""
    out = owner.out
    before = [fence.event for fence in block.fences if fence.lane is not out]  # takes locks
    with out.lock:
        wait(out.stream, record(stream))
        for event in before:
            wait(out.stream, event)
        fence = out.next_fence()
        block.used(fence)
        copy = PendingCopy(array, owner, stream, fence)
        owner.pending.append(copy)
        array.data.copy_to_host_async(block.ptr, array.nbytes, out.stream)
        if counters.ACTIVE:
            counters.copied("device to host", array.nbytes)
        fence.record()
    return copy


def _fetch(packed: Offloaded, held: Pinned) -> Arrival:
    """Queues the copy from the host to a new device array on the incoming lane."""
    back, stream = packed.engine.back, _current_stream()
    array, filled = runtime.cupy().empty(packed.shape, packed.dtype, packed.order), held.copy.fence.event
    with back.lock:
        wait(back.stream, record(stream))
        wait(back.stream, filled)
        fence = back.next_fence()
        held.block.used(fence)
        arrival = Arrival(packed.engine, array, stream, fence)
        array.data.copy_from_host_async(held.block.ptr, packed.nbytes, back.stream)
        if counters.ACTIVE:
            counters.copied("host to device", packed.nbytes)
        fence.record()
    return arrival


def _prefetched(packed: Offloaded, copy: PendingCopy, stream: Any) -> Array | None:
    """The prefetched array, or a copy of the source if it is still on the device; None if neither suits `stream`."""
    array = copy.array
    try:
        return packed.prefetched.pop().take(stream)
    except IndexError:
        return None if array is None else Source(array, copy).take(stream)
