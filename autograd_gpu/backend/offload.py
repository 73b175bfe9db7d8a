"""Arrays of a device kept in host memory, and copied back for use, beside the work of the compute stream.

    1. pack: on the lane out, behind what computed the array and behind the last copies that use the block of the slab.
    2. The array is held until its copy is done. More than `ahead` such arrays, and the compute stream waits.
    3. prefetch: memory on the compute stream; then, on the lane back, behind that and behind the copy out.
    4. unpack: the array itself if it is still here, else what was prefetched, else a copy now; the compute stream
       waits for it. The host's copy stays until the handle dies, so that backward may come again.

Memory is always allocated, and freed, on the compute stream: CuPy's pool keeps what each stream has freed for itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cuda, is_cuda, pinned
from .copies import CopyEngine, Mark, Use, engine, record, wait

Array = Any  # numpy.ndarray or cupy.ndarray


class Arrival:
    """An array on the device for the next unpack: of `use`, or one that is being filled until `mark`."""

    __slots__ = ("array", "engine", "mark", "stream", "use")

    def __init__(self, owner: CopyEngine, array: Array, stream: Any, mark: Mark | None, use: Use | None) -> None:
        self.engine, self.array, self.stream, self.mark, self.use = owner, array, stream, mark, use

    def take(self, stream: Any) -> Array | None:
        """The array, for work on `stream`; None if it was written to meanwhile, or belongs to another stream."""
        if self.use is not None:
            return None if self.use.stale else self.array
        if stream.ptr != self.stream.ptr:
            return None
        wait(stream, self.mark.event)  # type: ignore[union-attr]
        array, self.array = self.array, None
        return array

    def __del__(self) -> None:
        if getattr(self, "mark", None) is not None and self.array is not None:  # nobody waited for the copy
            self.engine.uses.append(Use(self.array, self.engine.device, self.stream, self.mark))  # type: ignore[arg-type]


class Offloaded:
    """An array in host memory: `shape`, `dtype` and `order` of it, and where it is."""

    __slots__ = ("__weakref__", "arrivals", "block", "dtype", "engine", "host", "order", "shape", "source", "spill")

    def __init__(self, array: Array, owner: CopyEngine | None) -> None:
        self.shape, self.dtype = array.shape, array.dtype
        self.order = "C" if array.flags.c_contiguous else "F"
        self.engine = owner  # None: an array of the CPU, which is `host` itself
        self.source: Use | None = None  # the array, while it is copied
        self.block: pinned.Block | None = None
        self.host: np.ndarray | None = None  # in place of the block
        self.spill: pinned.Spill | None = None
        self.arrivals: list[Arrival] = []  # at most one, but for threads that meet

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * int(self.dtype.itemsize)

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory that are held, without what rounding adds."""
        return self.nbytes

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that are held now."""
        if self.engine is not None:
            self.engine.settle(len(self.engine.uses))
        held = self.source is not None and self.source.array is not None
        return self.nbytes * (held + len(self.arrivals))


class Offload:
    """How arrays are offloaded: into which slab, and how many may be on their way at one time."""

    def __init__(self, slab_bytes: int = pinned.DEFAULT_BYTES, ahead: int = 2) -> None:
        self.slab_bytes, self.ahead = slab_bytes, ahead

    def pack(self, array: Array) -> Offloaded:
        """Starts the copy of `array` to the host; one of the CPU is kept as it is.

        Whoever writes to `array` from now on, other than on a device's memory that `handle.source` is told of by
        `keep`, has to wait. MemoryError: the slab cannot be had.
        """
        if not is_cuda(array):
            packed = Offloaded(array, None)
            packed.host = array
            return packed
        owner = engine(array.device.id)
        with owner.device:
            stream = _current_stream()
            if not array.flags.forc:
                array = cuda.cupy().ascontiguousarray(array)
            packed = Offloaded(array, owner)
            slab = pinned.slab(self.slab_bytes)
            packed.block = slab.take(array.nbytes) if array.size else None
            if packed.block is not None:
                _send(packed, array, stream)
                owner.settle(self.ahead)
            else:
                packed.host = array.get(order=packed.order)
                packed.spill = pinned.Spill(slab, array.nbytes) if array.size else None
        return packed

    def prefetch(self, packed: Offloaded) -> None:
        """Lets the copy to the device begin, or keeps the array there; does nothing where that cannot help."""
        if packed.block is None or packed.arrivals:
            return
        owner, use = _of(packed)
        with owner.device:
            array = use.array
            try:
                arrival = _fetched(packed) if array is None else Arrival(owner, array, use.stream, None, use)
            except MemoryError:  # unpack will ask again, when more has been freed, and say so
                return
            packed.arrivals.append(arrival)

    def forget(self, packed: Offloaded) -> None:
        """Undoes prefetch."""
        packed.arrivals.clear()

    def unpack(self, packed: Offloaded) -> Array:
        """The array on its device, for work on the current stream; any number of times."""
        if packed.engine is None:
            return packed.host
        pinned.slab(self.slab_bytes).warn_if_full()
        with packed.engine.device:
            stream = _current_stream()
            if packed.block is None:
                return cuda.cupy().array(packed.host, order=packed.order)
            owner, use = _of(packed)
            array = _arrived(packed, stream)
            if array is None:
                array = use.array
            if array is None:
                array = _fetched(packed).take(stream)
            owner.settle(self.ahead)
            return array

    def warn_if_full(self) -> None:
        """Says once that the slab was too small."""
        pinned.slab(self.slab_bytes).warn_if_full()


def _of(packed: Offloaded) -> tuple[CopyEngine, Use]:
    assert packed.engine is not None
    assert packed.source is not None
    return packed.engine, packed.source


def _current_stream() -> Any:
    """The stream of the current device; RuntimeError while it is captured."""
    stream = cuda.cupy().cuda.get_current_stream()
    if stream.is_capturing():
        raise RuntimeError("saved tensors cannot be offloaded while their stream is being captured in a CUDA graph: "
                           "the copies would run once, at no known time; capture without the offloading hook")
    return stream


def _send(packed: Offloaded, array: Array, stream: Any) -> None:
    """Copies the array into its block."""
    block, (out, owner) = packed.block, (packed.engine.out, packed.engine)  # type: ignore[union-attr]
    assert block is not None
    with out.lock:
        wait(out.stream, record(stream))
        for mark in block.marks:
            if mark.lane is not out:
                wait(out.stream, mark.event)
        mark = out.next_mark()
        block.used(mark)
        packed.source = Use(array, owner.device, stream, mark)
        owner.uses.append(packed.source)
        array.data.copy_to_host_async(block.ptr, array.nbytes, out.stream)
        assert mark.event is not None


def _fetched(packed: Offloaded) -> Arrival:
    """A copy on the device, on its way."""
    owner, use = _of(packed)
    block, back = packed.block, owner.back
    assert block is not None
    stream = _current_stream()
    array = cuda.cupy().empty(packed.shape, packed.dtype, packed.order)
    with back.lock:
        wait(back.stream, record(stream))
        wait(back.stream, use.mark.event)
        mark = back.next_mark()
        block.used(mark)
        arrival = Arrival(owner, array, stream, mark, None)
        array.data.copy_from_host_async(block.ptr, packed.nbytes, back.stream)
        assert mark.event is not None
    return arrival


def _arrived(packed: Offloaded, stream: Any) -> Array | None:
    """What was prefetched, if it is good for `stream`."""
    try:
        return packed.arrivals.pop().take(stream)
    except IndexError:
        return None
