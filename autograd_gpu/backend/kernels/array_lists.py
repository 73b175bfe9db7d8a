"""Lists of arrays as arguments of the kernels over lists (kernels/include/tensor_lists.cuh).

A launch gets the addresses by value, so that nothing is copied to the device, no table can be stale, and a CUDA graph
may contain the launch. It takes up to MOST_ARRAYS arrays of each list; longer lists take several launches.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ..cuda import runtime
from .constants import CHUNK, MOST_ARRAYS, THREADS
from .instances import C_NAMES, Parameter
from .launcher import Array, launch
from .tiles import Launch

_MAX_CACHED = 64


@functools.cache
def lists_parameter(count: int) -> Parameter:
    """The parameter for `count` lists, a Lists<T, count>."""
    most = MOST_ARRAYS[count]
    fields = [("at", np.uint64, (count, most)), ("first", np.int32, (most + 1,)), ("last", np.uint16, (most,))]
    return Parameter("lists", "struct", np.dtype(fields, align=True))


class Part(NamedTuple):
    """What one launch processes: grid and block, and the argument for `lists_parameter`."""

    shape: Launch
    packed: np.ndarray


class TensorLists(NamedTuple):
    """Lists of the same length of CuPy arrays of one dtype, and what the launches process of them.

    The i-th arrays of all lists form a row, and have the same size.
    """

    lists: list[Sequence[Array]]
    parts: list[Part]

    @property
    def dtype(self) -> np.dtype:
        return self.lists[0][0].dtype

    def launch(self, name: str, *arguments: Any, label: str | None = None) -> None:
        """Launches the instance `name`, whose other parameters get `arguments`, for every part."""
        for shape, packed in self.parts:
            launch(name, shape, packed, *arguments, label=label)


def tensor_lists(
    written: Sequence[Sequence[Array]], read: Sequence[Sequence[Array]] = (), lasting: bool = False
) -> TensorLists | None:
    """The lists `written` and `read`, for a kernel that writes to `written` only.

    None if a kernel cannot process them: an array is not a contiguous CuPy array of a floating dtype on the current
    device; dtypes differ, or sizes in a row; or a written array overlaps another one, so that the order of rows
    matters. With `lasting` the properties of the `written` arrays are cached for later calls with the same arrays.
    """
    device, kind = runtime.current.device(), runtime.cupy().ndarray
    targets = _seen_targets(written, device, kind) if lasting else _targets(written, device, kind)
    if targets is None:
        return None
    columns = list(targets.columns)
    known = {id(arrays): column for arrays, column in zip(written, targets.columns, strict=True)}
    for arrays in read:
        column = known.get(id(arrays)) or _look(arrays, device, kind)
        if column is None or (columns and not column.matches(columns[0])):
            return None
        if id(arrays) not in known and targets.overlap(column):
            return None
        columns.append(column)
    return TensorLists([*written, *read], packed([column.begins for column in columns], columns[0].sizes))


def fits(*arrays: Array) -> bool:
    """Whether the arrays can be a row of tensor_lists, overlaps aside."""
    pointers = _pointers(arrays, runtime.current.device(), runtime.cupy().ndarray)
    return pointers is not None and len({array.size for array in arrays}) == 1


def _pointers(arrays: Sequence[Array], device: int, kind: Any) -> list[Any] | None:
    """Where arrays lie; None unless all are contiguous, of class `kind`, on `device`, and of one floating dtype."""
    dtype = arrays[0].dtype
    if dtype not in C_NAMES or set(map(type, arrays)) != {kind} or not all(map(runtime.c_contiguous, arrays)):
        return None
    pointers = [array.data for array in arrays]
    if {pointer.device_id for pointer in pointers} != {device}:
        return None
    return pointers if [array.dtype for array in arrays].count(dtype) == len(arrays) else None


class _Column(NamedTuple):
    """The properties of a list of arrays, constant during their lifetime."""

    dtype: np.dtype
    sizes: tuple[int, ...]
    begins: np.ndarray  # addresses
    ends: np.ndarray

    def matches(self, other: _Column) -> bool:
        return self.dtype == other.dtype and self.sizes == other.sizes


def _look(arrays: Sequence[Array], device: int, kind: Any) -> _Column | None:
    """The properties of arrays; None if `_pointers` refuses them."""
    pointers, dtype = _pointers(arrays, device, kind), arrays[0].dtype
    if pointers is None:
        return None
    sizes = tuple([array.size for array in arrays])
    begins = np.array([pointer.ptr for pointer in pointers], np.uint64)
    return _Column(dtype, sizes, begins, begins + _bytes(sizes, dtype.itemsize))


@functools.lru_cache(_MAX_CACHED)
def _bytes(sizes: tuple[int, ...], itemsize: int) -> np.ndarray:
    return np.array(sizes, np.uint64) * np.uint64(itemsize)


class _Targets(NamedTuple):
    """Lists that a kernel writes to: arrays that do not overlap."""

    columns: list[_Column]
    begins: np.ndarray  # of all arrays that are not empty, in order
    ends: np.ndarray  # of the same arrays, after a 0

    def overlap(self, read: _Column) -> bool:
        """Whether an array of the list `read` overlaps a written one.

        At the address of a written array of its row it is the same array, and is allowed.
        """
        reached = self.ends[self.begins.searchsorted(read.ends)] > read.begins  # the last that begins before its end
        if not reached.any():
            return False
        reached &= read.begins < read.ends
        for column in self.columns:
            reached &= column.begins != read.begins
        return bool(reached.any())


def _targets(written: Sequence[Sequence[Array]], device: int, kind: Any) -> _Targets | None:
    """The properties of the lists; None if `_look` refuses one, if they do not match, or if two arrays overlap."""
    columns: list[_Column] = []
    for arrays in written:
        column = _look(arrays, device, kind)
        if column is None or (columns and not column.matches(columns[0])):
            return None
        columns.append(column)
    none = [np.empty(0, np.uint64)]
    begins = np.concatenate([column.begins for column in columns] or none)
    ends = np.concatenate([column.ends for column in columns] or none)
    order = begins.argsort()
    begins, ends = begins[order], ends[order]
    filled = ends > begins
    begins, ends = begins[filled], ends[filled]
    if (begins[1:] < ends[:-1]).any():
        return None
    return _Targets(columns, begins, np.concatenate([np.zeros(1, np.uint64), ends]))


# Targets by device, id of the first array, and lengths. The weak references are compared with the arrays of the lists,
# so that an entry of dead arrays never matches, even if an id or an address is reused.
_SEEN: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], _Targets]] = {}


def _seen_targets(written: Sequence[Sequence[Array]], device: int, kind: Any) -> _Targets | None:
    """`_targets` with a cache."""
    key = device, id(written[0][0]), *map(len, written)
    references, targets = _SEEN.get(key, ((), None))
    if targets is not None and all(map(is_, chain(*written), [reference() for reference in references])):
        return targets
    targets = _targets(written, device, kind)
    if targets is not None:
        if len(_SEEN) >= _MAX_CACHED:
            _SEEN.clear()
        _SEEN[key] = [weakref.ref(array) for array in chain(*written)], targets
    return targets


def packed(addresses: Sequence[np.ndarray], sizes: tuple[int, ...]) -> list[Part]:
    """The launches for arrays of these addresses, list by list, and sizes."""
    parts, most, dtype = [], MOST_ARRAYS[len(addresses)], lists_parameter(len(addresses)).dtype
    for begin, shape, template in _layout(sizes, len(addresses)):
        words = template.copy()
        for i, of_list in enumerate(addresses):
            these = of_list[begin : begin + most]
            words[i * most : i * most + len(these)] = these
        parts.append(Part(shape, words.view(dtype)))
    return parts


@functools.lru_cache(_MAX_CACHED)
def _layout(sizes: tuple[int, ...], lists: int) -> list[tuple[int, Launch, np.ndarray]]:
    """The launches for arrays of these sizes: the first array, grid and block, and the argument without addresses.

    The argument is an array of 64-bit words, of which the addresses are the first: a struct takes longer to copy.
    """
    launches, most = [], MOST_ARRAYS[lists]
    for begin in range(0, len(sizes), most):
        elements = np.array(sizes[begin : begin + most], np.int64)
        chunks = -(-elements // CHUNK)
        blocks = int(chunks.sum())
        argument = np.zeros((1,), lists_parameter(lists).dtype)
        argument["first"] = blocks
        argument["first"][0, : len(chunks)] = np.cumsum(chunks) - chunks
        argument["last"][0, : len(chunks)] = elements - (chunks - 1) * CHUNK
        launches.append((begin, ((blocks, 1), (THREADS, 1)), argument.view(np.uint64)))
    return launches
