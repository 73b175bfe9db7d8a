"""Rows of a table by index."""

from __future__ import annotations

from ... import backend
from ...backend.arrays.dtypes import int32, int64
from ...core.extend import defop, moved, one_by_one


def _embedding(xp, x, weight, *, padding_idx=None):
    if x.dtype not in (int64, int32):
        raise RuntimeError("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                           f"Int; but got {x.dtype} instead (while checking arguments for embedding)")
    if weight.ndim < 2:
        raise RuntimeError("'weight' must be 2-D")
    try:
        if backend.seen_outside(x, 0):
            raise IndexError
        return weight.take(x, -2)
    except IndexError:
        raise IndexError(f"index out of range in self: a weight of {weight.shape[-2]} rows was asked for rows "
                         f"{x.min()} to {x.max()}") from None


def _unpadded(F, rows, x, weight_shape, padding_idx):
    """`rows` of the indices x, with zeros for row `padding_idx`."""
    if padding_idx is None:
        return rows
    return F.where(F.unsqueeze(F.eq(x, padding_idx % weight_shape[-2]), -1), 0.0, rows)


def _embedding_back(F, g, x, weight_shape, padding_idx):
    g = _unpadded(F, g, x, weight_shape, padding_idx)
    return F.advanced_index_backward(g, x, dims=(-2,), shape=weight_shape)


def _embedding_jvp(F, t, x, weight_shape, padding_idx):
    return _unpadded(F, F.embedding(x, t[1]), x, weight_shape, padding_idx)


def _embedding_batch(F, n, batched, x, weight, *, padding_idx):
    def run(x, weight): return F.embedding(x, weight, padding_idx)
    if all(batched):  # row padding_idx is a different row in each sample's table
        return one_by_one(F, "embedding", run, n, batched, (x, weight))
    return moved(F, run(x, weight), len(weight.shape) - 2 if batched[0] else 0, 0)


@defop
class embedding:
    """The rows of `weight` at the integer indices x; row `padding_idx` gets no gradient.

    >>> ag.embedding(ag.tensor([1, 1]), ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [3., 4.]])
    """

    forward = _embedding
    grad_weight = _embedding_back
    integral = ("x",)
    jvp, batch = _embedding_jvp, _embedding_batch
    takes_out = False
    public = True
    torch = "nn.functional.embedding"
