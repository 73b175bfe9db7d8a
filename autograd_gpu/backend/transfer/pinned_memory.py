"""A suballocator of page-locked host memory: slabs, divided into blocks.

Page-locking takes milliseconds and synchronizes the device, so it is done once per slab, and once more for each time
that a full slab doubles. A freed block carries the fences of the copies that may still use it, and the next copy into
its bytes is ordered after them, so the CPU does not wait.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from typing import Any, NamedTuple

from ..cuda import runtime
from ..keyed_singleton import KeyedSingleton
from .copy_engine import Fence, latest

GRAIN = 512  # bytes: the alignment of blocks, and the unit of their sizes
DEFAULT_BYTES = 1 << 28
GROWTH = 8  # a slab grows to so many times its first size: 2 GiB by default
_MEGABYTE = 1 << 20
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


class Range(NamedTuple):
    """Free bytes [low, high) of a slab, usable after `fences`."""

    low: int
    high: int
    fences: tuple[Fence, ...]


class Block:
    """Bytes of a slab from address `ptr` on, freed when the block dies; `fences` are those of the copies in them."""

    __slots__ = ("fences", "high", "low", "slab")

    slab: Slab  # set after the bytes are removed from the free list, so that an interrupt cannot free them twice

    def __init__(self, free: Range) -> None:
        self.low, self.high, self.fences = free

    @property
    def ptr(self) -> int:
        """The host address of the first byte."""
        return self.slab.address(self.low)

    def used(self, fence: Fence) -> None:
        """Notes a copy that is ordered after all earlier ones."""
        self.fences = (fence,)

    def __del__(self) -> None:  # may run anywhere, hence no lock
        if hasattr(self, "slab"):
            self.slab.ended.append(Range(self.low, self.high, self.fences))


class Spill:
    """`nbytes` in pageable memory because the slab is full; counted by the slab until this object dies."""

    __slots__ = ("nbytes", "slab")

    def __init__(self, slab: Slab, nbytes: int) -> None:
        self.nbytes, self.slab = nbytes, slab
        slab.count_spilled(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "slab"):
            self.slab.unspilled.append(self.nbytes)


class Slab:
    """Page-locked memory with a first-fit free list, which grows up to `growth` times its first size, `nbytes`.

    MemoryError if the first allocation fails. Where a later one does, the slab stays as it is, and `warn_if_full` says
    so.
    """

    def __init__(self, nbytes: int, growth: int = 1) -> None:
        self.nbytes, self.most = 0, growth * _rounded(nbytes)
        self._parts: list[tuple[int, Any]] = []  # where each allocation begins among the slab's bytes, and its memory
        self._free: list[Range] = []  # by address, neighbours merged
        self._refused = ""
        self._add(_rounded(nbytes))
        self.ended: deque[Range] = deque()  # finalizers append, since they must not take the lock
        self.unspilled: deque[int] = deque()
        self.lock = threading.Lock()
        self._spilled = 0
        self._needed = 0  # peak bytes in blocks and spills together, once the slab was too small
        self._enough = 0  # a slab size that would have been enough for them
        self._warned = False

    def take(self, nbytes: int) -> Block | None:
        """A block of `nbytes` by first fit; None if no free range is large enough and the slab cannot grow."""
        size = _rounded(nbytes)
        with self.lock:
            self._collect()
            block = self._cut(size)
            return self._cut(size) if block is None and self._grown(size) else block

    def _cut(self, size: int) -> Block | None:
        """The first `size` bytes of the first free range that has them."""
        for i, (low, high, fences) in enumerate(self._free):
            if high - low >= size:
                rest = [Range(low + size, high, fences)] if high - low > size else []
                block = Block(Range(low, low + size, fences))
                self._free[i : i + 1] = rest
                block.slab = self
                return block
        return None

    def _grown(self, size: int) -> bool:
        """Doubles the slab, or adds `size` bytes if that is more; whether there was room for them."""
        room = self.most - self.nbytes
        if room < size:
            return False
        try:
            self._add(min(max(self.nbytes, size), room))
        except MemoryError as error:
            self.most, self._refused = self.nbytes, f"; it could not grow: {error}"
            return False
        return True

    def _add(self, nbytes: int) -> None:
        """Allocates `nbytes` more. Bytes that belong to nothing keep free ranges of two allocations apart."""
        start, memory = self.nbytes + len(self._parts) * GRAIN, page_locked(nbytes)
        self._parts.append((start, memory))
        self._free = [*self._free, Range(start, start + nbytes, ())]
        self.nbytes += nbytes

    def address(self, place: int) -> int:
        """The host address of the byte at `place` of the slab."""
        start, memory = next(part for part in reversed(self._parts) if part[0] <= place)
        return int(memory.ptr) + place - start

    def idle(self) -> bool:
        """Whether no block is in use."""
        with self.lock:
            self._collect()
            return sum([high - low for low, high, _ in self._free]) == self.nbytes

    def count_spilled(self, nbytes: int) -> None:
        """Counts `nbytes` that did not fit."""
        with self.lock:
            self._collect()
            self._spilled += _rounded(nbytes)
            taken = self.nbytes - sum([high - low for low, high, _ in self._free])
            self._needed = max(self._needed, taken + self._spilled)
            self._enough = max(self._enough, self.nbytes + self._spilled)  # enough despite fragmentation

    def warn_if_full(self) -> None:
        """Warns once if the slab was too small, with a size that is enough."""
        if self._needed and not self._warned:
            self._warned = True
            size = -(-self._enough // _MEGABYTE) * _MEGABYTE
            warnings.warn(
                f"saved tensors do not fit into {self.nbytes} bytes of page-locked memory, and what did not fit was "
                f"copied to ordinary memory, which makes the device wait; up to {self._needed} bytes were kept at one "
                f"time: use ag.hooks.offload(slab_bytes={size}){self._refused}",
                stacklevel=2,
            )

    def synchronize(self) -> None:
        """Blocks until all copies in freed blocks are complete."""
        with self.lock:
            self._collect()
            fences = latest([fence for block in self._free for fence in block.fences])
        for fence in fences:
            fence.event.synchronize()

    def _collect(self) -> None:
        """Moves freed blocks to the free list. Repeatable after an interrupt: skips ranges that are there."""
        while self.unspilled:
            self._spilled -= _rounded(self.unspilled.popleft())
        while self.ended:
            block = self.ended[0]
            if not any(low <= block.low < high for low, high, _ in self._free):
                self._free = _merged([*self._free, block])
            self.ended.popleft()


def _merged(ranges: list[Range]) -> list[Range]:
    """The ranges sorted by address, adjacent ones merged."""
    ranges.sort(key=lambda block: block.low)
    merged = ranges[:1]
    for block in ranges[1:]:
        last = merged[-1]
        if last.high == block.low:
            merged[-1] = Range(last.low, block.high, latest([*last.fences, *block.fences]))
        else:
            merged.append(block)
    return merged


def _rounded(nbytes: int) -> int:
    return -(-nbytes // GRAIN) * GRAIN


def page_locked(nbytes: int) -> Any:
    """Page-locked memory from the driver: CuPy's pool would round the size up to a power of two.

    MemoryError if there is not enough.
    """
    module = runtime.cupy()
    try:
        return module.cuda.PinnedMemory(nbytes)
    except module.cuda.runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:  # a deferred error of an earlier kernel
            raise
        raise MemoryError(
            f"cannot page-lock {nbytes} bytes of host memory for saved tensors ({error}); use a smaller slab_bytes, "
            "or raise the limit of locked memory (ulimit -l)"
        ) from error


def growing(nbytes: int) -> Slab:
    """A new slab of first size `nbytes`."""
    return Slab(nbytes, GROWTH)


_slabs = KeyedSingleton(growing)


def slab(nbytes: int) -> Slab:
    """The slab of first size `nbytes`, made at the first call and shared by all callers with this size."""
    return _slabs[nbytes]


def release() -> None:
    """Returns slabs without blocks in use to the system, after their copies are complete."""
    with _slabs.lock:
        for size, store in list(_slabs.items()):
            if store.idle():
                del _slabs[size]
                store.synchronize()
