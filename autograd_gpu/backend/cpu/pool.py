"""Reused memory for large NumPy arrays.

A fresh array above 128 KiB is mapped by the C library and page-faulted at the first write: 1.2 ms for 4 MB, where
filling it takes 0.1 ms. Arrays from `empty` give their memory back here when the last view of them dies.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

SMALLEST = 1 << 17  # bytes; below this malloc reuses memory by itself
KEPT = 1 << 30  # bytes that may wait here; one more block, and all that waits goes back to the system
_GRAIN = 1 << 16

_free: dict[int, list[np.ndarray]] = {}
_types: dict[int, type] = {}


class _Waiting:
    """Bytes in _free, as good as threads without a lock can count; `release` starts again from 0."""

    size = 0


class Block:
    """The owner of an array's memory. NumPy keeps it as `.base` until the last view is gone."""

    memory: np.ndarray

    def __del__(self) -> None:  # may run anywhere, also while this module runs: hence no lock, and atomic list calls
        memory = self.memory
        if _Waiting.size + memory.nbytes > KEPT:
            release()
        if memory.nbytes <= KEPT:
            _Waiting.size += memory.nbytes
            _free.setdefault(memory.nbytes, []).append(memory)


def _block_type(size: int) -> type:
    found = _types.get(size)
    if found is None:
        found = _types[size] = type("Block", (Block, ctypes.c_char * size), {})
    return found


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """numpy.empty, from reused memory if the array is large and of a native dtype."""
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size < SMALLEST or dtype.isbuiltin != 1:
        return np.empty(shape, dtype)
    size = -(-size // _GRAIN) * _GRAIN
    try:
        memory = _free[size].pop()
        _Waiting.size -= size
    except (KeyError, IndexError):
        memory = _fresh(size)
    block: Any = _block_type(size).from_buffer(memory)  # type: ignore[attr-defined]
    block.memory = memory
    return np.ndarray(shape, dtype, block)


def _fresh(size: int) -> np.ndarray:
    """New memory; if there is none, what waits here goes back to the system first."""
    try:
        return np.empty(size, np.uint8)
    except MemoryError:
        if not held_bytes():
            raise
        release()
        return np.empty(size, np.uint8)


def held_bytes() -> int:
    """Bytes that wait here to be used again."""
    return sum([size * len(blocks) for size, blocks in list(_free.items())])


def release() -> None:
    """Gives all waiting memory back to the system."""
    for blocks in list(_free.values()):
        blocks.clear()
    _Waiting.size = 0


def owns(array: Any) -> bool:
    """Whether `array` is no view: its memory is its own, or a block that only it and its views hold."""
    return array.base is None or isinstance(array.base, Block)
