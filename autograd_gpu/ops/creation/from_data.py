"""Tensors from data: numbers, nested lists, arrays, DLPack objects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dlpack, dtypes
from ...backend.arrays.device import CPU, or_default
from ...core.extend import (
    RECORD,
    Float8Tensor,
    LevelTensor,
    Tensor,
    alias,
    made_inside,
    public,
    refuse_traced,
    shares_memory,
    wrap,
    wrap_codes,
    wrap_given,
)
from ...modes import MODES

_NUMBERS = frozenset((bool, int, float))
_SEQUENCES = frozenset((list, tuple))
_PYTHON = _NUMBERS | _SEQUENCES


@public()
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, arrays, tensors.

    Python floats become the default dtype (float32), ints int64, bools bool; arrays keep their dtype. Tensors and CuPy
    arrays stay on their device unless `device` says otherwise; other data goes to the default device. TypeError for
    data that is not numeric, ValueError for ragged lists and for arrays with masked elements.

    >>> ag.tensor([[1, 2], [3, 4]], dtype=ag.float32)
    tensor([[1., 2.],
            [3., 4.]])
    """
    if pin_memory:
        return tensor(data, dtype=dtype, device=device).pin_memory().requires_grad_(requires_grad)
    result = as_tensor(data, dtype=dtype, device=device)
    if isinstance(result, Float8Tensor):
        return wrap_codes(result._array.copy(), result.dtype)
    if isinstance(data, LevelTensor):
        result = RECORD.clone(result.detach())
    else:
        if type(data) not in _PYTHON and MODES.stack:
            refuse_traced("ag.tensor copies the values of an array", "make the tensor outside of the function")
        array = result._every_value()
        result = made_inside(wrap(array.copy() if _shares(array, data) else array))
    return result.requires_grad_() if requires_grad else result


def _shares(array: Any, data: Any) -> bool:
    """Whether `array` shares the memory of `data`: a tensor, an array, or another library's array on the host."""
    if type(data) in _PYTHON:
        return False
    source = data._array if isinstance(data, Tensor) else data
    if not backend.is_array(source):
        if not hasattr(source, "__array__"):
            return False
        source = np.asarray(source)
    return array is source or shares_memory(array, source) or backend.may_share_memory(array, source)


@public()
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory with an array of the wanted dtype and device.

    The array may be a view, also of a file (`np.memmap`); writes to a tensor of read-only memory raise.

    >>> a = np.zeros(2)
    >>> ag.as_tensor(a).array is a
    True
    """
    if type(data) is np.ndarray and dtype is None and device is None and or_default(None) is CPU:
        return made_inside(wrap_given(data))
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(device or data.device, dtype or data.dtype)
    target = None if dtype is None else dtypes.as_dtype(dtype)
    result = made_inside(wrap_given(data if backend.is_array(data) else from_python(data, target)))
    fits = target is None or (type(result) is Tensor and result._array.dtype is target)
    if fits and device is None and type(result._array) is np.ndarray and or_default(None) is CPU:
        return result
    home = or_default(device) if device is not None or result.device == CPU else result.device
    return result.to(home, target or result.dtype)


@public()
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`as_tensor`; copy=True always copies, copy=False raises ValueError if memory cannot be shared.

    >>> ag.asarray([1.0, 2.0], dtype=ag.float64)
    tensor([1., 2.], dtype=float64)
    """
    result = as_tensor(obj, dtype, device)
    shares = result is obj if isinstance(obj, LevelTensor) else _shares(result._every_value(), obj)
    if copy is False and not shares:
        raise ValueError("asarray: sharing memory with the given data is impossible; leave out copy=False")
    if copy and shares and isinstance(obj, LevelTensor):
        result = RECORD.clone(result.detach())
    elif copy and shares:
        array = result._every_value().copy()
        result = wrap_codes(array, result.dtype) if isinstance(result, Float8Tensor) else made_inside(wrap(array))
    return result.requires_grad_() if requires_grad else result


def from_python(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """Numbers and nested sequences as an array, with PyTorch's default dtypes."""
    plain = _is_plain(data)
    if not plain and isinstance(data, (list, tuple)):
        dtype = dtype or _promoted(data)
        data = [_plain(item) for item in data]
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"expected a rectangular sequence of numbers: {error}") from error
    if array.dtype == object or array.dtype.kind in "USOcM":
        raise TypeError(f"could not infer a numeric dtype of {type(data).__name__}; got elements like {data!r:.60}")
    if array.dtype is dtype:
        return array
    if dtype == dtypes.uint64 and plain and array.dtype == np.float64 and np.max(array, initial=0.0) >= 2**63:
        array = np.asarray(data, object)  # exact, where NumPy's common dtype of 1 and 2 ** 63 is float64
    if dtype in dtypes.INTEGERS and array.size:
        info = np.iinfo(dtype)
        least = -info.max if info.min == 0 and array.dtype.kind == "i" else info.min  # in two's complement
        values = array.astype(np.float64) if array.dtype == np.float16 else array  # which info.max overflows
        smallest, largest = np.min(values), np.max(values)
        if not (smallest >= least and largest <= info.max):  # NaN fails, too
            raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: data from {smallest} "
                               f"to {largest}")
    if dtype is not None:
        return array.astype(dtype) if dtype not in dtypes.STORAGE else array.astype(dtypes.float32)
    if array.dtype == np.float64 and (plain or not (isinstance(data, np.generic) or _holds_float64(data))):
        return array.astype(dtypes.get_default_dtype())
    return array


def _is_plain(data: Any) -> bool:
    """Whether `data` is a Python number, or nested lists and tuples of them."""
    if type(data) not in _SEQUENCES:
        return type(data) in _NUMBERS
    kinds = set(map(type, data))
    return kinds <= _NUMBERS or (kinds <= _SEQUENCES and all(map(_is_plain, data)))


def _plain(item: Any) -> Any:
    if isinstance(item, Tensor):
        if item.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars; join tensors by ag.stack or "
                             f"ag.cat, this one has shape {list(item.shape)}")
        return item.item()
    if isinstance(item, np.ndarray):
        return backend.admitted(item)
    return [_plain(x) for x in item] if isinstance(item, (list, tuple)) else item


def _promoted(data: Any) -> np.dtype | None:
    """The dtype of nested data that contains tensors, which count like arrays; None without tensors."""
    leaves = list(_leaves(data))
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        return None
    kinds = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.get_default_dtype()}
    leaf_dtypes: list[Any] = [kinds.get(type(leaf)) or getattr(leaf, "dtype", dtypes.bool_) for leaf in leaves]
    return reduce(dtypes.promote_types, leaf_dtypes)


def _leaves(data: Any) -> Iterator[Any]:
    for item in data:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item


def _holds_float64(data: Any) -> bool:
    """Whether nested data contains NumPy float64 arrays or scalars, which keep their precision."""
    if isinstance(data, (list, tuple)):
        return any(map(_holds_float64, data))
    return isinstance(data, (np.ndarray, np.generic)) and data.dtype == np.float64


@public()
def from_numpy(array: np.ndarray) -> Tensor:
    """A CPU tensor that shares the memory of a NumPy array.

    >>> ag.from_numpy(np.arange(3.0))
    tensor([0., 1., 2.], dtype=float64)
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return as_tensor(array, device=CPU)


@public()
def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A CPU tensor of one dimension that shares the memory of an object with the buffer protocol, such as bytes.

    `count` elements of `dtype` from byte `offset` on; -1 takes all. Memory of bytes is read-only: writing to the tensor
    raises. ValueError if the buffer is too short, empty, or no whole number of elements.

    >>> ag.frombuffer(bytes([1, 0, 2, 0]), dtype=ag.int16)
    tensor([1, 2], dtype=int16)
    """
    array = np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset)
    if not array.size:
        raise ValueError(f"frombuffer: no element of {array.dtype} in {len(memoryview(buffer).cast('B'))} bytes from "
                         f"offset {offset} on with count={count}")
    return as_tensor(array, device=CPU).requires_grad_(requires_grad)


@public()
def from_dlpack(exporter: Any) -> Tensor:
    """A tensor that shares the memory of any DLPack object: PyTorch, JAX, CuPy and NumPy arrays.

    On CUDA the current stream waits for the exporter's. Memory that the exporter calls read-only, and JAX's, cannot be
    written. TypeError for bfloat16 and float8, which come as integers, and for complex numbers.

    >>> ag.from_dlpack(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    if isinstance(exporter, Tensor):
        return alias(exporter)
    if isinstance(exporter, np.ndarray):
        return from_numpy(exporter)
    if not hasattr(exporter, "__dlpack__"):
        raise TypeError(f"from_dlpack: expected an array of a library with DLPack, got {type(exporter).__name__}; "
                        "ag.as_tensor takes arrays and lists")
    array = dlpack.imported(exporter)
    return as_tensor(array, device=backend.device_of(array))
