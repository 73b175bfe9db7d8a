"""Device and pinned memory as host memory that is watched.

A block is [unreadable page | head | data | slack | unreadable page]; the slack and the 64 bytes before the data hold a
pattern that is looked at when the block is freed. Fresh data is 0xFF: NaN as floats, -1 as integers. All blocks come
out of one range of addresses that is reserved once. Where in it depends on the setting `addresses`:

    unique   The data ends at most 15 bytes before the upper page, so an overrun faults. No address is handed out twice:
             a pointer to freed memory faults for good instead of meeting new data.
    pool     A chunk of a pool has the address that its place in its segment gives it, so that addresses repeat where
             CuPy's do. Units of 512 bytes begin 8 KiB apart, which leaves an unreadable page behind every chunk; the
             slack reaches up to it.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import threading
from typing import Any

import numpy as np

from ._emulation import SETTINGS
from ._errors import HazardError

PAGE = mmap.PAGESIZE
SPACE = 1 << 42  # addresses, not memory: pages cost nothing until they are used
HEAD = 64
UNIT = 512  # of a pool's chunks
SPREAD = 2 * PAGE  # from the address of one unit of a segment to that of the next
PATTERN = b"\xc5"
KEPT = 4096  # freed blocks that errors can still name

_NONE, _READ, _READ_WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
_FIXED = 0x10

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: such short calls need not give up the interpreter lock
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


class _Space:
    """The range of addresses, and which block lies where in it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finalizer may free, and look for its block, in the middle of either method
        self.low = _libc.mmap(None, SPACE, _NONE if SETTINGS.computes else _READ, _FLAGS, -1, 0)
        self.next = self.low + PAGE
        self.memory = (ctypes.c_char * SPACE).from_address(self.low)
        self.starts: list[int] = []
        self.blocks: list[Block] = []

    def reserve(self, length: int) -> int:
        """The first of `length` addresses that nobody has had, with an unreadable page behind them."""
        with self.lock:  # two threads that allocate at once
            start = self.next
            if start + length + PAGE > self.low + SPACE:
                raise MemoryError(f"the stand-in has no {length} addresses left")
            self.next = start + length + PAGE
            return start

    def place(self, block: Block) -> None:
        """Makes the pages of `block` readable; it takes the place of those that were there before."""
        with self.lock:
            if _libc.mprotect(block.start, block.length, _READ_WRITE):
                raise MemoryError(f"the stand-in cannot map {block.length} bytes of host memory for its device")
            first, last = self._among(block.start, block.start + block.length)
            self.starts[first:last], self.blocks[first:last] = [block.start], [block]
            if len(self.blocks) % KEPT == 0:
                self._forget()

    def _among(self, low: int, high: int) -> tuple[int, int]:
        """The slice of `blocks` that begin at addresses from `low` to `high`, if that is nobody's before."""
        return bisect.bisect_left(self.starts, low), bisect.bisect_left(self.starts, high)

    def former(self, low: int, high: int) -> list[Block]:
        """The blocks that had the addresses from `low` to `high`."""
        with self.lock:
            return self.blocks[slice(*self._among(low, high))]

    def _forget(self) -> None:
        dead = [kept for kept in self.blocks if kept.dead]
        forgotten = set(map(id, dead[:-KEPT]))
        self.blocks = [kept for kept in self.blocks if id(kept) not in forgotten]
        self.starts = [kept.start for kept in self.blocks]

    def find(self, address: int) -> Block | None:
        """The block, alive or freed, that `address` points into or at the end of."""
        with self.lock:
            at = bisect.bisect_right(self.starts, address) - 1
            block = self.blocks[at] if at >= 0 else None
        if block is not None and block.ptr <= address <= block.ptr + block.size:
            return block
        return None if SETTINGS.computes or not self.low <= address < self.next else ANYTHING


class Block:
    """One allocation. `accesses` is what unfinished work does with it, `home` the stream that it was allocated on, and
    `born` the number of that stream's last operation then."""

    __slots__ = ("accesses", "born", "capture", "dead", "device", "epoch", "freed", "freeing", "home", "length",
                 "pinned", "ptr", "reused", "size", "start")  # fmt: skip

    def __init__(self, size: int, device: int, home: Any, pinned: bool = False, ptr: int | None = None) -> None:
        if ptr is None:
            padded = -(-size // 16) * 16
            self.length = -(-(padded + HEAD) // PAGE) * PAGE
            self.start = SPACE_OF_ALL.reserve(self.length)
            ptr = self.start + self.length - padded
        else:
            self.start = ptr - UNIT
            self.length = -(-(UNIT + size) // PAGE) * PAGE
        self.ptr, self.size, self.device, self.home, self.pinned = ptr, size, device, home, pinned
        self.born, self.epoch = (0, 0) if pinned or home.capture is not None else (home.issued, home.epoch)
        self.accesses: list = []
        self.dead = False  # unreadable
        self.reused = ""  # what its pool has done with the memory since it was freed, if a graph may still use it
        self.freed: tuple[str, int] | None = None  # file and line
        self.freeing: Any = None  # the operation that does it; False: a graph may keep it
        self.capture: Any = None  # the capture that allocated it
        SPACE_OF_ALL.place(self)
        _libc.memset(self.ptr + size, PATTERN[0], self.slack)
        _libc.memset(self.ptr - HEAD, PATTERN[0], HEAD)
        _libc.memset(self.ptr, 0xFF, size)

    @property
    def slack(self) -> int:
        """How many bytes are left between the data and the page behind."""
        return self.start + self.length - self.ptr - self.size

    def kill(self) -> None:
        """Makes the memory unreadable; HazardError if something wrote just before or behind the data."""
        if self.dead:
            return
        self.dead = True
        intact = ctypes.string_at(self.ptr - HEAD, HEAD) == PATTERN * HEAD
        intact = intact and ctypes.string_at(self.ptr + self.size, self.slack) == PATTERN * self.slack
        _libc.mmap(self.start, self.length, _NONE, _FLAGS | _FIXED, -1, 0)
        if not intact:
            raise HazardError(f"something wrote outside a block of {self.size} bytes: within {HEAD} bytes before its "
                              f"beginning or {self.slack} behind its end")

    def __repr__(self) -> str:
        kind = "pinned memory" if self.pinned else "device memory"
        freed = f", freed at {self.freed[0]}:{self.freed[1]}" if self.freed else ""
        return f"{self.size} bytes of {kind} at {self.ptr:#x}{freed}"


def view(ptr: int, shape: tuple, dtype: np.dtype, strides: tuple | None = None, order: str = "C") -> np.ndarray:
    """A NumPy array over the memory at `ptr`, which it does not own."""
    if not ptr:  # no elements
        return np.empty(shape, dtype, order=order)
    return np.ndarray(shape, dtype, SPACE_OF_ALL.memory, ptr - SPACE_OF_ALL.low, strides, order)


SPACE_OF_ALL = _Space()


class _Anything(Block):
    """What lies at any address of the device, where nothing is computed and so nothing is watched."""

    __slots__ = ()

    def __init__(self) -> None:
        self.ptr, self.size, self.device, self.pinned = SPACE_OF_ALL.low, SPACE, 0, False
        self.accesses, self.freed, self.dead = [], None, False


ANYTHING = _Anything()


def find(address: int) -> Block | None:
    return SPACE_OF_ALL.find(address)
