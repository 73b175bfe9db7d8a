"""Large products by blocks of the result on our threads (rows.py), each block on one BLAS thread.

OpenBLAS' threads wait for each other by spinning, and go on for tens of milliseconds after a product. With another
process on one of two cores, a product of 2000 x 512 x 512 takes several times as long on them as on one thread. Ours
sleep, and take what time the other process leaves. On a quiet machine both are equally fast, but for the 0.1 ms that it
takes to wake a helper and to wait for it: so smaller products stay with BLAS.
"""

from __future__ import annotations

import numpy as np

from . import blas, pool, rows

PER_CORE = 1 << 29  # multiply-adds for each core, times the item size: 2 ms on a processor with AVX-512
# Each block packs anew the operand that all blocks share, which takes 4% of the time of 256 rows, and 2% of 512.
FEWEST, ENOUGH = 256, 512
BLOCKS_PER_CORE = 4  # at most: where a core is taken, the others work on its share
_GRAIN = 16  # rows: a multiple of what BLAS' kernels compute at once


def step_of(a: np.ndarray, b: np.ndarray, work: int) -> int:
    """The size of the blocks for a @ b of `work` multiply-adds; 0 if BLAS is to compute it in one.

    It depends on shapes, dtype and the number of cores, and so do the rounding errors: not on what other threads do.
    """
    cores = rows.cores()
    if cores == 1 or work * a.itemsize < PER_CORE * cores or a.dtype.kind not in "fc":
        return 0
    if blas.limit() < cores or np.may_share_memory(a, b):  # for a @ a.T NumPy computes one half, by SYRK
        return 0
    if a.ndim > 2 or b.ndim > 2:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])[0]
        return -(-batch // (BLOCKS_PER_CORE * cores)) if batch >= BLOCKS_PER_CORE * cores else 0
    size = max(a.shape[0], b.shape[1])
    if size < FEWEST * cores:
        return 0
    step = max(-(-size // (BLOCKS_PER_CORE * cores)), min(ENOUGH, -(-size // cores)))
    return -(-step // _GRAIN) * _GRAIN


def in_blocks(a: np.ndarray, b: np.ndarray, step: int) -> np.ndarray:
    """a @ b by blocks of `step` products of a batch, or rows of the result, or columns if there are more of them."""
    if a.ndim > 2 or b.ndim > 2:
        return _of_a_batch(a, b, step)
    out = pool.empty((a.shape[0], b.shape[1]), a.dtype)

    def some_rows(start: int, stop: int) -> None:
        np.matmul(a[start:stop], b, out=out[start:stop])

    def some_columns(start: int, stop: int) -> None:
        np.matmul(a, b[:, start:stop], out=out[:, start:stop])

    work = some_rows if out.shape[0] >= out.shape[1] else some_columns
    blas.on_one_thread(rows.in_blocks, max(out.shape), step, work)
    return out


def _of_a_batch(a: np.ndarray, b: np.ndarray, step: int) -> np.ndarray:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = pool.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))

    def some(start: int, stop: int) -> None:
        np.matmul(a[start:stop], b[start:stop], out=out[start:stop])

    blas.on_one_thread(rows.in_blocks, batch[0], step, some)
    return out
