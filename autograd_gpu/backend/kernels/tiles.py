"""Grids and blocks: how the kernels of kernels/include/matrix.cuh and rows.cuh divide a matrix."""

from __future__ import annotations

import functools
from typing import Any

from .constants import NORM_STRIPS, THREADS

Launch = tuple[tuple[int, int], tuple[int, int]]  # grid and block

VECTOR, SECTOR, LINE = 16, 32, 128  # bytes of the widest load, of the least that memory gives, and of a cache line

# Chosen by latency and bandwidth of sm_80 to sm_100, not by measurements.
ROWS_PER_THREAD = 2  # of a kernel that sums nothing: all its loads in flight at once
LONGEST_WALK = 16  # rows, or strips of a row, per thread of one that sums: beyond it a second launch is cheaper
ROWS_PER_PART = 8  # the same in a sum of two stages
MOST_BLOCKS = 1024  # of its first stage: enough for the largest GPU, and little work for the second
MOST_PARTS = 65535  # CUDA's limit of gridDim.y
FEW_TURNS = 4  # of a block down the rows: they are cheaper than a second launch
# For each multiprocessor, where blocks share rows: of two, which it has room for, one too few would leave it idle for
# half of the time; of many, each puts together what all have found.
BLOCKS_EACH = 4


def widest(cols: int, itemsize: int, *matrices: Any | None) -> int:
    """How many columns a thread takes at once: 16 bytes' worth if rows and addresses allow it, else one."""
    width = VECTOR // itemsize
    if cols % width:
        return 1
    for array in matrices:
        if array is not None and array.data.ptr % VECTOR:
            return 1
    return width


def _power_of_two(n: int) -> int:
    """The smallest power of two from `n` up; 1 for 0."""
    return 1 << max(n - 1, 0).bit_length()


def _block(rows: int, cols: int, width: int, itemsize: int) -> tuple[int, tuple[int, int]]:
    """How many blocks are as wide as the matrix, and the shape of one; see kernels/include/matrix.cuh.

    A row of a block is one cache line; less if the matrix is narrower, more if it has too few rows to fill the block.
    """
    strips = cols // width
    across = min(_power_of_two(strips), max(LINE // (width * itemsize), THREADS // _power_of_two(rows)))
    return -(-strips // across), (across, THREADS // across)


@functools.lru_cache(4096)
def tiles(rows: int, cols: int, width: int, itemsize: int) -> Launch:
    """Grid and block of a kernel that sums nothing."""
    blocks, block = _block(rows, cols, width, itemsize)
    return (blocks, min(-(-rows // (block[1] * ROWS_PER_THREAD)), MOST_PARTS)), block


@functools.lru_cache(4096)
def sum_tiles(rows: int, cols: int, width: int, itemsize: int, stages: int = 2) -> Launch:
    """Grid and block of a kernel that sums columns: grid[1] is 1 where one stage is enough, or is asked for."""
    blocks, block = _block(rows, cols, width, itemsize)
    if stages == 1 or rows <= block[1] * LONGEST_WALK:
        return (blocks, 1), block
    parts = min(-(-rows // (block[1] * ROWS_PER_PART)), MOST_BLOCKS // max(blocks, 1))
    return (blocks, max(parts, 1)), block


def _across(rows: int, strips: int, least: int, held: int) -> int:
    """How many threads share a row of so many strips: at least so many bytes' worth, and more of them where a thread
    would have more than `held` strips, or rows are too few to fill the block."""
    wanted = max(least, _power_of_two(-(-strips // held)), THREADS // _power_of_two(rows))
    return min(_power_of_two(strips), wanted, THREADS)


@functools.lru_cache(4096)
def row_tiles(rows: int, cols: int, width: int, itemsize: int, stages: int = 2) -> Launch:
    """Grid and block of a kernel that sums along rows: grid[1] is 1 where one stage is enough, or is asked for.

    The threads of a row read whole cache lines; there are more of them where a row is long or rows are few.
    """
    strips = cols // width
    across = _across(rows, strips, LINE // (width * itemsize), LONGEST_WALK)
    blocks, block = -(-rows // (THREADS // across)), (across, THREADS // across)
    if stages == 1 or strips <= across * LONGEST_WALK:
        return (blocks, 1), block
    parts = min(-(-strips // (across * ROWS_PER_PART)), MOST_BLOCKS // max(blocks, 1))
    return (blocks, max(parts, 1)), block


def _shared_by(rows: int, strips: int, multiprocessors: int) -> int:
    """How many blocks share a row of a kernel that then takes two launches; 1 where a block per row is as good.

    A block per row walks along all of its strips; if each multiprocessor had its part of them, it would walk along
    rows / multiprocessors as many. Where that saves no more than LONGEST_WALK strips per thread, the second launch
    costs as much; where rows are as many as multiprocessors it saves nothing.
    """
    if not rows or strips * (multiprocessors - rows) <= LONGEST_WALK * THREADS * multiprocessors:
        return 1
    return min(-(-strips // (THREADS * ROWS_PER_PART)), BLOCKS_EACH * multiprocessors // rows)


@functools.lru_cache(4096)
def held_tiles(rows: int, cols: int, width: int, itemsize: int, held: int, multiprocessors: int = 0) -> Launch:
    """Grid and block of a kernel that sums along rows and has `held` strips of a thread in flight.

    The threads of a row read whole sectors; there are more of them where a row is long or rows are few. grid[1] is 1,
    but where `multiprocessors` are given, and long rows are too few for them.
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
    """Grid and block of a kernel whose blocks take turns down the rows; grid[1] is as of `held_tiles`.

    Of one that also sums columns there are `most_parts` blocks at most, and one where one stage is enough.
    """
    strips = cols // width
    across = _across(rows, strips, LINE // (width * itemsize), NORM_STRIPS[width])
    deep = THREADS // across
    turns = -(-rows // deep)
    if most_parts is None:
        return (min(turns, MOST_BLOCKS), _shared_by(rows, strips, multiprocessors)), (across, deep)
    parts = min(-(-rows // ROWS_PER_PART), most_parts) if turns > FEW_TURNS else 1
    return (min(turns, parts), 1), (across, deep)
