"""Elements selected by a bool tensor: masked_fill, masked_select, masked_scatter, where with one argument."""

from __future__ import annotations

from typing import Any

from ... import backend
from ...backend.arrays.dtypes import bool_, fitting
from ...core.extend import (
    LINEAR,
    RECORD,
    Tensor,
    defop,
    every_value,
    is_batched,
    method,
    public,
    rank,
    refuse_batched,
)
from ..elementwise.arithmetic import where as choice
from ..shape.reshape import common_shape, expand, reshape
from ..sorting.sort import nonzero
from .basic_index import basic_index
from .index import advanced_index
from .index_put import advanced_set, filled


def _check_fill(mask, value, several=False):
    """Checks the mask and value of a batched masked_fill; `several`: value has one element per sample."""
    if mask.dtype != bool_:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}")
    if hasattr(value, "dtype") and (ndim := rank(value, several)):
        raise RuntimeError("masked_fill only supports a 0-dimensional value tensor, but got tensor with "
                           f"{ndim} dimension(s)")


def _masked_fill_batch(F, n, batched, x, mask, value):
    _check_fill(mask, value, batched[2])
    return filled(F, batched, x, mask, value)


def _masked_fill(xp, x, mask, value):
    _check_fill(mask, value)
    if hasattr(value, "dtype"):
        value = value.astype(x.dtype)
    elif type(value) is int:
        value = fitting(value, x.dtype)
    return backend.where(xp, mask, value, x).astype(x.dtype, copy=False)


def _masked_value_back(F, g, mask, value_dtype):
    g = F.where(mask, g, 0.0)
    return g if g.dtype == value_dtype else F.cast(g, value_dtype)


@defop
class masked_fill:
    """x with `value`, a number or 0-d tensor, where `mask` is True, in x's dtype; mask and x broadcast.

    >>> ag.masked_fill(ag.tensor([1.0, 2.0]), ag.tensor([True, False]), 0.0)
    tensor([0., 2.])
    """

    forward = _masked_fill
    def grad_x(F, g, mask): return F.where(mask, 0.0, g)
    grad_value = _masked_value_back
    jvp, batch = LINEAR, _masked_fill_batch
    integral, broadcasts, numbers = ("mask",), True, True
    scalars = ("value",)
    takes_out = False
    public = methods = True


def expanded_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x expanded to this shape; x itself if it has it."""
    return x if x._array.shape == shape else expand(x, shape)


@public(methods=True, out=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of input where `mask` is True, as a vector; mask and input broadcast.

    >>> ag.masked_select(ag.tensor([1.0, 2.0, 3.0]), ag.tensor([True, False, True]))
    tensor([1., 3.])
    """
    if mask.dtype != bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    refuse_batched("masked_select", mask, "use ag.where")
    shape = common_shape("masked_select", input.shape, mask.shape)
    return advanced_index(expanded_to(input, shape), expanded_to(mask, shape), dims=(-len(shape),))


@public(methods=True, inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of input with consecutive elements of `source` where `mask` is True; both broadcast.

    `source` has the dtype of input and at least as many elements as the mask has True ones.

    >>> ag.masked_scatter(ag.zeros(3), ag.tensor([True, False, True]), ag.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 2.])
    """
    if mask.dtype != bool_:
        raise RuntimeError(f"masked_scatter only supports boolean masks, but got mask with dtype {mask.dtype}")
    if source.dtype != input.dtype:
        raise RuntimeError(f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and "
                           f"{source.dtype}")
    shape = common_shape("masked_scatter", input.shape, mask.shape)
    mask = expanded_to(mask, shape)
    differs = is_batched(mask)
    counts = every_value(RECORD.sum(reshape(mask, (-1,)), 0))
    count = int(counts.max()) if counts.size else 0
    if count > source.numel():
        raise RuntimeError("masked_scatter: Number of elements of source < number of ones in mask: "
                           f"{source.numel()} < {count}")
    flat = reshape(source, (-1,))
    if differs and not source.numel():
        return RECORD.clone(expanded_to(input, shape))
    if differs:
        order = RECORD.cumsum(reshape(mask, (-1,)), 0) - 1  # -1 before the first True, where nothing is taken
        return choice(mask, advanced_index(flat, reshape(order, shape), dims=(-1,)), input)
    values = basic_index(flat, slice(count))
    return advanced_set(expanded_to(input, shape), values, mask, dims=(-len(shape),))


@public(out=True)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the bool tensor `condition` is True, else other; all three broadcast, and input and other may be
    numbers. The gradient of the branch not taken is zero. With `condition` alone: nonzero(condition, as_tuple=True).

    >>> ag.where(ag.tensor([True, False]), ag.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    >>> ag.where(ag.tensor([False, True]))
    (tensor([1]),)
    """
    if type(condition) is Tensor and condition._array.dtype is bool_ and input is not None:
        return choice(condition, input, other)
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    dtype = getattr(condition, "dtype", bool_)
    if dtype != bool_:
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype}")
    return choice(condition, input, other)


@method("where")
def where_method(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """x where the bool tensor `condition` is True, else `other`, see ag.where."""
    return where(condition, x, other)
