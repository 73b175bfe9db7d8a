"""The safetensors format: header length, JSON header, and the bytes of the arrays in sequence."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..backend.arrays import dtypes

METADATA = "__metadata__"  # the reserved name of the format
_LONGEST = 100_000_000  # bytes of a header, as in the safetensors library
_DTYPES = {
    "F64": dtypes.float64, "F32": dtypes.float32, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2, "BOOL": dtypes.bool_,
    "I64": dtypes.int64, "I32": dtypes.int32, "I16": dtypes.int16, "I8": dtypes.int8,
    "U64": dtypes.uint64, "U32": dtypes.uint32, "U16": dtypes.uint16, "U8": dtypes.uint8,
}  # fmt: skip
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class Entry(NamedTuple):
    """An array's name, dtype, shape and byte range from the end of the header."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


def write(file: BinaryIO, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Writes the arrays sorted by descending item size, so that all are aligned, then by name."""
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {METADATA: metadata}
    stop = 0
    for name in order:
        array = arrays[name]
        start, stop = stop, stop + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": [start, stop]}
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        file.write(_bytes(arrays[name]))


def read_header(file: BinaryIO) -> tuple[dict[str, str], list[Entry]]:
    """The metadata and the entries in file order; leaves `file` at the first array.

    ValueError unless the arrays fill the file from the end of the header without gaps.
    """
    here = file.tell()
    size = file.seek(0, 2) - here
    file.seek(here)
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, _LONGEST):
        raise ValueError("it does not begin with the length of a header")
    header = json.loads(file.read(length).decode())
    metadata = header.pop(METADATA, None) or {}
    entries = sorted([_entry(name, fields) for name, fields in header.items()], key=lambda e: (e.start, e.stop))
    end = 0
    for entry in entries:
        if entry.start != end or math.prod(entry.shape) * entry.dtype.itemsize != entry.stop - entry.start:
            raise ValueError(f"tensor {entry.name!r} does not lie where its shape and its neighbours say")
        end = entry.stop
    if end != size - 8 - length:
        raise ValueError(f"its tensors take {end} bytes, and it has {size - 8 - length} for them")
    return metadata, entries


def read(file: BinaryIO, entries: list[Entry]) -> Iterator[tuple[str, np.ndarray]]:
    """Reads the arrays one by one into separate memory; `file` must be at the first array."""
    for entry in entries:
        array = np.empty(entry.shape, entry.dtype)
        view, filled = _bytes(array), 0
        while filled < len(view):
            count = file.readinto(view[filled:])  # type: ignore[attr-defined]
            if not count:
                raise ValueError(f"it ends within tensor {entry.name!r}")
            filled += count
        yield entry.name, array


def mapped(file: BinaryIO, entries: list[Entry]) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays as copy-on-write views of the mapped file."""
    first = file.tell()
    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    for entry in entries:
        count = math.prod(entry.shape)
        array = np.frombuffer(pages, entry.dtype, count, first + entry.start) if count else np.empty(0, entry.dtype)
        array = array.reshape(entry.shape)
        yield entry.name, array if array.flags.aligned else array.copy()


def _entry(name: str, header: dict[str, Any]) -> Entry:
    dtype = _DTYPES.get(header["dtype"])
    if dtype is None:
        raise ValueError(f"tensor {name!r} has dtype {header['dtype']}, which has no counterpart here")
    start, stop = header["data_offsets"]
    numbers = [*header["shape"], start, stop]
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"tensor {name!r} has a shape or place that is none")
    return Entry(name, dtype, tuple(header["shape"]), start, stop)


def _bytes(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data
