"""Philox 4x32-10: random 32-bit words from counters (Salmon, Moraes, Dror, Shaw 2011)."""

from __future__ import annotations

import numpy as np


def words(seed: int, start: int, count: int, turn: int = 0) -> np.ndarray:
    """The words of `count` counters from `start` on, (count, 4), uint32; `turn` is the counters' upper half."""
    counters = np.arange(count, dtype=np.uint64) + np.uint64(start % 2**64)
    low = np.uint64(2**32 - 1)
    c = [counters & low, counters >> np.uint64(32), *(np.full(count, half, np.uint64) for half in _halves(turn))]
    keys = _halves(seed)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        k0, k1 = map(np.uint64, keys)
        c = [second >> np.uint64(32) ^ c[1] ^ k0, second & low, first >> np.uint64(32) ^ c[3] ^ k1, first & low]
        keys = (keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32
    return np.stack(c, axis=-1).astype(np.uint32)


def _halves(number: int) -> tuple[int, int]:
    """The lower and the upper 32 bits of a 64-bit number."""
    return number & (2**32 - 1), number >> 32 & (2**32 - 1)
