"""Indexing with tensors on a batch: the key for the batched tensors.

1. If only the indexed tensor is batched, the batch is one more leading dimension, which the key takes whole.
2. If tensors of the key are batched, the indices 0, 1, ... n - 1 of the batch dimension join the key.
3. NumPy puts the dimensions of the key's tensors in the place of those they index, if these lie side by side, else in
   front of all: the result's dimensions are brought into the order that an example has, behind the one of examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backend.arrays.dtypes import bool_
from ...core.extend import rank
from .basic_index import FULL


class BatchedKey:
    """The key with the tensors `indices` at `dims` for a batch of samples of `ndim` dimensions each.

    `batched` says which indices are batched, and `several` whether the indexed tensor is. `order` permutes the selected
    tensor so that the batch dimension comes first; None if it already does.
    """

    def __init__(
        self, F: Any, name: str, n: int, ndim: int, dims: tuple[int, ...], indices: Sequence[Any],
        batched: Sequence[bool], several: bool,
    ) -> None:  # fmt: skip
        if any(b and index.dtype == bool_ for index, b in zip(indices, batched, strict=True)):
            raise RuntimeError(f"{name} cannot be batched: how much a mask selects depends on its values; use ag.where")
        sizes = [len(index.shape) - b if index.dtype == bool_ else 1 for index, b in zip(indices, batched, strict=True)]
        named = max(1 if index.dtype == bool_ else rank(index, b) for index, b in zip(indices, batched, strict=True))
        self.ndim = ndim - sum(sizes) + named  # rank of what the key of one sample selects
        self.dims, self.indices = dims, tuple(indices)
        before, whole = ndim + dims[0], tuple(range(self.ndim + 1))
        adjacent = all(a + size == b for a, size, b in zip(dims, sizes, dims[1:], strict=False))
        first, last = whole[:named], whole[named + 1 :]
        if not any(batched):
            self.order = None if adjacent else (named, *first, *last)
            return
        self.indices = tuple(_of_rank(F, i, named) if b else i for i, b in zip(indices, batched, strict=True))
        if not several:
            self.order = (before, *whole[:before], *whole[before + 1 :]) if adjacent and before else None
            return
        like = next(index for index, b in zip(self.indices, batched, strict=True) if b)
        self.dims, self.indices = (-ndim - 1, *dims), (_numbers(F, like), *self.indices)
        names, lead = whole[1 : named + 1], whole[named + 1 : named + 1 + before]
        self.order = (0, *lead, *names, *whole[named + 1 + before :]) if adjacent and before else None

    def examples_first(self, F: Any, x: Any) -> Any:
        """What the key selects, the examples in front."""
        return x if self.order is None else F.permute(x, self.order)

    def as_selected(self, F: Any, x: Any, n: int, is_batched: bool) -> Any:
        """The inverse: x, which may broadcast to what an example's key selects, as the key of all examples selects."""
        if not is_batched and self.order is None:
            return x
        if is_batched and (missing := self.ndim - rank(x, True)):
            x = F.reshape(x, (n, *(1,) * missing, *x.shape[1:]))
        elif not is_batched:
            x = F.reshape(x, (*(1,) * (self.ndim + 1 - len(x.shape)), *x.shape))
        if self.order is None:
            return x
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return F.permute(x, tuple(inverse))


def _of_rank(F: Any, index: Any, ndim: int) -> Any:
    """A batched index with `ndim` dimensions after the batch dimension."""
    missing = ndim - rank(index, True)
    return F.reshape(index, (index.shape[0], *(1,) * missing, *index.shape[1:])) if missing else index


def _numbers(F: Any, index: Any) -> Any:
    """The batch indices 0, 1, ... along the first dimension; the others have size 1, or 0 for an empty index."""
    corner = F.basic_index(index, (FULL, *(slice(1),) * rank(index, True)))
    return F.cumsum(F.constant_like(corner, 1), -len(index.shape)) - 1
