"""cupy.sum and its kin: NumPy's reductions in the dtypes of CuPy's loops.

    1. The loop is chosen as a ufunc's is; sums and products given `dtype=` have loops of their own.
    2. Half types are added up in float32 and rounded once, except where CUB takes the array: it adds in float16.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from . import _loops, _rules

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_OWN_LOOPS_FOR_DTYPE = frozenset(("sum", "prod", "nansum", "nanprod"))
_MEANS = frozenset(("mean", "nanmean"))
# The function's name in CuPy's table.
TABLES = {name: f"cupy_{name}" for name in (
    "all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "nanargmax", "nanargmin", "nanmax",
    "nanmean", "nanmin", "nanprod", "nansum", "prod", "sum",
)} | {"amax": "cupy_max", "amin": "cupy_min"}  # fmt: skip


def reduction(name: str, numpy_function: Callable[..., Any], parameters: Sequence[str]) -> Callable[..., Any]:
    """`numpy_function` on raw arrays, called by CuPy's `parameters` without `out`."""
    names = [parameter for parameter in parameters if parameter != "out"]

    @functools.wraps(numpy_function)
    def run(*args: Any, **kwargs: Any) -> np.ndarray:
        given = dict(zip(names[1:], args[1:], strict=False)) | kwargs
        dtype = given.pop("dtype", None)
        return _reduced(name, numpy_function, args[0], None if dtype is None else np.dtype(dtype), given)

    return run


def _reduced(
    name: str, numpy_function: Callable[..., Any], x: np.ndarray, dtype: np.dtype | None, given: dict[str, Any]
) -> np.ndarray:
    sums = name in _OWN_LOOPS_FOR_DTYPE or name in _MEANS
    result_dtype = dtype
    if name == "mean" and (dtype is None or dtype.kind in "iub"):
        dtype, result_dtype = _of_mean(x.dtype, dtype)
    table = TABLES[name] + ("_with_dtype" if dtype is not None and name in _OWN_LOOPS_FOR_DTYPE else "")
    loop = _loops.choose(table, (x.dtype,), (None,), dtype)
    taken, found = loop.taken[0], loop.given[0]
    if name == "sum" and x.dtype == np.float16 and _rules.by_cub(x, given.get("axis"), dtype, True):
        return _added_in_halves(x, given.get("axis"), given.get("keepdims", False))
    kept = np.dtype(np.float32) if found.itemsize == 2 and found.kind in "fV" else found
    keywords = {**given, "dtype": kept} if sums else given
    result = np.asarray(numpy_function(x.astype(kept if sums else taken, copy=False), **keywords))
    return result.astype(found, copy=False).astype(result_dtype or found, copy=False)


def _of_mean(own: np.dtype, dtype: np.dtype | None) -> tuple[np.dtype | None, np.dtype | None]:
    """The dtype of the sum and that of the mean: integers are averaged in float64, half types in float32."""
    if dtype is not None or own.kind in "iub":
        return np.dtype(np.float64), dtype or np.dtype(np.float64)
    return (np.dtype(np.float32), own) if own in (np.float16, _BFLOAT16) else (None, None)


def _added_in_halves(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """The sum as a tree, each addition rounded to float16."""
    axes = tuple(i % x.ndim for i in (range(x.ndim) if axis is None else np.atleast_1d(axis).tolist()))
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes).reshape(*[x.shape[i] for i in kept], -1)
    while rows.shape[-1] > 1:
        odd = rows[..., -1:] if rows.shape[-1] % 2 else rows[..., :0]
        rows = np.concatenate([rows[..., : rows.shape[-1] // 2 * 2 : 2] + rows[..., 1::2], odd], axis=-1)
    total = rows.sum(axis=-1, dtype=np.float16)
    return np.expand_dims(total, axes) if keepdims else total
