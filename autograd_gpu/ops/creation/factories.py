"""Factories: tensors from data, and tensors of a given shape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.device import CPU, Device, or_default
from ...backend.arrays.memory_format import is_contiguous_format
from ...core.extend import (
    BROADCASTING,
    RECORD,
    Lifted,
    StorageTensor,
    Tensor,
    alias,
    as_numbers,
    defop,
    public,
    shares_memory,
    wrap,
    wrap_codes,
    wrap_given,
)
from ...random.factories import sizes_of

_NUMBERS = frozenset((bool, int, float))
_PYTHON = _NUMBERS | {list, tuple}


@public()
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, arrays, tensors.

    Python floats become the default dtype (float32), ints int64, bools bool; arrays keep their dtype. Tensors and CuPy
    arrays stay on their device unless `device` says otherwise; other data goes to the default device. TypeError for
    data that is not numeric, ValueError for ragged lists and for arrays with masked elements.

    >>> ag.tensor([[1, 2], [3, 4]], dtype=ag.float32)
    tensor([[1., 2.],
            [3., 4.]])
    """
    result = as_tensor(data, dtype=dtype, device=device)
    if isinstance(result, StorageTensor):
        return wrap_codes(result._array.copy(), result.dtype)
    if isinstance(data, Lifted):
        result = RECORD.clone(result.detach())
    else:
        array = result._array
        result = wrap(array.copy() if _shares(array, data) else array)
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
        return wrap_given(data)
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(device or data.device, dtype or data.dtype)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    result = wrap_given(data if backend.is_array(data) else _from_python(data, wanted))
    if device is None and or_default(None) is CPU and wanted is None and type(result._array) is np.ndarray:
        return result
    home = or_default(device) if device is not None or not result.is_cuda else result.device
    return result.to(home, wanted or result.dtype)


@public()
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`as_tensor`; copy=True always copies, copy=False raises ValueError if memory cannot be shared.

    >>> ag.asarray([1.0, 2.0], dtype=ag.float64)
    tensor([1., 2.], dtype=float64)
    """
    result = as_tensor(obj, dtype, device)
    shares = result is obj if isinstance(obj, Lifted) else _shares(result._array, obj)
    if copy is False and not shares:
        raise ValueError("asarray: sharing memory with the given data is impossible; leave out copy=False")
    if copy and shares and isinstance(obj, Lifted):
        result = RECORD.clone(result.detach())
    elif copy and shares:
        array = result._array.copy()
        result = wrap_codes(array, result.dtype) if isinstance(result, StorageTensor) else wrap(array)
    return result.requires_grad_() if requires_grad else result


def _from_python(data: Any, dtype: np.dtype | None) -> np.ndarray:
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
    if dtype in dtypes.INTEGERS and array.size:
        info = np.iinfo(dtype)
        least = -info.max if info.min == 0 and array.dtype.kind == "i" else info.min  # in two's complement
        if not (array.min() >= least and array.max() <= info.max):  # NaN fails, too
            raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: data from {array.min()} "
                               f"to {array.max()}")
    if dtype is not None:
        return array.astype(dtype) if dtype not in dtypes.STORAGE else array.astype(dtypes.float32)
    if array.dtype == np.float64 and (plain or not (isinstance(data, np.generic) or _holds_float64(data))):
        return array.astype(dtypes.get_default_dtype())
    return array


def _is_plain(data: Any) -> bool:
    """Whether `data` is a Python number or a nested list of Python numbers."""
    if type(data) is not list:
        return type(data) in _NUMBERS
    kinds = set(map(type, data))
    return kinds <= _NUMBERS or (kinds == {list} and all(map(_is_plain, data)))


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
    found: list[Any] = [kinds.get(type(leaf)) or getattr(leaf, "dtype", dtypes.bool_) for leaf in leaves]
    return reduce(dtypes.promote_types, found)


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
def from_dlpack(exporter: Any) -> Tensor:
    """A tensor that shares the memory of any DLPack object: PyTorch, JAX, CuPy and NumPy arrays.

    >>> ag.from_dlpack(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    if isinstance(exporter, Tensor):
        return alias(exporter)
    if isinstance(exporter, np.ndarray):
        return from_numpy(exporter)
    kind, ordinal = exporter.__dlpack_device__()
    on_cpu = int(kind) in (1, 3)  # kDLCPU, kDLCUDAHost
    xp = np if on_cpu else backend.namespace_on(Device("cuda", ordinal))
    array = xp.from_dlpack(exporter)
    return as_tensor(array, device=backend.device_of(array))


def make(name: str, shape: tuple[int, ...], dtype: Any, device: Any, requires_grad: bool, *fill: Any) -> Tensor:
    home = or_default(device)
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if home.type == "cpu" and wanted not in dtypes.STORAGE:
        result = wrap(in_numpy(name, shape, wanted, *fill))
        return result.requires_grad_() if requires_grad else result
    if wanted in dtypes.STORAGE:
        codes = np.asarray({"zeros": 0.0, "empty": 0.0, "ones": 1.0}.get(name, *fill or (0.0,)), wanted).view(np.uint8)
        return wrap_codes(backend.make(home, "full", shape, int(codes), np.uint8), wanted)
    return wrap(backend.make(home, name, shape, *fill, dtype=wanted)).requires_grad_(requires_grad)


def in_numpy(name: str, shape: tuple[int, ...], dtype: np.dtype, fill: Any = 1) -> np.ndarray:
    """np.zeros, np.empty, np.ones and np.full, the last two without NumPy's slow Python wrapper."""
    if name == "zeros":
        return np.zeros(shape, dtype)
    array = np.empty(shape, dtype)
    if name != "empty":
        array.fill(fill)
    return array


@public()
def zeros(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of zeros; the shape as integers or as one tuple.

    >>> ag.zeros(2)
    tensor([0., 0.])
    """
    if out is not None:
        return RECORD.filled(zeros, out, *sizes, size=size, requires_grad=requires_grad)
    return make("zeros", sizes_of(sizes, size), dtype, device, requires_grad)


@public()
def ones(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of ones.

    >>> ag.ones((1, 2))
    tensor([[1., 1.]])
    """
    if out is not None:
        return RECORD.filled(ones, out, *sizes, size=size, requires_grad=requires_grad)
    return make("ones", sizes_of(sizes, size), dtype, device, requires_grad)


@public()
def empty(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor.

    >>> ag.empty(2, 3).shape
    (2, 3)
    """
    if memory_format is not None:
        is_contiguous_format("empty", memory_format)
    if out is not None:
        return RECORD.filled(empty, out, *sizes, size=size, requires_grad=requires_grad)
    return make("empty", sizes_of(sizes, size), dtype, device, requires_grad)


@public()
def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of `fill_value`; the dtype defaults to that of the value.

    >>> ag.full((2,), 7)
    tensor([7, 7])
    """
    if out is not None:
        return RECORD.filled(full, out, size, fill_value, requires_grad=requires_grad)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    inferred = dtype
    if dtype is None:
        inferred = dtypes.get_default_dtype() if type(value) is float else _from_python(value, None).dtype
    value = value if inferred is None else dtypes.fitting(value, dtypes.as_dtype(inferred))
    return make("full", sizes_of((size,)), inferred, device, requires_grad, value)


@public()
def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """start, start + step, ... below `end`; int64 for integers, else the default float dtype.

    >>> ag.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    if out is not None:
        return RECORD.filled(arange, out, start, end, step, requires_grad=requires_grad)
    start, end = (start, end) if start is not None and end is not None else (0, start if end is None else end)
    if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(step, Tensor):
        start, end, step = as_numbers("arange", start=start, end=end, step=step)
    if end is None:
        raise TypeError("arange() missing 1 required argument: end")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
    wanted = dtypes.computing(dtype) if dtype is not None else dtypes.int64 if whole else dtypes.get_default_dtype()
    values = backend.make(or_default(device), "arange", start, end, step)
    return wrap(values.astype(wanted, copy=False)).requires_grad_(requires_grad)


@public()
def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced values from start to end, both included.

    >>> ag.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if out is not None:
        return RECORD.filled(linspace, out, start, end, steps, requires_grad=requires_grad)
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(steps, Tensor):
        start, end, steps = as_numbers("linspace", start=start, end=end, steps=steps)
    _check_steps(steps)
    values = backend.admitted(backend.make(or_default(device), "linspace", start, end, steps))
    return wrap(values.astype(wanted, copy=False)).requires_grad_(requires_grad)


@public()
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """base ** start to base ** end, both included, in `steps` values with evenly spaced exponents.

    >>> ag.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if out is not None:
        return RECORD.filled(logspace, out, start, end, steps, base, requires_grad=requires_grad)
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(steps, Tensor) or isinstance(base, Tensor):
        start, end, steps, base = as_numbers("logspace", start=start, end=end, steps=steps, base=base)
    _check_steps(steps)
    exponents = backend.admitted(backend.make(or_default(device), "linspace", start, end, steps))
    return wrap((float(base) ** exponents).astype(wanted, copy=False)).requires_grad_(requires_grad)


def _check_steps(steps: int) -> None:
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")


@public()
def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The n x m identity matrix.

    >>> ag.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if out is not None:
        return RECORD.filled(eye, out, n, m, requires_grad=requires_grad)
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if isinstance(n, Tensor) or isinstance(m, Tensor):
        n, m = as_numbers("eye", n=n, m=m)
    return wrap(backend.make(or_default(device), "eye", n, m, dtype=wanted)).requires_grad_(requires_grad)


@defop
class constant_like:
    """A tensor of `value` with the shape, dtype and device of x, for rules.

    >>> from autograd_gpu.ops.creation.factories import constant_like
    >>> constant_like(ag.zeros(2), 3.0)
    tensor([3., 3.])
    """

    def forward(xp, x, *, value): return xp.full(x.shape, value, x.dtype)
    nondiff = True
    batch = BROADCASTING
