"""The memory layout of arrays: addresses, strides, overlap, and the buffer of a view."""

from __future__ import annotations

from typing import Any

import numpy as np

# A view of a buffer: sizes, strides and offset, in elements.
StridedGeometry = tuple[tuple[int, ...], tuple[int, ...], int]


def address(array: Any) -> int:
    """The address of the first element, in bytes."""
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr


def strided(xp: Any, array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The view of `array` from its first element on with this shape and these strides, in bytes; bounds unchecked.

    NumPy's constructor takes a tenth of the time of np.lib.stride_tricks.as_strided, which makes Python objects.
    """
    if xp is not np:
        return xp.ndarray(shape, array.dtype, array.data, strides)
    if array.flags.c_contiguous and array.dtype.isbuiltin == 1:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def is_expanded(array: Any) -> bool:
    """Whether several elements share an address because a dimension is expanded (stride 0)."""
    if 0 not in array.strides or not array.size:
        return False
    return any(size > 1 for size, stride in zip(array.shape, array.strides, strict=True) if stride == 0)


def owner_of(array: Any) -> Any:
    """The array that owns the memory of `array`; the outermost one for memory of another library."""
    owner = array
    while owner.base is not None:
        base = owner.base
        base = base if isinstance(base, type(array)) else getattr(base, "base", None)  # as_strided's holder
        if not isinstance(base, type(array)):
            break
        owner = base
    return owner


def _memory_of(array: Any) -> Any:
    """The array that owns the memory of `array`, as a vector in its own dtype; RuntimeError if it is not contiguous."""
    return in_order_of_memory(owner_of(array))


def in_order_of_memory(array: Any) -> Any:
    """A dense array as a vector, a view; RuntimeError if it has gaps."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise RuntimeError("the memory behind this tensor has gaps; use .clone() first")
    return array.reshape(-1) if array.flags.c_contiguous else array.T.reshape(-1)


def buffer_of(array: Any) -> Any:
    """The whole buffer of which `array` is a view, as a vector of the same dtype.

    RuntimeError if the array that owns the buffer is not contiguous.
    """
    flat = _memory_of(array)
    if flat.dtype == array.dtype:
        return flat
    flat = flat.view("uint8")
    flat = flat[(address(array) - address(flat)) % array.itemsize :]  # a view may begin inside an element
    return flat[: flat.size // array.itemsize * array.itemsize].view(array.dtype)


def deep_copied(xp: Any, array: Any, memo: dict[Any, Any]) -> Any:
    """A copy of `array` with its strides, in a copy of the whole memory behind it.

    `memo` holds the copies of memory so far, so that the copies of arrays which share memory do so, too.
    """
    if not array.size or min(array.strides, default=0) < 0:
        return array.copy()
    memory = _memory_of(array).view("uint8")
    key = (xp, address(memory))
    if key not in memo:
        memo[key] = memory.copy(), memory  # held, so that its address is not used again meanwhile
    rest = memo[key][0][address(array) - address(memory) :]
    rest = rest[: rest.size // array.itemsize * array.itemsize].view(array.dtype)
    return strided(xp, rest, array.shape, array.strides)


def offset_of(array: Any) -> int:
    """The storage offset of `array`: the number of elements of its buffer before its first element."""
    return (address(array) - address(buffer_of(array))) // array.itemsize


def geometry_of(array: Any, start: int) -> StridedGeometry:
    """Where `array` lies, counted from the address `start` of the first element of one of the same dtype."""
    size, first = array.itemsize, address(array)
    return array.shape, tuple([s // size for s in array.strides]), 0 if first == start else (first - start) // size


def diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """x.diagonal(...), a view that is writable if x is: NumPy returns a read-only one."""
    out = x.diagonal(offset, dim1, dim2)
    if isinstance(out, np.ndarray):
        out.flags.writeable = x.flags.writeable
    return out


def rotated(xp: Any, x: Any, axis: int) -> Any:
    """(y, z, x) for (x, y, z) along `axis`; np.roll takes several times as long as an index."""
    return x.take(_NEXT, axis) if xp is np else xp.roll(x, -1, axis)


_NEXT = np.array([1, 2, 0])


def may_share_memory(a: Any, b: Any) -> bool:
    """Whether two arrays may overlap: NumPy arrays by their bounds, CuPy arrays if they are in one allocation."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)
    x, y = a.data.mem, b.data.mem
    return x is y or x.ptr == y.ptr


def extent(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the one after its last; equal for an empty array."""
    begin = end = address(array)
    if not array.size:
        return begin, end
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            begin += (size - 1) * stride
        else:
            end += (size - 1) * stride
    return begin, end + array.itemsize


def broadcast_to(xp: Any, array: Any, shape: tuple[int, ...]) -> Any:
    """A view of `array` expanded to `shape` with stride 0. ValueError if the shapes do not broadcast.

    Callers must not write to it. For NumPy this takes a third of the time of numpy.broadcast_to (2.4 us), which makes
    an iterator.
    """
    if xp is not np or type(array) is not np.ndarray:
        return xp.broadcast_to(array, shape)
    if array.shape == shape:
        return array
    lead = len(shape) - array.ndim
    strides = [0] * lead
    for size, target, stride in zip(array.shape, shape[lead:], array.strides, strict=True):
        if size != target and size != 1:
            return np.broadcast_to(array, shape)  # raises NumPy's error
        strides.append(stride if size == target else 0)
    if array.flags.c_contiguous and array.dtype.isbuiltin == 1:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    result = np.broadcast_to(array, shape)  # not as_strided, which hides the base of the view
    result.flags.writeable = array.flags.writeable  # as above
    return result
