"""Norms of lists of arrays, and their limits, on CUDA: two launches and one for all arrays of one dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import cuda, kernels
from .chunks import Array


def _groups(arrays: Sequence[Array]) -> list[list[int]]:
    """Those of `arrays` that kernels may take, by device and dtype."""
    module = cuda.loaded()
    groups: dict[tuple[int, str], list[int]] = {}
    for i, array in enumerate(arrays):
        if module is not None and type(array) is module.ndarray:
            groups.setdefault((array.device.id, array.dtype.char), []).append(i)
    return list(groups.values())


def list_norms(arrays: Sequence[Array], order: float) -> tuple[list[Array], list[Array]]:
    """The norms of as many lists as it takes, of order 1, 2 or inf, and the arrays that are in none of them.

    A norm is a 0-d array on the device of its list, for half types of float32.
    """
    norms: list[Array] = []
    left = set(range(len(arrays)))
    for rows in _groups(arrays) if order in (1.0, 2.0, math.inf) else ():
        lists = kernels.tensor_lists([], [[cuda.cupy().ascontiguousarray(arrays[i]) for i in rows]])
        if lists is not None:
            norms.append(kernels.list_norm(lists, order))
            left.difference_update(rows)
    return norms, [arrays[i] for i in sorted(left)]


def limit_norms(arrays: Sequence[Array], norm: Array, max_norm: float) -> list[int]:
    """Scales as many of `arrays` as kernels take by max_norm / (norm + 1e-6) if that is below 1 or NaN; says which.

    `norm` has one element. They take what is contiguous and on the current device, where `norm` has to be.
    """
    module, scaled = cuda.loaded(), []
    if module is None or type(norm) is not module.ndarray or norm.dtype.char not in "fd":
        return []
    for group in _groups(arrays):
        rows = [i for i in group if arrays[i].flags.c_contiguous and arrays[i].device == norm.device]
        lists = kernels.tensor_lists([[arrays[i] for i in rows]]) if rows else None
        if lists is not None:
            kernels.limit_norm(lists, norm.astype(kernels.wide(lists.dtype), copy=False), max_norm)
            scaled += rows
    return scaled
