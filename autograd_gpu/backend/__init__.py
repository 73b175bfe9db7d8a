"""Arrays and devices. This layer knows no Tensor; the rest of the package reaches NumPy and CuPy through it."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import counters, kernels
from .arrays.admission import admitted as admitted
from .arrays.admission import is_read_only as is_read_only
from .arrays.device import CPU, Device
from .arrays.dtypes import FLOATS, FULL_FLOATS, wide
from .cpu import floating_point, lapack, numpy_ops, pool, sums
from .cpu import matmul as products
from .cuda import cublas, cusolver, exact, runtime
from .cuda import sums as device_sums

Array = Any  # numpy.ndarray or cupy.ndarray; CuPy ships no complete type stubs
floating_point.hide_warnings()


def is_cuda(array: Any) -> bool:
    """Whether `array` is a CuPy array."""
    module = runtime.loaded()
    return module is not None and isinstance(array, module.ndarray)


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_cuda(value)


def namespace(*arrays: Any) -> Any:
    """numpy, or cupy if any of `arrays` lives there; numbers and NumPy scalars go with either."""
    module = runtime.loaded()
    if module is not None:
        for array in arrays:
            if isinstance(array, module.ndarray):
                return module
    return np


def namespace_on(device: Device) -> Any:
    """The module whose arrays live on `device`."""
    return np if device.type == "cpu" else runtime.require_device(device.index or 0)


def resolve(device: Device) -> Device:
    """`device` with its number: "cuda" is the one that is current now."""
    return Device("cuda", runtime.device_index()) if device.type == "cuda" and device.index is None else device


def make(device: Device, function: str, *args: Any, **kwargs: Any) -> Any:
    """What the array module's `function` makes, on `device`."""
    if device.type == "cpu":
        return getattr(np, function)(*args, **kwargs)
    with runtime.cupy_device(device):
        return getattr(runtime.cupy(), function)(*args, **kwargs)


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An unset array; on the CPU a large one reuses memory (pool.py), as CuPy's arrays do by CuPy's own pool."""
    return pool.empty(shape, dtype) if xp is np else xp.empty(shape, dtype)


def constant(xp: Any, value: float, dtype: Any) -> Any:
    """A number for a ufunc beside arrays of `dtype`: on the CPU a 0-d array, which it takes in half the time."""
    return numpy_ops.constant(value, dtype) if xp is np else value


def device_of(array: Any) -> Device:
    if type(array) is np.ndarray:
        return CPU
    return Device("cuda", array.device.id) if is_cuda(array) else CPU


def to_device(array: Any, device: Device) -> Any:
    """`array` on `device`: itself if it lives there, else a copy."""
    if is_cuda(array):
        to_host = device.type == "cpu"
        return runtime.to_host(array) if to_host else runtime.to_device(array, runtime.device_index(device))
    return array if device.type == "cpu" else runtime.from_host(array, runtime.device_index(device))


def to_numpy(array: Any) -> np.ndarray:
    return to_device(array, CPU)


def where(xp: Any, mask: Any, a: Any, b: Any) -> Any:
    """xp.where(mask, a, b), in their dtype: CuPy's has no bfloat16, NumPy's is slow where large."""
    if xp is not np:
        return exact.where(mask, a, b)
    many = type(mask) is np.ndarray and mask.size >= numpy_ops.MANY_CHOICES
    return numpy_ops.where(mask, a, b) if many else np.where(mask, a, b)


def matmul(a: Any, b: Any) -> Any:
    """a @ b for arrays of two dimensions or more: (..., m, k) @ (..., k, n) -> (..., m, n), counted.

    Where one operand is shared, its partner's batch is folded into the rows: one product instead of one per matrix.
    """
    tiny = type(a) is np.ndarray and a.ndim == 2 == b.ndim and a.size * b.shape[1] < products.TINY
    if tiny and a.dtype is b.dtype and a.itemsize > 2 and not counters.ACTIVE:
        return a.dot(b)
    if a.dtype is not b.dtype:  # a float32 gradient of a half-precision product
        common = np.promote_types(a.dtype, b.dtype)
        a, b = a.astype(common, copy=False), b.astype(common, copy=False)
    return products.matmul(a, b) if type(a) is np.ndarray else cublas.matmul(a, b)


def dot(a: Any, b: Any) -> Any:
    """a @ b for a vector b and a vector or a matrix a of one dtype, counted."""
    if type(a) is np.ndarray and a.itemsize > 2 and a.size < products.TINY and not counters.ACTIVE:
        return a.dot(b)
    out = matmul(a if a.ndim > 1 else a[None], b[:, None])[..., 0]
    return out if a.ndim > 1 else out[0]


def add_matmul(into: Any, a: Any, b: Any) -> None:
    """into += a @ b for matrices. On CUDA one launch, without an array for the product, unless they share memory."""
    alike = type(into) is not np.ndarray and into.dtype == a.dtype == b.dtype and into.dtype in FLOATS
    if alike and into.flags.c_contiguous and not (may_share_memory(into, a) or may_share_memory(into, b)):
        cublas.gemm(a, b, into, accumulate=True)
    else:
        into += matmul(a, b).astype(into.dtype, copy=False)


def may_share_memory(a: Any, b: Any) -> bool:
    """Whether two arrays may overlap: NumPy arrays by their bounds, CuPy arrays if they lie in one allocation."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)
    x, y = a.data.mem, b.data.mem
    return x is y or x.ptr == y.ptr


def special(xp: Any) -> Any:
    """scipy.special for NumPy, cupyx.scipy.special for CuPy."""
    return numpy_ops.special() if xp is np else runtime.special()


def decompositions(xp: Any) -> Any:
    """cpu.lapack for NumPy, cuda.cusolver for CuPy: the same functions."""
    return lapack if xp is np else cusolver


def broadcast_to(xp: Any, array: Any, shape: tuple[int, ...]) -> Any:
    """A read-only-by-convention view of `array` stretched to `shape` by zero strides.

    For NumPy three times faster than numpy.broadcast_to (2.4 us), which goes through an iterator.
    """
    if xp is not np or type(array) is not np.ndarray:
        return xp.broadcast_to(array, shape)
    if array.shape == shape:
        return array
    lead = len(shape) - array.ndim
    strides = [0] * lead
    for size, wanted, stride in zip(array.shape, shape[lead:], array.strides, strict=True):
        if size != wanted and size != 1:
            return np.broadcast_to(array, shape)  # raises, with NumPy's text
        strides.append(stride if size == wanted else 0)
    if array.flags.c_contiguous and array.dtype.isbuiltin == 1:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    result = np.broadcast_to(array, shape)  # not as_strided, which hides whose view this is
    result.flags.writeable = array.flags.writeable  # as above
    return result


def total(xp: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of float32 or float64 over `axis` (None, an int in range, or ints), with a small rounding error.

    Not xp.sum, nor x.sum: what they add along a leading dimension is wrong by 1 % for a million float32 terms.
    """
    return sums.total(x, axis, keepdims) if xp is np else device_sums.total(xp, x, axis, keepdims)


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sums `array` over the dimensions that broadcasting from `shape` added or stretched."""
    dtype = array.dtype
    if array.ndim == 2 and len(shape) == 1 and shape[0] == array.shape[1]:  # a bias gradient
        if type(array) is np.ndarray and dtype in FULL_FLOATS:
            return sums.total(array, 0)
        if dtype in FLOATS and is_cuda(array):
            return kernels.column_sum(kernels.contiguous(array))
    lead = array.ndim - len(shape)
    axes = (*range(lead), *[i for i, size in enumerate(shape, lead) if size == 1 and array.shape[i] != 1])
    if not axes:
        return array
    if type(array) is np.ndarray and dtype in FULL_FLOATS:
        return sums.total(array, axes if len(axes) < array.ndim else None).reshape(shape)
    if dtype not in FLOATS:
        return array.sum(axis=axes, dtype=dtype).reshape(shape)
    wider = array.astype(wide(dtype), copy=False)  # 4000 ones of float16 would add up to 2048
    return total(namespace(array), wider, axes).reshape(shape).astype(dtype, copy=False)
