"""Slabs of page-locked host memory, cut into blocks.

Page-locking takes milliseconds and makes the device wait, so it is done once per slab. A block that ends carries the
marks of the copies that may still use it, and whoever takes its bytes next orders its own copy behind them: nothing
waits on the CPU, and nothing can wait for ever.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from typing import Any, NamedTuple

from ..cuda import runtime
from ..keyed_singleton import KeyedSingleton
from .copy_engine import Mark, latest

GRAIN = 512  # bytes that every block begins at and takes a multiple of
DEFAULT_BYTES = 1 << 28
_MEGABYTE = 1 << 20
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


class Range(NamedTuple):
    """Bytes [low, high) of a slab that nobody has, usable behind `marks`."""

    low: int
    high: int
    marks: tuple[Mark, ...]


class Block:
    """Bytes of a slab, from address `ptr` on, given back when the block dies; `marks`: the copies that use them."""

    __slots__ = ("high", "low", "marks", "slab")

    slab: Slab  # not before the bytes are this block's, so that an interrupt cannot give them back as well

    def __init__(self, found: Range) -> None:
        self.low, self.high, self.marks = found

    @property
    def ptr(self) -> int:
        return self.slab.ptr + self.low

    def used(self, mark: Mark) -> None:
        """By a copy behind the others."""
        self.marks = (mark,)

    def __del__(self) -> None:  # may run anywhere, hence no lock
        if hasattr(self, "slab"):
            self.slab.ended.append(Range(self.low, self.high, self.marks))


class Spill:
    """`nbytes` that are kept elsewhere, because the slab is full, counted until this dies."""

    __slots__ = ("nbytes", "slab")

    def __init__(self, slab: Slab, nbytes: int) -> None:
        self.nbytes, self.slab = nbytes, slab
        slab.count_spilled(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "slab"):
            self.slab.unspilled.append(self.nbytes)


class Slab:
    """One piece of page-locked memory; MemoryError if the system does not give so much."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = _rounded(nbytes)
        self._memory = page_locked(self.nbytes)
        self.ptr = int(self._memory.ptr)
        self.ended: deque[Range] = deque()  # finalizers append: they must not wait for the lock
        self.unspilled: deque[int] = deque()
        self.lock = threading.Lock()
        self._free = [Range(0, self.nbytes, ())]  # by address, neighbours merged
        self._spilled = 0
        self._needed = 0  # bytes, the most that were kept here and elsewhere at one time, once the slab was too small
        self._enough = 0  # bytes that would have held that
        self._warned = False

    def take(self, nbytes: int) -> Block | None:
        """The first bytes that are enough, or None."""
        size = _rounded(nbytes)
        with self.lock:
            self._collect()
            for i, (low, high, marks) in enumerate(self._free):
                if high - low >= size:
                    rest = [Range(low + size, high, marks)] if high - low > size else []
                    block = Block(Range(low, low + size, marks))
                    self._free[i : i + 1] = rest
                    block.slab = self
                    return block
        return None

    def idle(self) -> bool:
        """Whether nothing is kept here."""
        with self.lock:
            self._collect()
            return sum([high - low for low, high, _ in self._free]) == self.nbytes

    def count_spilled(self, nbytes: int) -> None:
        with self.lock:
            self._collect()
            self._spilled += _rounded(nbytes)
            taken = self.nbytes - sum([high - low for low, high, _ in self._free])
            self._needed = max(self._needed, taken + self._spilled)
            self._enough = max(self._enough, self.nbytes + self._spilled)  # whatever lies between what is taken

    def warn_if_full(self) -> None:
        """Says once that the slab was too small, and how large it should have been."""
        if self._needed and not self._warned:
            self._warned = True
            wanted = -(-self._enough // _MEGABYTE) * _MEGABYTE
            warnings.warn(
                f"saved tensors do not fit into {self.nbytes} bytes of page-locked memory, and what did not fit was "
                f"copied to ordinary memory, which makes the device wait; up to {self._needed} bytes were kept at one "
                f"time: use ag.hooks.offload(slab_bytes={wanted})",
                stacklevel=2,
            )

    def synchronize(self) -> None:
        """Waits for every copy that uses what was given back."""
        with self.lock:
            self._collect()
            marks = latest([mark for found in self._free for mark in found.marks])
        for mark in marks:
            mark.event.synchronize()

    def _collect(self) -> None:
        """Puts what was given back among the free ranges; an interrupt leaves what is not, or is there already."""
        while self.unspilled:
            self._spilled -= _rounded(self.unspilled.popleft())
        while self.ended:
            found = self.ended[0]
            if not any(low <= found.low < high for low, high, _ in self._free):
                self._free = _merged([*self._free, found])
            self.ended.popleft()


def _merged(ranges: list[Range]) -> list[Range]:
    """By address, neighbours as one."""
    ranges.sort(key=lambda found: found.low)
    merged = ranges[:1]
    for found in ranges[1:]:
        last = merged[-1]
        if last.high == found.low:
            merged[-1] = Range(last.low, found.high, latest([*last.marks, *found.marks]))
        else:
            merged.append(found)
    return merged


def _rounded(nbytes: int) -> int:
    return -(-nbytes // GRAIN) * GRAIN


def page_locked(nbytes: int) -> Any:
    """Page-locked memory from the system itself: CuPy's pool would round it up to a power of two."""
    module = runtime.cupy()
    try:
        return module.cuda.PinnedMemory(nbytes)
    except module.cuda.runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:  # an earlier kernel's
            raise
        raise MemoryError(
            f"cannot page-lock {nbytes} bytes of host memory for saved tensors ({error}); ask for less by slab_bytes, "
            "or raise the limit of locked memory (ulimit -l)"
        ) from error


_slabs = KeyedSingleton(Slab)


def slab(nbytes: int) -> Slab:
    """The slab of so many bytes, which all who ask for this size share; made at the first call."""
    return _slabs[nbytes]


def release() -> None:
    """Gives the slabs in which nothing is kept back to the system; waits for copies that still use them."""
    with _slabs.lock:
        for size, found in list(_slabs.items()):
            if found.idle():
                del _slabs[size]
                found.synchronize()
