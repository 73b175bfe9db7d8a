"""Large products by blocks of the result on our threads (rows.py), each block on one BLAS thread.

Waking a helper and waiting for it takes 0.06 ms. Measured on two cores (AVX2, float32): 0.67 ms of 128 x 784 x 256
become 0.48, 2.4 of 6000 x 128 x 128 become 1.3; 0.22 of 128 x 256 x 256 would become 0.25.
"""

from __future__ import annotations

import numpy as np

from . import blas, few_rows, pool, rows

PER_BLOCK = 1 << 25  # multiply-adds of a block, at least, times the item size: 0.2 ms
# Each block packs anew the operand that all blocks share. Beside one block per core, two take 2 to 4 % more time, and
# four 4 to 5 %, of whole second derivatives at width 512 and 2000 rows.
FEWEST = 64  # rows of a block, at least
BLOCKS_PER_CORE = 2  # at most: where a core is taken, the others work on its share
_GRAIN = 16  # rows: a multiple of what BLAS' kernels compute at once


def step_of(a: np.ndarray, b: np.ndarray, work: int) -> int:
    """The size of the blocks for a @ b of `work` multiply-adds; 0 if the calling thread is to compute it in one.

    It depends on shapes, dtype and the number of cores, and so do the rounding errors: not on what other threads do.
    """
    cores, count = rows.cores(), work * a.itemsize // PER_BLOCK
    if cores == 1 or count < 2 or a.dtype.kind not in "fc" or not are_shared():
        return 0
    if np.may_share_memory(a, b):  # for a @ a.T NumPy computes one half, by SYRK
        return 0
    count = min(count, BLOCKS_PER_CORE * cores)
    count -= count % cores if count > cores else 0  # all cores finish at the same time
    if a.ndim > 2 or b.ndim > 2:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])[0]
        return -(-batch // count) if batch > 1 else 0
    size = max(a.shape[0], b.shape[1])
    step = max(-(-size // count), FEWEST)
    step = -(-step // _GRAIN) * _GRAIN
    return step if step < size else 0


def are_shared() -> bool:
    """Whether products may be shared by threads: not those of an unknown BLAS, or of one that the user limits."""
    limit = blas.limit_of("numpy").threads()
    return limit != 0 and not limit == 1 == rows.asked()


def sharing() -> tuple[int, bool]:
    """What the blocks of products depend on beside their shapes: the number of cores, and whether they share them."""
    return rows.cores(), are_shared()


def in_blocks(a: np.ndarray, b: np.ndarray, step: int) -> np.ndarray:
    """a @ b by blocks of `step` products of a batch, or rows of the result, or columns if there are more of them."""
    a, b = blas.readable(a), blas.readable(b)
    if a.ndim > 2 or b.ndim > 2:
        return _of_a_batch(a, b, step)
    out = pool.empty((a.shape[0], b.shape[1]), a.dtype)

    def some_rows(start: int, stop: int) -> None:
        np.matmul(a[start:stop], b, out=out[start:stop])

    def some_columns(start: int, stop: int) -> None:
        block, target = b[:, start:stop], out[:, start:stop]
        if few_rows.are_few(a, block):
            few_rows.product(a, block, target)
        else:
            np.matmul(a, block, out=target)

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
