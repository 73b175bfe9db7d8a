"""Tables of array addresses for kernels over lists of arrays (kernels/include/tensor_lists.cuh).

A table costs a copy to the device, and gradients are new arrays at each step. But the memory pool often returns the
same addresses as in an earlier step. So tables are cached by their contents, the addresses: an entry cannot be stale,
and a step whose arrays are at the addresses of an earlier step copies nothing. A new table is one copy from CuPy's
pinned memory, for which the host does not wait.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ..arrays.dtypes import int32, int64
from ..cuda import runtime
from .constants import CHUNK, THREADS
from .instances import C_NAMES, Parameter
from .launcher import Array
from .tiles import Launch

_MAX_TABLES = 64  # tables
_NEVER_CAPTURED = 1  # handles up to this are the legacy default stream, which cannot be captured

LISTS = (
    Parameter("arrays", "table", int64), Parameter("sizes", "read", int64), Parameter("chunks", "read", int32),
    Parameter("tensors", "scalar", int32),
)  # fmt: skip


class Layout:
    """The division of arrays of these sizes into chunks; chunks first[t] to first[t + 1] - 1 are those of array t."""

    sizes: Array
    chunks: Array
    first: Array
    whole: Array  # `first` for all arrays taken as one: 0 and the number of chunks

    def __init__(self, sizes: tuple[int, ...]) -> None:
        counts = -(-np.array(sizes, np.int64) // CHUNK)
        first = np.concatenate([[0], np.cumsum(counts)])
        self.blocks = int(first[-1])
        owners = np.repeat(np.arange(len(sizes)), counts)
        chunks = np.stack([owners, np.arange(self.blocks) - first[owners]], axis=1)
        numbers = np.concatenate([chunks.reshape(-1), first, [0, self.blocks], [0] * (len(first) % 2)])
        self._words: np.ndarray | None = np.concatenate([sizes, numbers.astype(np.int32).view(np.int64)])
        self._tensors = len(sizes)

    def upload_after(self, words: np.ndarray) -> Array:
        """`words` on the device; the first call also uploads this layout, in the same copy, after the words."""
        if self._words is None:
            return _upload(words)
        sent = _upload(np.concatenate([words, self._words]))
        own, tensors, chunks = sent[len(words) :], self._tensors, 2 * self.blocks
        numbers = own[tensors:].view(int32)
        self.sizes, self.chunks = own[:tensors], numbers[:chunks]
        self.first, self.whole = numbers[chunks : chunks + tensors + 1], numbers[chunks + tensors + 1 :][:2]
        self._words = None
        return sent[: len(words)]


class TensorLists(NamedTuple):
    """Lists of the same length of CuPy arrays of one dtype, and their addresses on the device.

    The i-th arrays of all lists form a row, and have the same size.
    """

    lists: list[Sequence[Array]]
    addresses: Array
    layout: Layout

    @property
    def tensors(self) -> int:
        return len(self.lists[0])

    @property
    def dtype(self) -> np.dtype:
        return self.lists[0][0].dtype

    @property
    def shape(self) -> Launch:
        return (self.layout.blocks, 1), (THREADS, 1)

    @property
    def arguments(self) -> tuple[Array, Array, Array, int]:
        """The arguments for the parameters LISTS."""
        return self.addresses, self.layout.sizes, self.layout.chunks, self.tensors


def tensor_lists(
    written: Sequence[Sequence[Array]], read: Sequence[Sequence[Array]] = (), lasting: bool = False
) -> TensorLists | None:
    """The table of the lists `written` and `read`, for a kernel that writes to `written` only; does not synchronize.

    None if one launch cannot process them: an array is not a contiguous CuPy array of a floating dtype on the current
    device; dtypes differ, or sizes in a row; a written array overlaps another one, so that the order of rows matters;
    or the stream is being captured, and the graph would outlive the tables. With `lasting` the properties of the
    `written` arrays are cached for later calls with the same arrays.
    """
    lists, device, kind = [*written, *read], runtime.current.device(), runtime.cupy().ndarray
    stream = runtime.current.stream(device)
    if stream.ptr > _NEVER_CAPTURED and stream.is_capturing():
        return None
    entries = [_seen(arrays, device, kind) if lasting else _look(arrays, device, kind) for arrays in written]
    entries += [_look(arrays, device, kind) for arrays in read]
    head = entries[0]
    if head is None:
        return None
    for facts in entries:
        if facts is None or facts.dtype != head.dtype or facts.sizes != head.sizes:
            return None
    where = (device, stream.ptr, threading.get_ident())
    addresses = tuple([facts.addresses for facts in entries if facts])
    table = _table(where, addresses, head.sizes, head.dtype.itemsize, len(written))
    return None if table is None else TensorLists(lists, table.addresses, table.layout)


def fits(*arrays: Array) -> bool:
    """Whether the arrays can be a row of tensor_lists, overlaps aside; makes no table."""
    facts = _look(arrays, runtime.current.device(), runtime.cupy().ndarray)
    return facts is not None and len(set(facts.sizes)) == 1


class _Facts(NamedTuple):
    """The properties of a list of arrays, constant during their lifetime."""

    dtype: np.dtype
    sizes: tuple[int, ...]
    addresses: tuple[int, ...]


def _look(arrays: Sequence[Array], device: int, kind: Any) -> _Facts | None:
    """The properties of arrays; None unless all are contiguous, of class `kind`, on `device`, and of one dtype."""
    dtype = arrays[0].dtype
    if dtype not in C_NAMES or set(map(type, arrays)) != {kind} or not all(map(runtime.c_contiguous, arrays)):
        return None
    pointers = [array.data for array in arrays]
    if {pointer.device_id for pointer in pointers} != {device}:
        return None
    if [array.dtype for array in arrays].count(dtype) < len(arrays):
        return None
    return _Facts(dtype, tuple([array.size for array in arrays]), tuple([pointer.ptr for pointer in pointers]))


# Properties of lists by device, id of the first array, and length. The weak references are compared with the arrays of
# a list, so that an entry of dead arrays never matches, even if an id or an address is reused.
_SEEN: dict[tuple[int, int, int], tuple[list[weakref.ref[Any]], _Facts]] = {}


def _seen(arrays: Sequence[Array], device: int, kind: Any) -> _Facts | None:
    """`_look` with a cache."""
    key = device, id(arrays[0]), len(arrays)
    references, facts = _SEEN.get(key, ((), None))
    if facts is not None and all(map(is_, arrays, [reference() for reference in references])):
        return facts
    facts = _look(arrays, device, kind)
    if facts is not None:
        if len(_SEEN) >= _MAX_TABLES:
            _SEEN.clear()
        _SEEN[key] = [weakref.ref(array) for array in arrays], facts
    return facts


class _Table(NamedTuple):
    addresses: Array
    layout: Layout
    stream: Any


# The keys of both caches include device, stream and thread: work queued later on the same stream finds a table
# complete. Tables hold the stream, so that no other stream gets its handle.
@functools.lru_cache(_MAX_TABLES)
def _table(
    where: tuple[int, int, int], addresses: tuple[tuple[int, ...], ...], sizes: tuple[int, ...], itemsize: int,
    written: int,
) -> _Table | None:  # fmt: skip
    """The table of `addresses`; None if arrays overlap, see `_overlap`."""
    begins = np.array(addresses, np.uint64)
    if _overlap(begins, np.array(sizes, np.uint64) * np.uint64(itemsize), written):
        return None
    layout = _layout(where, sizes)
    return _Table(layout.upload_after(begins.view(np.int64).reshape(-1)), layout, runtime.current.stream())


@functools.lru_cache(_MAX_TABLES)
def _layout(where: tuple[int, int, int], sizes: tuple[int, ...]) -> Layout:
    return Layout(sizes)


def _upload(numbers: np.ndarray) -> Array:
    """A copy on the current device; CuPy stages it in pinned memory, which it holds until the copy is complete."""
    return runtime.cupy().asarray(numbers)


def _overlap(begins: np.ndarray, sizes: np.ndarray, written: int) -> bool:
    """Whether two byte ranges overlap, at least one of them written; the rows of `begins` are the lists.

    A read array at the address of a written array of its row is the same array, and is allowed.
    """
    begins = begins[:, sizes > 0]
    ends = begins + sizes[sizes > 0]
    writes, counts = np.zeros(begins.shape, bool), np.ones(begins.shape, bool)
    writes[:written] = True
    for target in begins[:written]:
        counts[written:] &= begins[written:] != target
    order = np.argsort(begins[counts])
    begins, ends, writes = begins[counts][order], ends[counts][order], writes[counts][order]
    end = np.maximum.accumulate(ends)[:-1]
    written_end = np.maximum.accumulate(np.where(writes, ends, np.uint64(0)))[:-1]
    return bool(((begins[1:] < written_end) | (writes[1:] & (begins[1:] < end))).any())
