"""One-hot vectors of class indices."""

from __future__ import annotations

from ... import backend
from ...backend.arrays.dtypes import int64
from ...core.extend import defop


def _one_hot(xp, x, *, num_classes=-1):
    if x.dtype != int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type int64.")
    if num_classes == -1:
        if not x.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(x.max()) + 1
    if backend.seen_outside(x, 0, num_classes - 1):
        raise RuntimeError("Class values must be " + ("non-negative." if x.min() < 0 else "smaller than num_classes."))
    return (x.reshape((*x.shape, 1)) == xp.arange(num_classes)).astype(int64)


def _one_hot_batch(F, n, batched, x, *, num_classes):
    if num_classes == -1:
        raise RuntimeError("one_hot cannot be batched: its length depends on the values; pass num_classes")
    return F.one_hot(x, num_classes)


@defop
class one_hot:
    """int64 vectors of length `num_classes` with a 1 at index x; by default of length x.max() + 1.

    >>> ag.one_hot(ag.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """

    forward = _one_hot
    nondiff = True
    batch = _one_hot_batch
    takes_out = False
    public = "one_hot", "nn.functional.one_hot"
