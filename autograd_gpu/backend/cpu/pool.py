"""A memory pool for large NumPy arrays.

The C library maps a new array above 128 KiB, and its first write page-faults: 1.2 ms for 4 MB, where filling takes
0.1 ms. The memory of arrays from `empty` returns to the pool when the last view of it dies.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

SMALLEST = 1 << 17  # bytes; below this malloc reuses memory itself
MAX_FREE = 1 << 30  # bytes of free blocks; a block beyond it makes the pool release all free blocks to the system
_GRAIN = 1 << 16

_free: dict[int, list[np.ndarray]] = {}
_types: dict[int, type] = {}


class _FreeBytes:
    """The bytes in _free, approximately, since threads update it without a lock; `release` resets it to 0."""

    size = 0


class Block:
    """The owner of an array's memory. NumPy holds it as `.base` until the last view dies."""

    __slots__ = ()
    memory: np.ndarray  # a slot of each subclass

    def __del__(self) -> None:  # may run at any point, also inside this module: no lock, only atomic list calls
        memory = self.memory
        nbytes = memory.nbytes
        if _FreeBytes.size + nbytes > MAX_FREE:
            release()
        if nbytes <= MAX_FREE:
            _FreeBytes.size += nbytes
            _free.setdefault(nbytes, []).append(memory)


def _block_type(size: int) -> type:
    kind = _types.get(size)
    if kind is None:
        kind = _types[size] = type("Block", (Block, ctypes.c_char * size), {"__slots__": ("memory",)})
    return kind


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """numpy.empty, from the pool if the array is large and of a native dtype."""
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size < SMALLEST or dtype.isbuiltin != 1:
        return np.empty(shape, dtype)
    size = -(-size // _GRAIN) * _GRAIN
    try:
        memory = _free[size].pop()
        _FreeBytes.size -= size
    except (KeyError, IndexError):
        memory = _fresh(size)
    block: Any = _block_type(size).from_buffer(memory)  # type: ignore[attr-defined]
    block.memory = memory
    return np.ndarray(shape, dtype, block)


def _fresh(size: int) -> np.ndarray:
    """New memory from the system; if that fails, releases the free blocks and tries again."""
    try:
        return np.empty(size, np.uint8)
    except MemoryError:
        if not held_bytes():
            raise
        release()
        return np.empty(size, np.uint8)


def held_bytes() -> int:
    """The bytes of free blocks in the pool."""
    return sum([size * len(blocks) for size, blocks in list(_free.items())])


def release() -> None:
    """Returns all free blocks to the system."""
    for blocks in list(_free.values()):
        blocks.clear()
    _FreeBytes.size = 0


def owns(array: Any) -> bool:
    """Whether `array` is not a view: it owns its memory, or a pool block that only it and its views hold."""
    return array.base is None or isinstance(array.base, Block)
