"""The arguments of the functions in ag.foreach, as the list input and `columns` of a list op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backend import is_array
from ...backend.arrays.dtypes import FLOATS
from ...backend.arrays.placement import on_one_device
from ...core.extend import Float8Tensor, OpDef, Parameter, Tensor, as_number, matched, wrap_given
from ..creation.from_data import as_tensor
from .columns import LIST, Columns, Each, elements

_NUMBERS = (bool, int, float, np.number)


class ListCall(NamedTuple):
    """A call of the list op of `op`, the op on one tensor."""

    op: OpDef
    tensors: list[Tensor]
    columns: Columns


def listed(name: str, input: Any) -> list[Tensor]:
    """The tensors of the first list; an error if it is none, or empty."""
    if isinstance(input, Tensor) or not isinstance(input, Sequence):
        kind = type(input).__name__
        raise TypeError(f"foreach.{name}(): expected a list or tuple of Tensors, not {kind}; "
                        f"put it into a list, foreach.{name}([x], ...)")
    if not input:
        raise RuntimeError(f"foreach.{name}(): Tensor list must have at least one tensor.")
    return _tensors(name, input)


def _tensors(name: str, values: Sequence[Any]) -> list[Tensor]:
    if not [x for x in values if type(x) is not Tensor and type(x) is not Parameter]:
        return list(values)
    wrapped = [wrap_given(x) if is_array(x) else x for x in values]
    for i, x in enumerate(wrapped):
        if not isinstance(x, Tensor):
            raise TypeError(f"foreach.{name}(): expected a list of Tensors, but element {i} is {type(x).__name__}")
    return wrapped


def column(name: str, value: Any, n: int, tensor: bool = False) -> tuple[Any, list[Tensor]]:
    """An argument beside a list of n tensors: its entry in `columns`, and its tensors.

    A number, a list of n numbers, a list of n tensors, or a 0-d tensor: for all elements with `tensor`, else a number.
    """
    if isinstance(value, _NUMBERS):
        return _plain(value), []
    if isinstance(value, Tensor):
        if not tensor and (value.ndim or value.requires_grad):
            raise TypeError(f"foreach.{name}(): expected a number or a list, not a Tensor, except one of 0 dimensions "
                            "that does not require grad; use a list of Tensors")
        if value.ndim:
            raise RuntimeError(f"foreach.{name}(): scalar tensor expected to be 0 dim but it has {value.ndim} "
                               f"dimensions and {value.numel()} elements.")
        return (LIST, [value] * n) if tensor else (as_number(f"foreach.{name}", "other", value), [])
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(f"foreach.{name}(): expected a number, a list of numbers or a list of Tensors, "
                        f"not {type(value).__name__}")
    if value and all(isinstance(item, _NUMBERS) for item in value):
        return numbers(name, value, n), []
    return LIST, tensors(name, value, n)


def tensors(name: str, value: Any, n: int) -> list[Tensor]:
    """A further list of n tensors."""
    values = listed(name, value) if not isinstance(value, Sequence) else _tensors(name, value)
    if len(values) != n:
        raise RuntimeError(f"foreach.{name}(): Tensor lists must have the same number of tensors, got {n} and "
                           f"{len(values)}")
    return values


def numbers(name: str, values: Sequence[Any], n: int) -> Each:
    """A list of n numbers."""
    if len(values) != n:
        raise RuntimeError(f"foreach.{name}(): Tensor list must have same number of elements as scalar list, got {n} "
                           f"and {len(values)}")
    return Each(map(_plain, values))


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, np.generic) else number


def prepared(call: ListCall) -> ListCall:
    """Promotes each element for itself, as the op on one tensor does, by recorded casts."""
    op, tensors, columns = call
    if _uniform(tensors):
        return call
    count = len(op.inputs)
    rows = []
    for values in elements(columns, tensors):
        if any(isinstance(x, Float8Tensor) for x in values):
            raise TypeError(f"foreach.{op.name}(): float8 is a storage dtype and has no arithmetic; convert with "
                            ".to(ag.float32) first")
        rows.append(matched(op, values[:count]))
    promoted, changed = [], list(columns)
    for k in range(count):
        inputs = [row[k] for row in rows]
        if any(isinstance(x, Tensor) for x in inputs):  # a number beside integers may have become one
            changed[k] = LIST
            likes = [next(x for x in row if isinstance(x, Tensor)) for row in rows]
            promoted += [x if isinstance(x, Tensor) else as_tensor(x, like.dtype, like.device)
                      for x, like in zip(inputs, likes, strict=True)]
    return ListCall(op, promoted, tuple(changed))


def _uniform(tensors: list[Tensor]) -> bool:
    """Whether all are on one device and of one float dtype, so that nothing is to be promoted."""
    arrays = [x._array for x in tensors]
    dtype = arrays[0].dtype
    return dtype in FLOATS and not [x for x in arrays if x.dtype is not dtype] and on_one_device(arrays)
