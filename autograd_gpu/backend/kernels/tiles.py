"""Launch shapes: how the kernels of kernels/include/matrix.cuh and rows.cuh divide a matrix into grid and blocks."""

from __future__ import annotations

import functools
from typing import Any

from .constants import NORM_STRIPS, THREADS

Launch = tuple[tuple[int, int], tuple[int, int]]  # grid and block

VECTOR, SECTOR, LINE = 16, 32, 128  # bytes of the widest load, of a memory sector, and of a cache line

# Chosen by latency and bandwidth of sm_80 to sm_100, not by measurements. A strip is one vector load of a thread.
ROWS_PER_THREAD = 2  # in an elementwise kernel: all its loads in flight at once
LONGEST_WALK = 16  # rows, or strips of a row, per thread of a sum: beyond it a second launch is cheaper
ROWS_PER_PART = 8  # the same for a sum in two stages
MOST_BLOCKS = 1024  # in the first stage of a sum: enough for the largest GPU, and little work for the second stage
MOST_PARTS = 65535  # CUDA's limit of gridDim.y
FEW_TURNS = 4  # iterations of a block over rows up to which one launch is cheaper than two
# Blocks per multiprocessor where several blocks share a row: with fewer, an uneven distribution leaves multiprocessors
# idle; with more, the second stage has more partial results to combine.
BLOCKS_EACH = 4


def widest(cols: int, itemsize: int, *matrices: Any | None) -> int:
    """The elements per vector load: 16 bytes' worth if row length and addresses are aligned, else 1."""
    width = VECTOR // itemsize
    if cols % width:
        return 1
    for array in matrices:
        if array is not None and array.data.ptr % VECTOR:
            return 1
    return width


def _power_of_two(n: int) -> int:
    """The smallest power of two >= n; 1 for 0."""
    return 1 << max(n - 1, 0).bit_length()


def _block(rows: int, cols: int, width: int, itemsize: int) -> tuple[int, tuple[int, int]]:
    """The number of blocks across the columns, and the block shape; see kernels/include/matrix.cuh.

    A block row covers one cache line; less if the matrix is narrower, more if it has too few rows to fill the block.
    """
    strips = cols // width
    across = min(_power_of_two(strips), max(LINE // (width * itemsize), THREADS // _power_of_two(rows)))
    return -(-strips // across), (across, THREADS // across)


@functools.lru_cache(4096)
def tiles(rows: int, cols: int, width: int, itemsize: int) -> Launch:
    """Grid and block of an elementwise kernel."""
    blocks, block = _block(rows, cols, width, itemsize)
    return (blocks, min(-(-rows // (block[1] * ROWS_PER_THREAD)), MOST_PARTS)), block


@functools.lru_cache(4096)
def sum_tiles(rows: int, cols: int, width: int, itemsize: int, stages: int = 2) -> Launch:
    """Grid and block of a kernel that sums columns; grid[1] is 1 if one stage is enough or `stages` is 1."""
    blocks, block = _block(rows, cols, width, itemsize)
    if stages == 1 or rows <= block[1] * LONGEST_WALK:
        return (blocks, 1), block
    parts = min(-(-rows // (block[1] * ROWS_PER_PART)), MOST_BLOCKS // max(blocks, 1))
    return (blocks, max(parts, 1)), block


def _across(rows: int, strips: int, least: int, held: int) -> int:
    """The number of threads that share a row of `strips` strips.

    At least `least`; more if a thread would have more than `held` strips, or if there are too few rows to fill the
    block.
    """
    threads = max(least, _power_of_two(-(-strips // held)), THREADS // _power_of_two(rows))
    return min(_power_of_two(strips), threads, THREADS)


@functools.lru_cache(4096)
def row_tiles(rows: int, cols: int, width: int, itemsize: int, stages: int = 2) -> Launch:
    """Grid and block of a kernel that sums along rows; grid[1] is 1 if one stage is enough or `stages` is 1.

    The threads of a row read whole cache lines; long or few rows have more threads.
    """
    strips = cols // width
    across = _across(rows, strips, LINE // (width * itemsize), LONGEST_WALK)
    blocks, block = -(-rows // (THREADS // across)), (across, THREADS // across)
    if stages == 1 or strips <= across * LONGEST_WALK:
        return (blocks, 1), block
    parts = min(-(-strips // (across * ROWS_PER_PART)), MOST_BLOCKS // max(blocks, 1))
    return (blocks, max(parts, 1)), block


def _shared_by(rows: int, strips: int, multiprocessors: int) -> int:
    """The number of blocks that share a row, which takes a second launch; 1 if a block per row is as fast.

    With one block per row, a block processes all strips of the row; divided among all multiprocessors, it would process
    rows / multiprocessors as many. If that saves at most LONGEST_WALK strips per thread, a second launch costs as much;
    with as many rows as multiprocessors it saves nothing.
    """
    if not rows or strips * (multiprocessors - rows) <= LONGEST_WALK * THREADS * multiprocessors:
        return 1
    return min(-(-strips // (THREADS * ROWS_PER_PART)), BLOCKS_EACH * multiprocessors // rows)


@functools.lru_cache(4096)
def held_tiles(rows: int, cols: int, width: int, itemsize: int, held: int, multiprocessors: int = 0) -> Launch:
    """Grid and block of a kernel that sums along rows with `held` strips per thread in flight.

    The threads of a row read whole sectors; long or few rows have more threads. grid[1] is 1 unless `multiprocessors`
    is given and there are too few long rows for them.
    """
    strips = cols // width
    across = _across(rows, strips, SECTOR // (width * itemsize), held)
    blocks, parts = -(-rows // (THREADS // across)), _shared_by(rows, strips, multiprocessors)
    return (blocks, parts), (across, THREADS // across)


def held(cols: int, width: int) -> bool:
    """Whether a block of `row_turns` holds a whole row in registers."""
    return cols <= NORM_STRIPS[width] * width * THREADS


@functools.lru_cache(4096)
def row_turns(
    rows: int, cols: int, width: int, itemsize: int, most_parts: int | None = None, multiprocessors: int = 0
) -> Launch:
    """Grid and block of a kernel whose blocks loop over the rows; grid[1] as in `held_tiles`.

    A kernel that also sums columns has at most `most_parts` blocks, and one block if one stage is enough.
    """
    strips = cols // width
    across = _across(rows, strips, LINE // (width * itemsize), NORM_STRIPS[width])
    deep = THREADS // across
    turns = -(-rows // deep)
    if most_parts is None:
        return (min(turns, MOST_BLOCKS), _shared_by(rows, strips, multiprocessors)), (across, deep)
    parts = min(-(-rows // ROWS_PER_PART), most_parts) if turns > FEW_TURNS else 1
    return (min(turns, parts), 1), (across, deep)
