"""What a row of the table of NumPy's functions says, and what its functions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import get_default_dtype
from ...core.extend import Tensor
from ..creation.from_data import as_tensor


class Row(NamedTuple):
    """`run` takes NumPy's arguments by their names, those that are honoured; `use` is our function's name."""

    use: str
    run: Callable[..., Any]
    note: str = ""  # how the result differs from NumPy's


Table = dict[str, Row]  # by the name below numpy, such as linalg.norm


def tensor(value: Any) -> Tensor:
    """`value` as a tensor. Numbers and lists get the dtype that NumPy gives them."""
    if isinstance(value, Tensor):
        return value
    return as_tensor(value if backend.is_array(value) else np.asarray(value))


def tensors(values: Iterable[Any]) -> list[Tensor]:
    """The values as tensors; numbers and lists on the device of the first tensor among them."""
    values = list(values)
    home = next((v.device for v in values if isinstance(v, Tensor)), None)
    return [tensor(v) if isinstance(v, Tensor) or backend.is_array(v) else as_tensor(np.asarray(v), device=home)
            for v in values]


def floats(value: Any, dtype: Any = None) -> Tensor:
    """`value` as a tensor of `dtype`; without one integers and bools become the default dtype."""
    a = tensor(value)
    if dtype is not None:
        return a.to(dtype)
    return a if a.is_floating_point() else a.to(get_default_dtype())


def cast(value: Tensor, dtype: Any) -> Tensor:
    return value if dtype is None else value.to(dtype)


def dims(a: Tensor, axis: Any) -> tuple[int, ...]:
    """The dimensions that `axis` names: all for None."""
    if axis is None:
        return tuple(range(a.ndim))
    named = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple([d % a.ndim if -a.ndim <= d < a.ndim else d for d in named])  # the op refuses what is out of range


def flat(a: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """`a` and the dimension to work along: without an axis NumPy flattens."""
    return (a.ravel(), 0) if axis is None else (a, axis)


def chosen(a: Tensor, where: Any, neutral: Any) -> Tensor:
    """`a` with `neutral` in the places that `where` leaves out."""
    return a if where is True else a.where(tensor(where), neutral)
