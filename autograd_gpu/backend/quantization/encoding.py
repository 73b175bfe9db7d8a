"""Numbers to codes and back on the CPU, in blocks that stay in the cache.

1. A float8 code is read from a table of 65536: by the upper half of a float32, whose last bit is set if anything stands
   in the lower half. Eight digits that are odd where they are cut round to four or fewer as the number itself does
   (Boldo and Melquiond 2008). 0.8 ns an element, where a conversion by ml_dtypes takes 7.
2. A number is read from a table of all codes: 0.5 ns, where float16 to float32 takes NumPy 1.3.
3. The largest number of a row is that of its bits without the sign, as integers: NumPy finds it in a fifth of the time
   that floating point takes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from ..arrays.dtypes import FULL_FLOATS, STORAGE, bfloat16, float16, float32, float64
from ..cpu import pool
from ..kernels import wide
from .formats import Format, Scales

BLOCK = 1 << 15  # elements: 0.1 ms of work, a few hundred KiB
_SIGN = {size: np.array((1 << (8 * size - 1)) - 1, f"u{size}") for size in (2, 4, 8)}  # all bits but the sign, by bytes
_INFINITY = {float32: 0x7F800000, float64: 0x7FF << 52, float16: 0x7C00, bfloat16: 0x7F80}
_LOWER, _HALF = np.array(0xFFFF, np.uint32), np.array(16, np.uint32)  # a ufunc takes 0.5 us longer with a number
Block = tuple[slice, slice]


def _blocks(rows: int, cols: int) -> Iterator[Block]:
    """Rows and columns of a matrix, BLOCK elements at a time: some rows, or a part of one."""
    if cols >= BLOCK:
        for row in range(rows):
            for column in range(0, cols, BLOCK):
                yield slice(row, row + 1), slice(column, column + BLOCK)
    elif cols:
        step = BLOCK // cols
        for row in range(0, rows, step):
            yield slice(row, row + step), slice(0, cols)


def _unset(like: np.ndarray, dtype: np.dtype, memory: dict[np.dtype, np.ndarray]) -> np.ndarray:
    """An array of the shape of `like`, in memory that all blocks share."""
    if dtype not in memory:
        memory[dtype] = np.empty(max(like.size, 1), dtype)
    return memory[dtype][: like.size].reshape(like.shape)


def largest(matrix: np.ndarray) -> np.ndarray:
    """The largest finite number of each row, in size; 0 where there is none: (rows,), in the wide dtype."""
    found, infinity = _largest(matrix, None), _INFINITY[matrix.dtype]
    if found.size and found.max() >= infinity:
        found = _largest(matrix, infinity)
    return found.view(matrix.dtype).astype(wide(matrix.dtype), copy=False)


def _largest(matrix: np.ndarray, infinity: int | None) -> np.ndarray:
    """The largest bits without the sign of each row, of those below infinity's if that is given."""
    bits = matrix.view(f"u{matrix.itemsize}")
    found = np.zeros(len(bits), bits.dtype)
    memory: dict[np.dtype, np.ndarray] = {}
    for block in _blocks(*bits.shape):
        sizes = np.bitwise_and(bits[block], _SIGN[matrix.itemsize], out=_unset(bits[block], bits.dtype, memory))
        if infinity is not None:
            sizes *= sizes < infinity
        np.maximum(found[block[0]], sizes.max(axis=1), out=found[block[0]])
    return found


# ---- numbers to codes --------------------------------------------------------------------------------


def encode(matrix: np.ndarray, format: Format, scales: Scales | None) -> np.ndarray:
    """The codes of a contiguous matrix of one of the four floating dtypes; `scales` are those of its rows, None for 1.

    Without scales, finite numbers beyond the format's range saturate.
    """
    codes = pool.empty(matrix.shape, format.codes)
    memory: dict[np.dtype, np.ndarray] = {}
    inverse = None if scales is None else scales.inverse
    if inverse is not None and format.dtype not in STORAGE and (inverse == 1).all():
        inverse = None
    for block in _blocks(*matrix.shape):
        values = matrix[block]
        if inverse is not None:
            out = _unset(values, wide(matrix.dtype), memory)
            values = np.multiply(values, inverse[block[0], None], out=out, dtype=out.dtype, casting="unsafe")
        if scales is None:
            values = _saturated(values, format.largest)
        elif scales.limit is not None:
            values = _saturated(values, scales.limit[block[0], None])
        _encode(values, format, codes[block], memory)
    return codes


def _saturated(values: np.ndarray, limit: np.ndarray | float) -> np.ndarray:
    values = values if values.dtype in FULL_FLOATS else values.astype(float32)
    if np.abs(values).max() <= np.min(limit):
        return values
    return np.where(np.isinf(values), values, np.clip(values, -limit, limit))


def _encode(values: np.ndarray, format: Format, out: np.ndarray, memory: dict[np.dtype, np.ndarray]) -> None:
    """Writes the codes of a block; float64 is rounded to float32 before it is to a shorter format, as in ml_dtypes."""
    if format.dtype == float16:
        out[...] = values
        return
    if values.dtype != float32:
        values = values.astype(float32)
    if format.dtype == bfloat16:
        out[...] = values
        return
    bits = values.view(np.uint32)
    places = _unset(bits, bits.dtype, memory)
    np.bitwise_and(bits, _LOWER, out=places)
    np.add(places, _LOWER, out=places)
    np.bitwise_or(places, bits, out=places)
    np.right_shift(places, _HALF, out=places)
    _codes(format.dtype).take(places, out=out, mode="wrap")  # no index is out of range: "raise" would make a copy


@functools.cache
def _codes(dtype: np.dtype) -> np.ndarray:
    """The float8 codes of all upper halves; an odd one stands for the numbers above it, and one of those is taken."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        return (halves << 16 | halves & 1).view(float32).astype(dtype).view(np.uint8)


# ---- codes to numbers --------------------------------------------------------------------------------


def decode(codes: np.ndarray, format: Format, factor: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    """The numbers of a contiguous matrix of codes, in `dtype`; `factor` (rows, 1) has the scales, None for 1."""
    out = pool.empty(codes.shape, dtype)
    scaled = factor is not None and bool((factor != 1).any())
    if factor is not None and scaled and len(factor) == 1 and codes.size >> 8 * format.codes.itemsize:  # many per code
        _take((_numbers(format.dtype, wide(dtype)) * factor[0]).astype(dtype), codes, out)
        return out
    memory: dict[np.dtype, np.ndarray] = {}
    for block in _blocks(*codes.shape):
        values = out[block] if dtype in FULL_FLOATS else _unset(out[block], float32, memory)
        if format.dtype == bfloat16:
            values[...] = codes[block]
        else:
            _take(_numbers(format.dtype, values.dtype), codes[block], values)
        if factor is not None and scaled:
            np.multiply(values, factor[block[0]], out=values)
        if values.dtype != dtype:
            out[block] = values
    return out


def _take(table: np.ndarray, codes: np.ndarray, out: np.ndarray) -> None:
    table.take(codes if codes.dtype == np.uint8 else codes.view(np.uint16), out=out, mode="wrap")


@functools.cache
def _numbers(dtype: np.dtype, target: np.dtype) -> np.ndarray:
    """The numbers of all codes."""
    count = 1 << (8 * dtype.itemsize)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype).astype(target)
