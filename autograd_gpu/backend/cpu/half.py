"""Conversion of many float16 numbers from and to float32, by a few passes over their bits.

NumPy converts one number after the other, in 2 to 3 ns, and in 60 ns if a result is subnormal. The passes go by blocks
that stay in the cache. Blocks with infinities, NaN or a result beyond the largest float16 are left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.dtypes import float16, float32
from . import pool

MANY = 1 << 13  # elements from which the passes are faster
BLOCK = 1 << 14  # elements

INFINITE = np.int16(0x7C00)
SCALE = np.float32(2.0**112)  # of a float16's bits in the place of a float32's, to its value
OVERFLOW, LEAST = np.float32(65520), np.float32(2.0**-14)  # is rounded to infinity; the smallest normal float16
EXPONENT, MAGNITUDE, SIGN = np.int32(0x7F800000), np.int32(0x7FFFFFFF), np.int32(-0x8000)
SHIFT = np.int32(13 << 23)  # adding a number 2 ** 13 times as large leaves 11 bits
COPIES = np.int32(~(7 << 28))  # clears the copies of the sign that a shift leaves in bits 30 to 28
BIAS = np.int16((113 + 13 << 10) - (1 << 17))  # the exponent of LEAST with SHIFT, modulo 2 ** 16


def convert(x: Any, dtype: np.dtype) -> Any:
    """x, or x.astype(dtype) if it has another dtype; takes CuPy arrays, too."""
    if x.dtype == dtype:
        return x
    if type(x) is np.ndarray and x.size >= MANY and x.flags.c_contiguous:
        if x.dtype == float16 and dtype == float32:
            return _by_blocks(_widen, x, pool.empty(x.shape, float32))
        if x.dtype == float32 and dtype == float16:
            return _by_blocks(_narrow, x, pool.empty(x.shape, float16))
    return x.astype(dtype)


def _by_blocks(work: Callable[..., None], x: np.ndarray, out: np.ndarray) -> np.ndarray:
    source, target = x.reshape(-1), out.reshape(-1)
    scratch = np.empty((2, min(BLOCK, x.size)), np.int32)
    for i in range(0, x.size, BLOCK):
        part = source[i : i + BLOCK]
        work(part, target[i : i + BLOCK], scratch[:, : part.size])
    return out


def _widen(x: np.ndarray, out: np.ndarray, scratch: np.ndarray) -> None:
    """Writes float16 x into float32 `out`."""
    codes, bits = x.view(np.int16), out.view(np.int32)
    if np.max(codes & INFINITE) == INFINITE:
        np.copyto(out, x)
        return
    np.copyto(bits, codes)  # the sign goes to bits 31 to 15
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, COPIES, out=bits)
    np.multiply(out, SCALE, out=out)


def _narrow(x: np.ndarray, out: np.ndarray, scratch: np.ndarray) -> None:
    """Writes float32 x into float16 `out`, rounded to even.

    The processor rounds: |x| plus 2 ** 13 times its power of two has its 11 leading bits as the last ones.
    """
    bits, (rest, power) = x.view(np.int32), scratch
    np.bitwise_and(bits, MAGNITUDE, out=rest)
    if not rest.view(float32).max() < OVERFLOW:
        np.copyto(out, x, casting="unsafe")
        return
    np.bitwise_and(rest, EXPONENT, out=power)
    np.clip(power.view(float32), LEAST, np.inf, out=power.view(float32))
    power += SHIFT
    np.add(rest.view(float32), power.view(float32), out=rest.view(float32))
    rest -= power
    power >>= 13
    rest += power
    np.right_shift(bits, 16, out=power)
    power &= SIGN
    rest ^= power
    np.copyto(out.view(np.int16), rest, casting="unsafe")
    out.view(np.int16)[...] -= BIAS
