"""Operations on lists of arrays on CUDA, in a few launches per device and dtype.

Each function returns the indices of the arrays that it did not process, which the caller handles one by one: NumPy
arrays, arrays on other devices or of unsupported dtypes, non-contiguous arrays, and arrays that overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_

from .. import kernels
from ..kernels.foreach import LIST, Argument, ListFunction
from ..kernels.launcher import Array
from . import runtime


def _groups(arrays: Sequence[Array]) -> list[list[int]]:
    """The indices of the CuPy arrays, grouped by device and dtype."""
    module = runtime.loaded()
    groups: dict[tuple[int, str], list[int]] = {}
    for i, array in enumerate(arrays):
        if module is not None and type(array) is module.ndarray:
            groups.setdefault((array.device.id, array.dtype.char), []).append(i)
    return list(groups.values())


def computed(
    function: ListFunction | None, arguments: Sequence[Argument], into: Sequence[Array] | None = None
) -> list[Array | None]:  # fmt: skip
    """The results of kernels.foreach for each row of the lists in `arguments`.

    Writes to the arrays `into`, by default new ones; returns them, None for rows that were not processed.
    """
    kinds = kernels.kinds_of(arguments)
    columns = [a for a, kind in zip(arguments, kinds, strict=True) if kind == LIST]
    outs: list[Array | None] = [None] * len(columns[0])
    if function is None or kernels.function_of(function, kinds) is None:
        return outs
    if into is not None and all(map(is_, into, columns[0])):
        into = columns[0]  # one list, whose properties are looked at once
    lists = [*columns, columns[0] if into is None else into]
    if _begins_well(columns[0]) and _alike(lists):  # most lists are processed as they are
        results = _empty_like(columns[0]) if into is None else into
        if kernels.foreach(function, results, *_with(arguments, kinds, columns), lasting=into is not None):
            return list(results)
    for group in _groups(columns[0]):
        rows = [i for i in group
                if _alike([[arrays[i]] for arrays in lists]) and kernels.fits(*[arrays[i] for arrays in lists])]
        inputs = [[column[i] for i in rows] for column in columns]
        results = _empty_like(inputs[0]) if into is None else [into[i] for i in rows]
        if rows and kernels.foreach(function, results, *_with(arguments, kinds, inputs)):
            for i, result in zip(rows, results, strict=True):
                outs[i] = result
    return outs


def _with(arguments: Sequence[Argument], kinds: str, lists: Sequence[Sequence[Array]]) -> list[Argument]:
    """The arguments with these lists in place of theirs."""
    rest = iter(lists)
    return [next(rest) if kind == LIST else a for a, kind in zip(arguments, kinds, strict=True)]


def _begins_well(arrays: Sequence[Array]) -> bool:
    """Whether the kernels process the first array."""
    module = runtime.loaded()
    return module is not None and bool(arrays) and type(arrays[0]) is module.ndarray and kernels.fits(arrays[0])


def _empty_like(arrays: Sequence[Array]) -> list[Array]:
    empty = runtime.cupy().empty
    return [empty(array.shape, array.dtype) for array in arrays]


def _alike(lists: Sequence[Sequence[Array]]) -> bool:
    """Whether the arrays of each row have the same shape."""
    shapes = [array.shape for array in lists[0]]
    return all([array.shape for array in arrays] == shapes for arrays in lists[1:] if arrays is not lists[0])


def limit_norms(arrays: Sequence[Array], norm: Array, max_norm: float) -> list[int]:
    """Scales arrays in place by max_norm / (norm + 1e-6) if that is below 1 or NaN; returns the indices not scaled.

    `norm` has one element; only arrays on its device are scaled.
    """
    left, module = set(range(len(arrays))), runtime.loaded()
    known = module is not None and type(norm) is module.ndarray and norm.dtype.char in "fd"
    for group in _groups(arrays) if known else ():
        rows = [i for i in group if arrays[i].device == norm.device and kernels.fits(arrays[i])]
        lists = kernels.tensor_lists([[arrays[i] for i in rows]]) if rows else None
        if lists is not None:
            kernels.limit_norm(lists, norm.astype(kernels.wide(lists.dtype), copy=False), max_norm)
            left.difference_update(rows)
    return sorted(left)


def list_norms(arrays: Sequence[Array], order: float) -> tuple[list[Array], list[int]]:
    """The norms of order 1, 2 or inf, one per device and dtype, and the indices of the arrays not included.

    A norm is a 0-d array on the device of its arrays, in float32 for half types. Non-contiguous arrays are copied.
    """
    norms: list[Array] = []
    left = set(range(len(arrays)))
    for rows in _groups(arrays) if order in (1.0, 2.0, math.inf) else ():
        lists = kernels.tensor_lists([], [[runtime.cupy().ascontiguousarray(arrays[i]) for i in rows]])
        if lists is not None:
            norms.append(kernels.list_norm(lists, order))
            left.difference_update(rows)
    return norms, sorted(left)
