"""Arrays from shapes, host data and other arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ._access import access, pinned_access, upload
from ._array import Exported, as_array, copied, ndarray, new, supported, viewed
from ._call import call
from ._state import current_device, current_queue


def shape_of(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, ndarray):
        raise TypeError("a shape is made of integers, not of a cupy.ndarray")
    return (operator.index(shape),) if np.ndim(shape) == 0 else tuple(map(operator.index, shape))


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray(shape, dtype, order=order)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _filled(ndarray(shape, dtype, order=order), 0)


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _filled(ndarray(shape, dtype, order=order), 1)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    if dtype is None:
        dtype = fill_value.dtype if isinstance(fill_value, ndarray) else np.array(fill_value).dtype
    return _full(ndarray(shape, dtype, order=order), fill_value)


def _full(array: ndarray, value: Any) -> ndarray:
    """copyto(array, value): a kernel, where fill() would make a zero of either sign by memset."""
    found = as_array(value)
    raw, source = array._a, np.array(value, array.dtype) if found is None else found._a
    accesses = [access(array, True)] if found is None else [access(array, True), access(found, False)]
    current_queue().push(lambda: np.copyto(raw, source, casting="unsafe"), "copy", accesses)
    return array


def _filled(array: ndarray, value: Any) -> ndarray:
    array.fill(value)
    return array


def empty_like(
    prototype: ndarray, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    if subok is not None:
        raise TypeError("subok is not supported yet")
    dtype = supported(prototype.dtype if dtype is None else dtype)
    if shape is not None and shape_of(shape) != prototype.shape:
        return ndarray(shape, dtype, order="C" if order in "KA" else order)
    raw = prototype._a
    dense = raw.flags.c_contiguous and order != "F"
    return new(raw.shape, dtype, None if dense else np.empty_like(raw, dtype=np.bool_, order=order).strides)


def zeros_like(a: ndarray, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return _filled(empty_like(a, dtype, order, subok, shape), 0)


def ones_like(a: ndarray, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return _filled(empty_like(a, dtype, order, subok, shape), 1)


def full_like(
    a: ndarray, fill_value: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    return _full(empty_like(a, dtype, order, subok, shape), fill_value)


def array(
    obj: Any, dtype: Any = None, copy: bool | None = True, order: str | None = "K", subok: bool = False, ndmin: int = 0,
    *, blocking: bool = False,
) -> ndarray:  # fmt: skip
    """A device array from anything; host data is read now, except that in pinned memory."""
    if subok:
        raise NotImplementedError
    order = order or "K"
    found = as_array(obj)
    if found is not None:
        return _with_dimensions(_from_device(found, dtype, copy, order), ndmin)
    if isinstance(obj, (list, tuple)) and _holds_arrays(obj):
        parts = [array(item, copy=None) for item in obj]
        result = call("stack", np.stack, (parts,), {})
        return _with_dimensions(result if dtype is None else result.astype(dtype, order, copy=False), ndmin)
    return _with_dimensions(_from_host(obj, dtype, order, blocking), ndmin)


def _holds_arrays(items: Any) -> bool:
    """Whether the first element of a nested list is a device array."""
    first = items[0] if items else None
    return _holds_arrays(first) if isinstance(first, (list, tuple)) else as_array(first) is not None


def _from_device(source: ndarray, dtype: Any, copy: bool | None, order: str) -> ndarray:
    dtype = source.dtype if dtype is None else np.dtype(dtype)
    if source.data.device_id != current_device():
        source, copy = _from_other_device(source), None
    result = source.astype(dtype, order, copy=bool(copy))
    if copy is False and result is not source:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return result


def _from_other_device(source: ndarray) -> ndarray:
    """A copy between devices: behind the work of the other device's null stream, as a copy over peers is."""
    with source.device:
        here = source if source._a.flags.forc else copied(source, source.dtype)
        event = current_queue().push(lambda: None, "event")
    result = new(here.shape, here.dtype, None if here._a.flags.c_contiguous else
                 tuple(stride // here.itemsize for stride in here.strides))
    current_queue().follow(event)
    result.data.copy_from_device_async(here.data, here.nbytes)
    return result


def _from_host(obj: Any, dtype: Any, order: str, blocking: bool) -> ndarray:
    fortran = order == "F" or (order in "KA" and isinstance(obj, np.ndarray) and obj.flags.fnc)
    host = np.asarray(obj, dtype=dtype, order="F" if fortran else "C")
    result = ndarray(host.shape, host.dtype, order="F" if fortran else "C")
    if not host.ndim:
        result.fill(host)
        return result
    upload(result, host)
    if pinned_access(host, False) is not None:
        current_queue().push(lambda kept=host: None, "end of the copy")  # CuPy, too, holds the source until then
    if blocking:
        current_queue().synchronize()
    return result


def _with_dimensions(a: ndarray, ndmin: int) -> ndarray:
    return a if a.ndim >= ndmin else viewed(a, a._a.reshape((1,) * (ndmin - a.ndim) + a.shape))


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: Any = None, blocking: bool = False
) -> ndarray:
    return array(a, dtype, copy, order, blocking=blocking)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    result = array(a, dtype, None, "C")
    return result if result.ndim else result.reshape(1)


def asfortranarray(a: Any, dtype: Any = None) -> ndarray:
    result = array(a, dtype, None, "F")
    return result if result.ndim else result.reshape(1)


def copy(a: Any, order: str = "K") -> ndarray:
    return array(a, order=order)


def frombuffer(*args: Any, **kwargs: Any) -> ndarray:
    return array(np.frombuffer(*args, **kwargs))


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    found = as_array(a)
    if found is not None:
        return found.get(stream=stream, order=order, out=out, blocking=blocking)
    host = np.asarray(a, order=order)
    if out is None:
        return host
    np.copyto(out, host)
    return out


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    """Another exporter's memory as an array: it has to be one of this package."""
    kind, _ = array.__dlpack_device__()
    if device is not None:
        raise NotImplementedError("from_dlpack() does not support device yet.")
    if int(kind) == 1:
        raise TypeError("CPU arrays cannot be directly imported to CuPy. Use `cupy.array(numpy.from_dlpack(input))` "
                        "instead.")
    exported = array.__dlpack__(stream=current_queue().handle or 1, max_version=(1, 1), copy=copy)
    if not isinstance(exported, Exported):
        raise TypeError(f"Unsupported array type: {int(kind)}")
    return viewed(exported.array, exported.array._a)
