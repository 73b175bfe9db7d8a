"""masked_fill_, index_fill_ and index_put_, which also write to expanded tensors, with PyTorch's warning; and
fill_diagonal_, without one.

Elements of an expanded tensor share memory. So only the elements that the mask or the indices select are written, where
other in-place methods write the whole result. Which of several values for one address is written is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.strides import is_expanded, strided
from ...backend.cuda import exact
from ...core.extend import Tensor, bump_version, method, public
from ..creation.from_data import as_tensor
from ..indexing.basic_index import FULL, wrap_dim
from ..indexing.index_put import index_fill, index_put
from ..indexing.masked import masked_fill
from ..indexing.setitem import target_and_key, warn_expanded
from ..shape.reshape import broadcast_to
from .record import check_writable, in_place, is_recorded, named, record, refuse_storage


def _in_place_by_key(function: Any, name: str, key_of: Any, example: str) -> Any:
    """The method `name` like that of `in_place`, which writes only x[key_of(x, ...)] if x is expanded."""
    ordinary = in_place(function, name)

    def written(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = input
        if is_recorded(x, (*args, *kwargs.values())) or not is_expanded(x._array):
            return ordinary(x, *args, **kwargs)
        check_writable(name, x, allow_expanded=True)
        warn_expanded(name, example)
        result = function(x, *args, **kwargs)
        key = key_of(x, *args, **kwargs)
        target, at = target_and_key(x, key)
        values, same = target_and_key(result, key)
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
    """Writes `fill_value` on the main diagonal of x, which has two dimensions, or more of equal sizes; with `wrap` the
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
    xp = backend.namespace_on(x.device)
    if check_writable("fill_diagonal_", x, allow_expanded=True):
        chosen = xp.zeros(x.shape, dtypes.bool_)
        _write_diagonal(xp, chosen, True, wrap)
        return record("fill_diagonal_", x, masked_fill, as_tensor(chosen), fill_value)
    fill_value = dtypes.fitting(fill_value, x.dtype)
    bump_version(x)
    _write_diagonal(xp, x._array, fill_value, wrap)
    return x


def _write_diagonal(xp: Any, array: Any, value: Any, wrap: bool) -> None:
    """As np.fill_diagonal, for views of any strides. CuPy's goes by an iterator that loses the sign of -0.0."""
    step = sum(array.strides)
    if wrap and array.ndim == 2:
        rows, columns = array.shape
        turns, rest = divmod(rows, columns + 1)
        turn = (columns + 1) * array.strides[0]
        tail = strided(xp, array[rows - rest :], (min(rest, columns),), (step,))
        views = [strided(xp, array, (turns, columns), (turn, step)), tail]
    else:
        views = [strided(xp, array, (min(array.shape),), (step,))]
    for view in views:
        if view.size:
            view[...] = exact.assignable(value, view)
