"""Matrix products with a packed operand, as steps of a run (runs.py).

BLAS packs the second operand in each call. A run by blocks of rows multiplies many blocks by one weight, so it packs
the weight once, and its blocks may be as small as the cache asks for. The product of a block of 84 rows with a weight
(128, 128) runs at 243 in place of 214 GFLOP/s of a core with AVX-512.

BLAS' bits depend on the order of its sums. OpenBLAS accumulates parts of k one after the other; where products of
random numbers show that it does so here, and with which parts, the bits are the same.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterator

import numpy as np

from ...arrays.dtypes import FULL_FLOATS
from ...arrays.strides import address
from ...cpu.blas import on_one_thread
from . import disk_cache, packed_code, runs
from .packed_code import Tile
from .runs import Operand, Place
from .switch import COMPILING, say

# OpenBLAS' parts of k (GEMM_Q of its param.h), for processors with fused multiply-adds; none in small products.
PARTS = (384, 448, 320, 256, 512, 640, 768)
TRIED = 1 << 21  # multiply-adds of the products that show how BLAS sums: more than in those that it calls small
# Of those of all vectors, where there are several: the others are computed in vain. A product of few columns takes
# little time, and its line beside the run more: 0.35 ms of 2000 x 512 x 3.
LEAST_COLUMNS = 3 / 4
Ends = tuple[int, ...]  # of the parts of k


@functools.cache
def tile_of(dtype: np.dtype) -> Tile | None:
    """The tile for this processor; None if it has no fused multiply-adds."""
    if platform.machine() in ("arm64", "aarch64"):
        return packed_code.tile(dtype, 16, 32)
    if platform.machine() not in ("x86_64", "AMD64") or not disk_cache.has_feature("fma"):
        return None
    return packed_code.tile(dtype, 64, 32) if disk_cache.has_feature("avx512f") else packed_code.tile(dtype, 32, 16)


def _tile(dtype: np.dtype) -> Tile:
    tile = tile_of(dtype)
    assert tile is not None  # ends_of
    return tile


@functools.cache
def _machine_code(kind: str, tile: Tile) -> int:
    """The address of a loop, which is compiled."""
    with COMPILING:
        return disk_cache.address(packed_code.SOURCES[kind](tile)) or 0


@functools.cache
def _loop(kind: str, tile: Tile, *data: int) -> tuple[tuple[int, int], np.ndarray]:
    """A loop and its data, beside the array that has them, which is kept."""
    words = np.array(data, np.int64)
    return (_machine_code(kind, tile), address(words)), words


def elements(matrix: np.ndarray) -> int:
    """The elements of a packed matrix (k, n)."""
    (k, n), width = matrix.shape, _tile(matrix.dtype).width
    return k * -(-n // width) * width


def packing(matrix: np.ndarray, at: Place, packed: Place) -> list[int]:
    """The step that packs a matrix (k, n), row-major or the transpose of a row-major one."""
    (k, n), tile, target = matrix.shape, _tile(matrix.dtype), Operand(packed, 0, 0)
    if matrix.flags.c_contiguous:
        loop, _ = _loop("packing", tile, n)
        return runs.loop(loop, 1, k, [Operand(at, 0, matrix.strides[0]), target])
    loop, _ = _loop("transposed packing", tile, k)
    return runs.loop(loop, 1, n, [Operand(at, 0, matrix.strides[1]), target])


def product(rows: int, n: int, a: Operand, packed: Place, out: Operand, ends: Ends, dtype: np.dtype) -> list[int]:
    """The step for so many rows of a @ b with b (k, n) packed; inner steps are the bytes from one row to the next."""
    loop, _ = _loop("product", _tile(dtype), n, ends[-1], len(ends), *ends)
    return runs.loop(loop, 1, rows, [a, Operand(packed, 0, 0), out])


# ---- the bits of BLAS ----------------------------------------------------------------------------------


@functools.lru_cache(1024)
def ends_of(rows: int, k: int, n: int, dtype: np.dtype) -> Ends | None:
    """The parts of k that BLAS accumulates one after the other in products (rows, k) @ (k, n) on one thread.

    None if its sums have another order, or if many columns of a panel would be filled up.
    """
    if dtype not in FULL_FLOATS or min(rows, k, n) < 2 or (tile := tile_of(dtype)) is None:
        return None
    if tile.lanes < n < LEAST_COLUMNS * -(-n // tile.lanes) * tile.lanes:
        return None
    try:
        for kind in packed_code.SOURCES:
            _machine_code(kind, tile)
    except RuntimeError as error:  # of llvmlite
        say(str(error))
        return None
    rng = np.random.default_rng(k + n)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((min(rows, -(-TRIED // (k * n))), k), (k, n)))
    expected = on_one_thread(np.matmul, a, b)
    for ends in dict.fromkeys([(k,), *[tuple(_ends(k, part)) for part in PARTS if part < k]]):
        if np.array_equal(computed(a, b, ends), expected):
            return ends
    return None


def ends_of_weight(rows: int, k: int, n: int, dtype: np.dtype) -> Ends | None:
    """Those of the product with a weight; None, too, if the weight packed would take more memory than the rows."""
    return ends_of(rows, k, n, dtype) if rows >= max(k, n) else None


def _ends(k: int, part: int) -> Iterator[int]:
    """The ends of parts: two halves of less than two parts, in multiples of 16, are the last (OpenBLAS' level3.c)."""
    begin = 0
    while begin < k:
        rest = k - begin
        begin += part if rest >= 2 * part else rest if rest <= part else -(-(rest // 2) // 16) * 16
        yield begin


def computed(a: np.ndarray, b: np.ndarray, ends: Ends) -> np.ndarray:
    """a @ b with b packed, for row-major a, and b as `packing` takes it."""
    m, n = len(a), b.shape[1]
    out, memory = np.empty((m, n), a.dtype), np.empty(elements(b), a.dtype)
    x, w, packed, y = (Place(i) for i in range(4))
    steps = [packing(b, w, packed),
             product(m, n, Operand(x, 0, a.strides[0]), packed, Operand(y, 0, out.strides[0]), ends, a.dtype)]
    runs.function_of(steps)(runs.places(), a, b, memory, out)
    return out
