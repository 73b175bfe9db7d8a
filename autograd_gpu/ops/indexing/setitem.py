"""x[key] = value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays import strides
from ...backend.arrays.dtypes import fitting
from ...backend.cuda import exact
from ...core.extend import Float8Tensor, Tensor, bump_version, wrap
from ..creation.from_data import as_tensor
from ..inplace.record import announce, check_writable, is_recorded, record, refuse_stretched
from ..inplace.write import copy_, put
from ..shape.reshape import broadcast_to, reshape
from .index import BASIC, MOST, advanced_key, flat_index_of, index_error_text, key_part, leads, split_key
from .index_put import advanced_set


def target_and_key(x: Tensor, key: Any) -> tuple[Any, Any]:
    """An array and a key with x[key] = array[key], by the rules of `getitem`: x[0, :, i] is x[0][:, i]."""
    if type(key) is Tensor and leads(x._array, key._array):
        return x._array, key._array
    parts: Any = key if type(key) is tuple else (key,)
    if BASIC.issuperset(map(type, parts)):
        return x._array, parts
    parts = [key_part(x, part) for part in parts]
    if not any(isinstance(part, Tensor) for part in parts):
        return x._array, tuple(parts)
    view, indices, dims = split_key(wrap(x._array), parts)
    return view._array, advanced_key(view.ndim, dims, [index._array for index in indices])


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value: a tensor that broadcasts to x[index], or a number."""
    recorded = is_recorded(x, (value,))
    if not recorded and x._storage is not None:  # else the view that is written to is checked
        announce(x._storage)
    if isinstance(x, Float8Tensor) and not isinstance(value, Tensor):
        value = as_tensor(value).to(x.device, x.dtype)
    if value is None or isinstance(value, str):
        raise TypeError(f"can't assign a {type(value).__name__} to a tensor")
    shape = getattr(value, "shape", None)
    if shape and shape[0] == 1:
        value = _without_leading_ones(value)
    array = value._array if isinstance(value, Tensor) else backend.admitted(value) if backend.is_array(value) else value
    if type(array) is np.ndarray is type(x._array):
        pass
    elif backend.is_array(array) and backend.device_of(array) != x.device:
        if array.ndim:
            raise errors.mixed_devices("setitem", [str(x.device), str(backend.device_of(array))])
        array = array.item()
    if isinstance(x, Float8Tensor) != isinstance(value, Float8Tensor):
        raise TypeError("setitem: convert the value to the tensor's dtype first, a float8 dtype has no implicit casts")
    try:
        if recorded:
            _record_assignment(x, index, value)
            return
        target, key = target_and_key(x, index)
        if 0 in target.strides:
            _check_stretched(target, key)
        _assign(x, target, key, array)
    except IndexError as error:
        raise IndexError(index_error_text(str(error), x.ndim)) from None
    except ValueError as error:
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(np.shape(array))} cannot be broadcast to "
                           f"indexing result of shape {list(x[index].shape)}") from error


def _without_leading_ones(value: Any) -> Any:
    """`value` without leading dimensions of size 1, which NumPy does not accept for a mask or a single element."""
    shape = value.shape[next((d for d, n in enumerate(value.shape) if n != 1), value.ndim):]
    return reshape(value, shape) if isinstance(value, Tensor) else value.reshape(shape)


def _assign(x: Tensor, target: Any, key: Any, array: Any) -> None:
    """target[key] = array in x's memory; raises before anything is written."""
    array = fitting(array, target.dtype) if type(array) is int else array
    array, written = exact.assignable(array, target, key), True
    try:
        target[key] = array
    except (IndexError, ValueError):
        written = False
        raise
    finally:
        if written:
            bump_version(x)


def _check_stretched(target: Any, key: Any) -> None:
    """RuntimeError for a write to overlapping elements of an expanded tensor."""
    parts = key if type(key) is tuple else (key,)
    if BASIC.issuperset(map(type, parts)):
        refuse_stretched("x[index] = value", target[(*parts, ...) if Ellipsis not in parts else parts])
    elif strides.is_expanded(target):
        warn_expanded("index_put_", "tensor[indices] = tensor")


def warn_expanded(name: str, example: str) -> None:
    """PyTorch's warning about a write by indices or a mask to an expanded tensor, at the line of the user's call."""
    errors.warn_user(f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing "
                     f"this operation. This also applies to advanced indexing e.g. {example}")


def _record_assignment(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value as an in-place operation on the view of x by the basic parts of the key."""
    parts = [key_part(x, part) for part in (index if type(index) is tuple else (index,))]
    if not any(isinstance(part, Tensor) for part in parts):
        view = x if parts == [...] else x[tuple(parts)]
        if isinstance(value, (bool, int, float)):
            put(view, value, check_writable("x[index] = value", view))
        else:
            copy_(view, _as_values(x, value))
        return
    view, indices, dims = split_key(x, parts)
    values = _as_values(x, value)
    check_writable("x[index] = value", view, values)
    record("x[index] = value", view, _assigned, values, indices, dims)


def _as_values(x: Tensor, value: Any) -> Tensor:
    return value.to(x.device, x.dtype) if isinstance(value, Tensor) else as_tensor(value, x.dtype, x.device)


def _assigned(view: Tensor, values: Tensor, indices: list[Tensor], dims: tuple[int, ...]) -> Tensor:
    if len(indices) <= MOST:
        return advanced_set(view, values, *indices, dims=dims)
    numbers = flat_index_of(view, indices, dims)
    values = broadcast_to(values, numbers.shape)
    return reshape(advanced_set(reshape(view, (-1,)), values, numbers, dims=(-1,)), view.shape)
