"""Updates of arrays in place, in chunks that fit in the cache: all of the update runs on a chunk while it is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays.dtypes import bfloat16, float16, float32
from ..cuda import runtime
from ..formulas.numpy_code import QUIET, computed
from ..formulas.update import Variant
from .code import CHUNK, Code, code_of

Array = Any  # numpy.ndarray or cupy.ndarray
Numbers = Mapping[str, float]  # those of an update, in its order

_HALVES = (bfloat16, float16)


def sweep(variant: Variant, arrays: Sequence[Array], numbers: Numbers) -> None:
    """Updates arrays in place; they have the same shape, dtype and device, else RuntimeError."""
    Sweep(variant, numbers)(arrays)


class Sweep:
    """Updates arrays of one parameter in place, with certain numbers.

    A call is silent about errors of arithmetic, as native code is; `run` is for a caller that has seen to that.
    """

    def __init__(self, variant: Variant, numbers: Numbers) -> None:
        self.trace, self.numbers = variant.trace(numbers), numbers
        self.codes: dict[np.dtype, tuple[Code, tuple[np.ndarray, ...]]] = {}

    def __call__(self, arrays: Sequence[Array]) -> None:
        QUIET.copy().run(self.run, arrays)

    def run(self, arrays: Sequence[Array]) -> None:
        """RuntimeError unless the arrays have the same shape, dtype and device."""
        head = arrays[0]
        dtype, kind = head.dtype, type(head)
        for array in arrays:
            if array.dtype is not dtype or type(array) is not kind:
                _check_alike(head, array)
        known = self.codes.get(dtype) if kind is np.ndarray else None
        if known is not None:
            _walk(arrays, *known)
        elif dtype in _HALVES:
            self._in_float32(arrays)
        elif kind is not np.ndarray:
            values = self.trace.values(**self.numbers)
            results = computed(runtime.cupy(), self.trace.program, arrays, values)
            for place, result in zip(self.trace.places, results, strict=True):
                arrays[place][...] = result
        else:
            code = code_of(self.trace, dtype)
            self.codes[dtype] = code, code.numbers(self.numbers)
            _walk(arrays, *self.codes[dtype])

    def _in_float32(self, arrays: Sequence[Array]) -> None:
        """Updates half types in float32 and rounds once: in half precision (1 - beta2) g^2 would be lost."""
        wide = [array.astype(float32) for array in arrays]
        self.run(wide)
        written = self.trace.places
        rounded = [wide[i].astype(arrays[0].dtype) for i in written]  # all, before any of them is written
        for i, result in zip(written, rounded, strict=True):
            arrays[i][...] = result


def _walk(arrays: Sequence[np.ndarray], code: Code, numbers: tuple[np.ndarray, ...]) -> None:
    head = arrays[0]
    few = head.size <= CHUNK
    if few and head.flags.c_contiguous:
        code.run(arrays, numbers)
        return
    arrays = _flat(arrays)
    for chunk in [arrays] if few else _chunks(arrays):
        code.run(chunk, numbers)


def _check_alike(param: Array, other: Array) -> None:
    """RuntimeError if a state has another dtype or module: the update would be rounded, or fail half-way."""
    if type(param) is not type(other) or param.dtype != other.dtype:
        raise RuntimeError(
            f"the optimizer holds {type(other).__module__} arrays of {other.dtype} for a parameter that is "
            f"{type(param).__module__} {param.dtype}: it was moved or converted after the first step; "
            "make a new optimizer, or load_state_dict(state_dict()) to convert the state"
        )


def _flat(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The arrays as vectors if they are contiguous in the same order, else unchanged."""
    if not arrays[0].flags.c_contiguous:
        arrays = [array.T for array in arrays]
    dense = all(array.flags.c_contiguous for array in arrays)
    return [array.reshape(-1) for array in arrays] if dense else arrays


def _chunks(arrays: Sequence[np.ndarray]) -> Iterator[Sequence[np.ndarray]]:
    """Tuples of views of the same shape, of at most CHUNK elements, that cover `arrays`."""
    head = arrays[0]
    row = head.size // len(head)
    if row > CHUNK:
        for i in range(len(head)):
            yield from _chunks([array[i] for array in arrays])
        return
    rows = CHUNK // row
    for start in range(0, len(head), rows):
        yield [array[start : start + rows] for array in arrays]
