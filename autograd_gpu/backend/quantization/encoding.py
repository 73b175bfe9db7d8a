"""Quantization and dequantization on the CPU, in blocks that fit in the cache.

1. Encoding to float8 looks up the code in a table of 65536 entries, indexed by a float32's upper 16 bits with the
   last bit set if a lower bit is set (rounding to odd). Rounding the 8 significant bits that remain to 4 or fewer then
   gives the same result as rounding the number itself (Boldo and Melquiond 2008). It takes 0.8 ns per element, a
   conversion by ml_dtypes 7 ns.
2. Decoding looks up the value in a table of all codes: 0.5 ns per element; NumPy's float16 to float32 takes 1.3 ns.
3. The largest absolute value of a row is the maximum of its bits without the sign, as integers: NumPy finds it in a
   fifth of the time of a floating-point maximum.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from ..arrays.dtypes import FULL_FLOATS, STORAGE, bfloat16, float16, float32, float64
from ..cpu import pool
from ..kernels import wide
from .formats import Format, Scales

BLOCK = 1 << 15  # elements per block: 0.1 ms of work, a few hundred KiB
_SIGN = {size: np.array((1 << (8 * size - 1)) - 1, f"u{size}") for size in (2, 4, 8)}  # all bits but the sign, by bytes
_INFINITY = {float32: 0x7F800000, float64: 0x7FF << 52, float16: 0x7C00, bfloat16: 0x7F80}
_LOWER, _HALF = np.array(0xFFFF, np.uint32), np.array(16, np.uint32)  # a ufunc takes 0.5 us longer with a number
Block = tuple[slice, slice]


def _blocks(rows: int, cols: int) -> Iterator[Block]:
    """Slices of rows and columns of at most BLOCK elements that cover a matrix: some whole rows, or a part of one."""
    if cols >= BLOCK:
        for row in range(rows):
            for column in range(0, cols, BLOCK):
                yield slice(row, row + 1), slice(column, column + BLOCK)
    elif cols:
        step = BLOCK // cols
        for row in range(0, rows, step):
            yield slice(row, row + step), slice(0, cols)


def _unset(like: np.ndarray, dtype: np.dtype, memory: dict[np.dtype, np.ndarray]) -> np.ndarray:
    """An uninitialized array of the shape of `like`, in scratch memory that all blocks share."""
    if dtype not in memory:
        memory[dtype] = np.empty(max(like.size, 1), dtype)
    return memory[dtype][: like.size].reshape(like.shape)


def largest(matrix: np.ndarray) -> np.ndarray:
    """The largest finite absolute value of each row, 0 if there is none: (rows,), in the accumulation dtype."""
    bits, infinity = _largest(matrix, None), _INFINITY[matrix.dtype]
    if bits.size and bits.max() >= infinity:
        bits = _largest(matrix, infinity)
    return bits.view(matrix.dtype).astype(wide(matrix.dtype), copy=False)


def _largest(matrix: np.ndarray, infinity: int | None) -> np.ndarray:
    """The maximum of the bits without the sign of each row, only of those below `infinity` if given."""
    bits = matrix.view(f"u{matrix.itemsize}")
    maxima = np.zeros(len(bits), bits.dtype)
    memory: dict[np.dtype, np.ndarray] = {}
    for block in _blocks(*bits.shape):
        sizes = np.bitwise_and(bits[block], _SIGN[matrix.itemsize], out=_unset(bits[block], bits.dtype, memory))
        if infinity is not None:
            sizes *= sizes < infinity
        np.maximum(maxima[block[0]], sizes.max(axis=1), out=maxima[block[0]])
    return maxima


# ---- encoding ----------------------------------------------------------------------------------------


def encode(matrix: np.ndarray, format: Format, scales: Scales | None) -> np.ndarray:
    """The codes of a contiguous matrix of a floating dtype; `scales` has one scale per row, or is None for scales of 1.

    Without scales, finite values beyond the format's range saturate.
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
    """Writes the codes of a block to `out`; float64 is first rounded to float32, as in ml_dtypes."""
    if format.dtype == float16:
        out[...] = values
        return
    if values.dtype != float32:
        values = values.astype(float32)
    if format.dtype == bfloat16:
        out[...] = values
        return
    bits = values.view(np.uint32)
    indices = _unset(bits, bits.dtype, memory)
    np.bitwise_and(bits, _LOWER, out=indices)
    np.add(indices, _LOWER, out=indices)
    np.bitwise_or(indices, bits, out=indices)
    np.right_shift(indices, _HALF, out=indices)
    _codes(format.dtype).take(indices, out=out, mode="wrap")  # no index is out of range; "raise" would make a copy


@functools.cache
def _codes(dtype: np.dtype) -> np.ndarray:
    """The table of float8 codes by the upper 16 bits of a float32.

    An odd index stands for the values between its even neighbours; the table converts one of those values.
    """
    halves = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        return (halves << 16 | halves & 1).view(float32).astype(dtype).view(np.uint8)


# ---- decoding ----------------------------------------------------------------------------------------


def decode(codes: np.ndarray, format: Format, factor: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    """The values of a contiguous matrix of codes, in `dtype`; `factor` (rows, 1) holds the scales, None for 1."""
    out = pool.empty(codes.shape, dtype)
    scaled = factor is not None and bool((factor != 1).any())
    if factor is not None and scaled and len(factor) == 1 and codes.size >> 8 * format.codes.itemsize:
        # one scale, and more elements than codes
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
    """The table of values of all codes of `dtype`, in the dtype `target`."""
    count = 1 << (8 * dtype.itemsize)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype).astype(target)
