"""Arrays of a device kept in host memory, and copied back for use, beside the work of the compute stream.

    1. pack: on the lane out, behind what computed the array and behind the last copies that use the block of the slab.
    2. The array is held until its copy is done. More than `ahead` such arrays, and the compute stream waits.
    3. prefetch: memory on the compute stream; then, on the lane back, behind that and behind the copy out.
    4. unpack: a copy of the array itself if it is still here, else what was prefetched, else a copy from the host now;
       the compute stream waits for that. The host's copy stays until the handle dies: backward may come again.

Memory is always allocated, and freed, on the compute stream: CuPy's pool keeps what each stream has freed for itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..cuda import runtime
from . import pinned_memory
from .copy_engine import CopyEngine, Mark, Use, engine, record, wait

Array = Any  # cupy.ndarray
MIN_BYTES = 1 << 16  # of what is worth a copy, which takes time however small it is


class Arrival:
    """An array on its way to the device until `mark`, for work on `stream`."""

    __slots__ = ("array", "engine", "mark", "stream")

    def __init__(self, owner: CopyEngine, array: Array, stream: Any, mark: Mark) -> None:
        self.engine, self.array, self.stream, self.mark = owner, array, stream, mark

    def take(self, stream: Any) -> Array | None:
        """The array, for work on `stream`; None if it belongs to another."""
        if stream.ptr != self.stream.ptr:
            return None
        wait(stream, self.mark.event)
        array, self.array = self.array, None
        return array

    def __del__(self) -> None:
        if getattr(self, "mark", None) is not None and self.array is not None:  # nobody waited for the copy
            self.engine.uses.append(Use(self.array, self.engine, self.stream, self.mark))


class Source:
    """The array that was packed, held for a copy of it, since unpack will come soon."""

    __slots__ = ("array", "use")

    mark = None

    def __init__(self, array: Array, use: Use) -> None:
        self.array, self.use = array, use

    def take(self, stream: Any) -> Array | None:
        """A copy, for work on `stream`; None if the array was written to, or belongs to another stream."""
        if self.use.stale or stream.ptr != self.use.stream.ptr:
            return None
        return self.array.copy(order="C" if self.array.flags.c_contiguous else "F")


class Pinned(NamedTuple):
    """A block that holds an array, and the copy that brought it there."""

    block: pinned_memory.Block
    use: Use


class Offloaded:
    """An array in host memory: `shape`, `dtype` and `order` of it, and where it is.

    `ahead`: how many arrays may be on their way to the host at one time, before the compute stream waits for one.
    """

    __slots__ = ("__weakref__", "ahead", "dtype", "engine", "here", "nbytes", "order", "pageable", "pinned", "shape",
                 "spill")  # fmt: skip

    def __init__(self, array: Array, owner: CopyEngine, ahead: int) -> None:
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, int(array.nbytes)
        self.order = "C" if array.flags.c_contiguous else "F"
        self.engine, self.ahead = owner, ahead
        self.pinned: Pinned | None = None
        self.pageable: np.ndarray | None = None  # in place of it
        self.spill: pinned_memory.Spill | None = None
        self.here: list[Arrival | Source] = []  # for the next unpack; at most one, but for threads that meet

    @property
    def source(self) -> Use | None:
        """The copy that reads, or read, the array that was packed; to be told by `keep` before a write to that."""
        return None if self.pinned is None else self.pinned.use

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory that are held, without what rounding adds."""
        return self.nbytes

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that are held now."""
        self.engine.settle(len(self.engine.uses))
        arrays = {id(found.array) for found in self.here}
        if self.source is not None and self.source.array is not None:
            arrays.add(id(self.source.array))
        return self.nbytes * len(arrays)

    def prefetch(self) -> None:
        """Lets the copy to the device begin, or holds the array there; does nothing where that cannot help."""
        if self.pinned is None or self.here:
            return
        use = self.pinned.use
        with self.engine.device:
            array = use.array
            try:
                found = _fetched(self, self.pinned) if array is None else Source(array, use)
            except MemoryError:  # unpack will ask again, when more has been freed, and say so
                return
            self.here.append(found)

    def forget(self) -> None:
        """Undoes prefetch."""
        self.here.clear()

    def unpack(self) -> Array:
        """The array on its device, in new memory, for work on the current stream; any number of times."""
        if self.spill is not None:
            self.spill.slab.warn_if_full()
        with self.engine.device:
            stream = _current_stream()
            if self.pinned is None:
                return runtime.cupy().array(self.pageable, order=self.order)
            found = _here(self, self.pinned.use, stream)
            if found is None:
                found = _fetched(self, self.pinned).take(stream)
            self.engine.settle(self.ahead)
            return found


def pack(array: Array, slab_bytes: int = pinned_memory.DEFAULT_BYTES, ahead: int = 2) -> Offloaded:
    """Starts the copy of `array` to the host, or makes one in ordinary memory where the slab is full.

    Before the memory of `array` is written to, `source.keep({})` has to be called. MemoryError: no slab.
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
    """The stream of the current device; RuntimeError while it is captured."""
    stream = runtime.cupy().cuda.get_current_stream()
    if stream.is_capturing():
        raise RuntimeError("saved tensors cannot be offloaded while their stream is being captured in a CUDA graph: "
                           "the copies would run once, at no known time; capture without the offloading hook")
    return stream


def _send(owner: CopyEngine, block: pinned_memory.Block, array: Array, stream: Any) -> Use:
    """Copies the array into the block."""
    out = owner.out
    before = [mark.event for mark in block.marks if mark.lane is not out]  # which may need the lock of another lane
    with out.lock:
        wait(out.stream, record(stream))
        for event in before:
            wait(out.stream, event)
        mark = out.next_mark()
        block.used(mark)
        use = Use(array, owner, stream, mark)
        owner.uses.append(use)
        array.data.copy_to_host_async(block.ptr, array.nbytes, out.stream)
        mark.record()
    return use


def _fetched(packed: Offloaded, held: Pinned) -> Arrival:
    """A copy on the device, on its way."""
    back, stream = packed.engine.back, _current_stream()
    array, filled = runtime.cupy().empty(packed.shape, packed.dtype, packed.order), held.use.mark.event
    with back.lock:
        wait(back.stream, record(stream))
        wait(back.stream, filled)
        mark = back.next_mark()
        held.block.used(mark)
        arrival = Arrival(packed.engine, array, stream, mark)
        array.data.copy_from_host_async(held.block.ptr, packed.nbytes, back.stream)
        mark.record()
    return arrival


def _here(packed: Offloaded, use: Use, stream: Any) -> Array | None:
    """What was prefetched, or a copy of the source if that is still there; None if neither is good for `stream`."""
    array = use.array
    try:
        return packed.here.pop().take(stream)
    except IndexError:
        return None if array is None else Source(array, use).take(stream)
