"""Combinations of elements of vectors: meshgrid, cartesian_prod, combinations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...core.extend import Tensor, public, wrap
from ..indexing.basic_index import unpacked
from ..indexing.index import advanced_index
from .concat import stack
from .reshape import expand, reshape


@public()
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """For n vectors n views of rank n: result k is vector k along dimension k, expanded along the others.

    `indexing="xy"` swaps the first two dimensions. 0-d tensors count as vectors of one element.

    >>> x, y = ag.meshgrid(ag.tensor([1, 2]), ag.tensor([3, 4, 5]))
    >>> y
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    tensors = unpacked(tensors)
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in tensors:
        if x.ndim > 1:
            raise RuntimeError(f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(x.shape)}")
        if x.dtype != tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype, got "
                               f"{tensors[0].dtype} and {x.dtype}")
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    shape = tuple([tensors[k].numel() for k in order])
    return tuple([
        expand(reshape(x, (-1, *(1,) * (len(order) - 1 - order[k]))), shape) for k, x in enumerate(tensors)
    ])


def _check_vector(x: Tensor) -> None:
    if x.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")


@public()
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """The Cartesian product of vectors, a tuple per row, in the order of itertools.product; a single vector unchanged.

    >>> ag.cartesian_prod(ag.tensor([1, 2]), ag.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for x in tensors:
        _check_vector(x)
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(x, (-1,)) for x in meshgrid(*tensors)], 1)


@public()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of the vector input, one per row, in the order of itertools.combinations or
    combinations_with_replacement.

    >>> ag.combinations(ag.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    _check_vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input[:0]
    indices = _choices(input.numel(), r, not with_replacement)
    return advanced_index(input, wrap(backend.to_device(indices, input.device)), dims=(-1,))


def _choices(n: int, r: int, apart: bool) -> np.ndarray:
    """The rows of r ascending indices below n, strictly ascending if `apart`, in lexicographic order."""
    rows = np.arange(n)[:, None]
    for _ in range(r - 1):  # each row is repeated for all indices that can follow its last one
        first = rows[:, -1] + apart
        counts = n - first
        rows = np.repeat(rows, counts, axis=0)
        last = np.arange(len(rows)) + np.repeat(first - np.cumsum(counts) + counts, counts)
        rows = np.concatenate([rows, last[:, None]], 1)
    return rows
