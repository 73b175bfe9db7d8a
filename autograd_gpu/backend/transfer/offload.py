"""Offloading of device arrays to page-locked host memory and back, overlapping with the compute stream.

    1. `pack` queues a copy on the outgoing lane, after the work that computes the array and after the last copies that
       use the same block of the slab.
    2. The array is held until the copy is complete. With more than `ahead` such arrays, the compute stream waits.
    3. `prefetch` allocates on the compute stream, and queues the copy on the incoming lane, after the allocation and
       after the copy to the host.
    4. `unpack` copies the array if it is still on the device, else takes the prefetched array, else copies from the
       host; the compute stream waits for the copy. The host copy lives as long as the handle: backward may run again.

All device memory is allocated and freed on the compute stream, since CuPy's pool has a free list per stream. In a CUDA
graph all of this is recorded, with lanes and page-locked memory of the graph's own (captured.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import counters
from ..cuda import runtime
from ..cuda.capture import Refused
from . import captured, pinned_memory
from .copy_engine import CopyEngine, Fence, PendingCopy, engine, record, wait

Array = Any  # cupy.ndarray
MIN_BYTES = 1 << 16  # smaller arrays are not worth the overhead of a copy


class Arrival:
    """A copy to the device in flight: `array` is valid after `fence`, for work on `stream`."""

    __slots__ = ("array", "engine", "fence", "stream")

    def __init__(self, owner: CopyEngine, array: Array, stream: Any, fence: Fence) -> None:
        self.engine, self.array, self.stream, self.fence = owner, array, stream, fence

    def take(self, stream: Any) -> Array | None:
        """The array, after making `stream` wait for the copy; None if it was made for another stream or capture."""
        if stream.ptr != self.stream.ptr or self.engine.over:
            return None
        wait(stream, self.fence.event)
        array, self.array = self.array, None
        return array

    def __del__(self) -> None:
        if getattr(self, "fence", None) is not None and self.array is not None and not self.engine.over:  # not taken
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
            owner, stream = self._engine()
            array = copy.array
            try:
                source = _fetch(self, self.pinned, owner, stream) if array is None else Source(array, copy)
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
            owner, stream = self._engine()
            if self.pinned is None:
                return runtime.cupy().array(self.pageable, order=self.order)
            array = _prefetched(self, self.pinned.copy, stream)
            if array is None:
                array = _fetch(self, self.pinned, owner, stream).take(stream)
            if isinstance(self.engine, captured.CapturedEngine) and owner is not self.engine:
                self.engine.slabs.used(stream)
            owner.settle(self.ahead)
            return array

    def _engine(self) -> tuple[CopyEngine, Any]:
        """The engine that copies the array back, and the current stream; Refused if it cannot wait for the array."""
        owner, stream, _ = _here(self.engine.index)
        if owner is not self.engine and not self._replayed_before(owner):
            raise Refused("a saved tensor was offloaded outside of the graph and of those that share its pool, and a "
                          "captured copy cannot wait for that; run forward and backward in the captured code")
        return owner, stream

    def _replayed_before(self, owner: CopyEngine) -> bool:
        """Whether a graph that is replayed before the work of `owner` fills the host memory."""
        filling = self.engine
        if not isinstance(filling, captured.CapturedEngine) or not filling.over:
            return False
        return not isinstance(owner, captured.CapturedEngine) or owner.slabs is filling.slabs


def pack(array: Array, slab_bytes: int = pinned_memory.DEFAULT_BYTES, ahead: int = 2) -> Offloaded:
    """Starts the copy of a CuPy array to the host; if the slab is full, copies to pageable memory, which blocks.

    Call `source.keep({})` of the handle before a write to the memory of `array`. MemoryError if the slab cannot be
    allocated; RuntimeError if the slab is full while the current stream is being captured, or if `ag.cuda.graph` does
    not capture it.
    """
    with runtime.cupy().cuda.Device(array.device.id):
        owner, stream, slabs = _here(array.device.id)
        if not array.flags.forc:
            array = runtime.cupy().ascontiguousarray(array)
        packed = Offloaded(array, owner, ahead)
        slab = slabs(slab_bytes)
        block = slab.take(packed.nbytes) if packed.nbytes else None
        if block is not None:
            packed.pinned = Pinned(block, _send(owner, block, array, stream))
            owner.settle(ahead)
        elif packed.nbytes and isinstance(owner, captured.CapturedEngine):
            raise Refused(f"{packed.nbytes} bytes of a saved tensor do not fit into page-locked memory of the graph, "
                          f"{slab.nbytes} bytes that grow to {slab.most}, and the host copies to any other; use "
                          f"ag.hooks.offload(slab_bytes={slab_bytes + packed.nbytes}) or more")
        else:
            packed.pageable = array.get(order=packed.order)
            packed.spill = pinned_memory.Spill(slab, packed.nbytes) if packed.nbytes else None
    return packed


def _here(index: int) -> tuple[CopyEngine, Any, Callable[[int], pinned_memory.Slab]]:
    """The engine for copies on the current stream of device `index`, that stream, and what gives the slab.

    Refused where a capture cannot contain them.
    """
    stream = runtime.current.stream()
    if not stream.is_capturing():
        return engine(index), stream, pinned_memory.slab
    copies = captured.current()
    if copies is None or not copies.relaxed or copies.index != index:
        raise Refused("saved tensors can be offloaded only in a capture by ag.cuda.graph or make_graphed_step, in the "
                      "mode 'relaxed', and on its device")
    return copies.engine, stream, copies.slabs.slab


def _send(owner: CopyEngine, block: pinned_memory.Block, array: Array, stream: Any) -> PendingCopy:
    """Queues the copy of `array` into `block` on the outgoing lane."""
    out = owner.out
    before = [fence.event for fence in owner.others(block.fences)]  # takes locks
    with out.lock:
        wait(out.stream, record(stream))
        for event in before:
            wait(out.stream, event)
        fence = out.next_fence()
        block.used(fence)
        copy = PendingCopy(array, owner, stream, fence)
        owner.pending.append(copy)
        api = runtime.cupy().cuda.runtime  # the methods of array.data refuse to be captured
        api.memcpyAsync(block.ptr, array.data.ptr, array.nbytes, api.memcpyDeviceToHost, out.stream.ptr)
        if counters.ACTIVE:
            counters.copied("device to host", array.nbytes)
        fence.record()
    return copy


def _fetch(packed: Offloaded, held: Pinned, owner: CopyEngine, stream: Any) -> Arrival:
    """Queues the copy from the host to a new device array on the incoming lane of `owner`."""
    back, filling = owner.back, held.copy.fence
    array = runtime.cupy().empty(packed.shape, packed.dtype, packed.order)
    filled = None if held.copy.engine.over else filling.event  # the replay that filled it comes before
    with back.lock:
        wait(back.stream, record(stream))
        if filled is not None:
            wait(back.stream, filled)
        fence = back.next_fence()
        held.block.used(fence)
        arrival = Arrival(owner, array, stream, fence)
        api = runtime.cupy().cuda.runtime
        api.memcpyAsync(array.data.ptr, held.block.ptr, packed.nbytes, api.memcpyHostToDevice, back.stream.ptr)
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
