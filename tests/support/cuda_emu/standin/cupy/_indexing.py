"""x[key], x[key] = value and scattering. As in CuPy, integers in arrays that are out of range wrap around silently.

What CUDA leaves undefined: which of several values for one element stays (here the order goes by the schedule), and a
value that overlaps the elements written, by a key with arrays or by memcpy (here a HazardError).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._access import access, check_device, refuse_overlap
from ._array import as_array, copied, ndarray, new, viewed
from ._call import call, change, to_device, wait_for
from ._creation import array
from ._emulation import SETTINGS
from ._rules import by_arrays
from ._state import current_queue

_TOO_MANY = "too many indices for array: array is {}-dimensional, but {} were indexed"


def getitem(self: ndarray, slices: Any) -> ndarray:
    parts = prepare(slices)
    if not any(type(part) is ndarray for part in parts):
        return viewed(self, basic(self._a, parts))
    check_device(self)
    parts = without_masks(self, parts)
    shape = _shape(self, parts)
    out = new(shape, self.dtype)
    raw, target, raws = self._a, out._a, _views(parts)
    sizes = _sizes(raw, parts)
    run = _Taking(raw, target, raws, sizes)
    accesses = [access(out, True), access(self, False), *_reads(parts)]
    current_queue().push(run, "indexing", accesses, by_arrays(len(accesses) - 2))
    return out


class _Taking:
    """Takes by an index at last, wrapped around."""

    def __init__(self, raw: np.ndarray, target: np.ndarray, parts: tuple, sizes: list) -> None:
        self.raw, self.target, self.parts, self.sizes = raw, target, parts, sizes

    def __call__(self) -> None:
        self.target[...] = self.raw[wrapped(self.parts, self.sizes)]


def setitem(self: ndarray, slices: Any, value: Any) -> None:
    parts = prepare(slices)
    if not any(type(part) is ndarray for part in parts):
        _assign(viewed(self, basic(self._a, parts)), value)
        return
    check_device(self)
    parts = without_masks(self, parts)
    shape = _shape(self, parts)
    value = _value(self, value, shape)
    refuse_overlap("x[indices] = value", self, value)
    raw, source, raws, sizes = self._a, value._a, _views(parts), _sizes(self._a, parts)
    order = _order_of_threads()

    def run() -> None:
        target, places, values = _scattered(raw, source, wrapped(raws, sizes), order)
        target[places] = values

    accesses = [access(self, True), access(value, False), *_reads(parts)]
    current_queue().push(run, "assignment", accesses, by_arrays(len(accesses) - 2))


def _assign(target: ndarray, value: Any) -> None:
    source = as_array(value)
    if source is None:
        target.fill(value)
        return
    check_device(target)
    check_device(source)
    raw, values = target._a, _squeezed(source)._a
    try:
        np.broadcast_to(values, raw.shape)
    except ValueError:
        raise ValueError(f"could not broadcast input array from shape {values.shape} into shape {raw.shape}") from None
    alike = (values.shape, values.strides) == (raw.shape, raw.strides)
    itself = alike and source.data.ptr == target.data.ptr
    if alike and not itself and raw.flags.c_contiguous and values.dtype == raw.dtype:  # a memcpy; others copy first
        refuse_overlap("x[...] = y", target, source)
    accesses = [access(target, True), access(source, False)]
    current_queue().push(
        lambda: np.copyto(raw, values, casting="unsafe"), "assignment", accesses, 0 if itself else 1
    )


def scatter(self: ndarray, key: Any, value: Any, function: Any, dtypes: str) -> None:
    """self[key] op= value, every index counting as often as it occurs."""
    parts = prepare(key)
    if not any(type(part) is ndarray for part in parts):
        target = viewed(self, basic(self._a, parts))
        function(target, value, target)
        return
    if self.dtype.char not in dtypes:
        listed = ", ".join(dict.fromkeys(np.dtype(char).name for char in dtypes))
        raise TypeError(f"cupy.{function.__name__}.at only supports {listed} as data type")
    check_device(self)
    parts = without_masks(self, parts)
    value = _value(self, value, _shape(self, parts))
    refuse_overlap(f"{function.__name__}.at", self, value)
    raw, source, raws, sizes = self._a, value._a, _views(parts), _sizes(self._a, parts)
    accesses = [access(self, True), access(value, False), *_reads(parts)]
    order = _order_of_threads()

    def run() -> None:
        target, places, values = _scattered(raw, source, wrapped(raws, sizes), order)
        function.numpy.at(target, places, values)

    current_queue().push(run, f"{function.__name__}.at", accesses, by_arrays(len(accesses) - 2))


def _scattered(
    raw: np.ndarray, source: np.ndarray, key: tuple, order: Callable[[int], np.ndarray]
) -> tuple[np.ndarray, tuple[np.ndarray, ...], np.ndarray]:
    """`raw` in a dimension or more, and where raw[key] lies there, element by element in the order of the threads, and
    the values for it."""
    places = np.arange(raw.size).reshape(raw.shape)[key]
    turns = order(places.size)
    values = np.broadcast_to(source, places.shape).ravel()[turns]
    target = raw if raw.ndim else raw.reshape(1)
    return target, np.unravel_index(places.ravel()[turns], target.shape), values


def put(a: ndarray, ind: Any, v: Any, mode: str = "wrap") -> None:
    if type(a) is not ndarray:
        raise TypeError(f"cupy.put changes a cupy.ndarray, not {type(a)}")
    order = _order_of_threads()

    def run(raw: np.ndarray, indices: Any, values: Any) -> None:
        indices = np.ravel(indices)
        turns = order(indices.size)
        np.put(raw, indices[turns], np.resize(values, indices.size)[turns], mode=mode)

    change("put", a, run, (ind, v))


def _order_of_threads() -> Callable[[int], np.ndarray]:
    """In which order elements are scattered: on a GPU in any, here in that of the schedule, as kernels' threads are."""
    if SETTINGS.schedule == "random":
        return np.random.default_rng(SETTINGS.random.randrange(1 << 30)).permutation
    return np.arange if SETTINGS.schedule == "eager" else lambda size: np.arange(size)[::-1]


def take(a: ndarray, indices: Any, axis: Any = None, out: Any = None) -> ndarray:
    """a.take(): indices wrap around."""
    if not isinstance(indices, (int, np.integer)):
        indices = array(indices, dtype=None if isinstance(indices, ndarray) else int, copy=None)
    if out is not None and out.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    return call("take", _take, (a, indices, axis), {}, out)


def _take(raw: np.ndarray, indices: Any, axis: Any) -> Any:
    if not raw.size:
        shape = () if axis is None else np.delete(raw.shape, axis)
        if np.size(indices) and np.prod(shape):
            raise IndexError("cannot do a non-empty take from an empty axes.")
        at = 0 if axis is None else axis % raw.ndim
        return np.empty((*shape[:at], *np.shape(indices), *shape[at:]), raw.dtype)
    return np.take(raw, indices, axis, mode="wrap")


def take_along_axis(a: ndarray, indices: ndarray, axis: Any) -> ndarray:
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is not None and a.ndim != indices.ndim:
        raise ValueError("`indices` and `a` must have the same number of dimensions")
    return call("take_along_axis", _take_along_axis, (a, indices, axis), {})


def _take_along_axis(raw: np.ndarray, indices: np.ndarray, axis: Any) -> Any:
    return np.take_along_axis(raw, indices % (raw.size if axis is None else raw.shape[axis]), axis)


# ---- keys ----------------------------------------------------------------------------------------------


def prepare(key: Any) -> tuple:
    """The key as a tuple whose lists and host arrays have become device arrays."""
    return tuple([_part(part) for part in (key if isinstance(key, tuple) else (key,))])


def _part(part: Any) -> Any:
    if type(part) in (int, slice, ndarray) or part is None or part is Ellipsis:
        return part
    if np.isscalar(part) and not isinstance(part, (bool, np.bool_)):
        return int(part)
    found = as_array(part)
    if found is None:
        found = array(part, copy=None)
    if isinstance(part, (list, tuple)) and not found.size:
        found = found.astype(np.int32)
    if found.dtype.kind not in "biu":
        raise IndexError(f"arrays used as indices must be of integer or boolean type. (actual: {found.dtype.type})")
    return found


def basic(raw: np.ndarray, parts: tuple) -> np.ndarray:
    """The view that integers, slices, None and Ellipsis select; also one of 0 dimensions."""
    try:
        return raw[parts if Ellipsis in parts else (*parts, Ellipsis)]
    except IndexError as error:
        raise IndexError(_in_cupys_words(str(error))) from None


def _in_cupys_words(text: str) -> str:
    return "I" + text[1:] if text.startswith("index ") else text


def without_masks(a: ndarray, parts: tuple) -> tuple:
    """Masks as the integer arrays that they stand for, which has to wait for their values."""
    if not any(type(part) is ndarray and part.dtype.kind == "b" for part in parts):
        return parts
    _check_masks(a, parts)
    wait_for("mask", [part for part in parts if type(part) is ndarray and part.dtype.kind == "b"])
    result: list[Any] = []
    for part in parts:
        if type(part) is not ndarray or part.dtype.kind != "b":
            result.append(part)
        elif part.ndim == 0:
            result.append(bool(part._a))  # selects all or nothing, on an axis of its own
        else:
            result += [to_device("mask", index) for index in np.nonzero(part._a)]
    return tuple(result)


def _check_masks(a: ndarray, parts: tuple) -> None:
    at = 0
    taken = sum(_dims(part) for part in parts)
    if taken > a.ndim:
        raise IndexError(_TOO_MANY.format(a.ndim, taken))
    for part in parts:
        if type(part) is ndarray and part.dtype.kind == "b":
            for i, size in enumerate(part.shape):
                if size not in (0, a.shape[at + i]):
                    raise IndexError(f"boolean index did not match indexed array along dimension {at + i}; dimension "
                                     f"is {a.shape[at + i]} but corresponding boolean dimension is {size}")
        at += a.ndim - taken if part is Ellipsis else _dims(part)


def _dims(part: Any) -> int:
    """How many dimensions of the array a part of a key uses up."""
    if type(part) is ndarray:
        return part.ndim if part.dtype.kind == "b" else 1
    return 0 if part is None or part is Ellipsis or type(part) is bool else 1


def _sizes(raw: np.ndarray, parts: tuple) -> list[int]:
    """For each part, the size of the dimension that it indexes."""
    sizes, at = [], 0
    taken = sum(_dims(part) for part in parts)
    for part in parts:
        sizes.append(raw.shape[at] if _dims(part) else 0)
        at += raw.ndim - taken if part is Ellipsis else _dims(part)
    return sizes


def wrapped(parts: tuple, sizes: list[int]) -> tuple:
    return tuple([part % size if isinstance(part, np.ndarray) and size else part
                  for part, size in zip(parts, sizes, strict=True)])


def _views(parts: tuple) -> tuple:
    return tuple([part._a if type(part) is ndarray else part for part in parts])


def _reads(parts: tuple) -> list:
    return [access(part, False) for part in parts if type(part) is ndarray]


def _shape(a: ndarray, parts: tuple) -> tuple[int, ...]:
    """The shape of a[parts], from zeros in place of the indices."""
    taken = sum(_dims(part) for part in parts)
    if taken > a.ndim:
        raise IndexError(_TOO_MANY.format(a.ndim, taken))
    dummies = tuple([np.broadcast_to(np.zeros((), part.dtype), part.shape) if type(part) is ndarray else part
                     for part in parts])
    try:
        return np.broadcast_to(np.zeros((), np.int8), a.shape)[dummies].shape
    except IndexError as error:
        raise IndexError(_in_cupys_words(str(error))) from None


def _value(a: ndarray, value: Any, shape: tuple[int, ...]) -> ndarray:
    """What is assigned, as a device array of a's dtype that broadcasts to `shape`."""
    found = as_array(value)
    if found is None:
        found = array(value, dtype=a.dtype)
    else:
        found = _squeezed(found)
        found = found if found.dtype == a.dtype else copied(found, a.dtype)
    check_device(found)
    np.broadcast_to(found._a, shape)
    return found


def _squeezed(array: ndarray) -> ndarray:
    """Without leading dimensions of size 1, which CuPy does not mind in a value."""
    lead = next((i for i, size in enumerate(array.shape) if size != 1), array.ndim)
    return viewed(array, array._a.reshape(array.shape[lead:])) if lead and array.size else array

