"""masked_fill_, index_fill_ and index_put_, which write to an expanded tensor, too: with PyTorch's warning; and
fill_diagonal_, without one.

An element that is written to lies where others lie that are not. So only what the mask or the indices name is written,
where other in-place methods write the whole result. Values for one place win in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import backend
from ...backend.arrays import dtypes, strides
from ...core.extend import Tensor, bump_version, method, public
from ..creation.factories import as_tensor
from ..indexing.basic_index import FULL, wrap_dim
from ..indexing.index_put import index_fill, index_put
from ..indexing.masked import masked_fill
from ..indexing.setitem import place, warn_expanded
from ..shape.reshape import broadcast_to
from .write import check_writable, in_place, is_recorded, named, record, refuse_storage


def _in_place_by_key(function: Any, name: str, key_of: Any, example: str) -> Any:
    """`name`: as in_place makes it, but of an expanded x only x[key_of(x, ...)] is written to."""
    ordinary = in_place(function, name)

    def written(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = input
        if not strides.is_expanded(x._array) or is_recorded(x, (*args, *kwargs.values())):
            return ordinary(x, *args, **kwargs)
        check_writable(name, x, stretched=True)
        warn_expanded(name, example)
        result = function(x, *args, **kwargs)
        key = key_of(x, *args, **kwargs)
        target, at = place(x, key)
        values, same = place(result, key)
        bump_version(x)
        target[at] = values[same]
        return x

    return named(written, function, name, ordinary.__doc__)


def _by_mask(x: Tensor, mask: Any, value: Any) -> Any:
    return broadcast_to(mask, x.shape)


def _by_index(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    return (*(FULL,) * wrap_dim(dim, x.ndim), index)


def _by_indices(x: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    return tuple([FULL if index is None else index for index in indices])


masked_fill_ = method()(_in_place_by_key(masked_fill, "masked_fill_", _by_mask, "tensor[mask] = scalar"))
index_fill_ = method()(_in_place_by_key(index_fill, "index_fill_", _by_index, "tensor[mask] = scalar"))
index_put_ = public(methods="index_put_")(
    _in_place_by_key(index_put, "index_put_", _by_indices, "tensor[indices] = tensor")
)


@method()
def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """`fill_value` on the main diagonal of x, of two or more dimensions, all equal if more than two; with `wrap` the
    diagonal of a tall matrix starts again, one row further down.

    >>> ag.zeros(2, 2).fill_diagonal_(1.0)
    tensor([[1., 0.],
            [0., 1.]])
    """
    refuse_storage("fill_diagonal_", x)
    if x.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    xp = backend.namespace(x._array)
    if check_writable("fill_diagonal_", x, stretched=True):
        chosen = xp.zeros(x.shape, dtypes.bool_)
        xp.fill_diagonal(chosen, True, wrap)
        return record("fill_diagonal_", x, masked_fill, as_tensor(chosen), fill_value)
    fill_value = dtypes.fitting(fill_value, x.dtype)
    bump_version(x)
    xp.fill_diagonal(x._array, fill_value, wrap)
    return x
