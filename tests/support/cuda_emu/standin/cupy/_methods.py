"""Methods of ndarray that are functions of the module, and what NumPy asks of array classes."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _creation, _functions, _indexing, _ufunc
from ._array import SCALARS, ndarray
from ._call import call, change
from ._table import API

# Methods named like the function that they are; the function's further parameters are the method's.
_SAME = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "compress", "conj", "cumprod", "cumsum",
    "diagonal", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "round", "searchsorted", "squeeze",
    "std", "sum", "swapaxes", "trace", "var",
)  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    run = _functions.made(name, getattr(np, name), API["cupy.ndarray"][name])

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return run(self, *args, **kwargs)

    method.__name__, method.__signature__ = name, run.__signature__  # type: ignore[attr-defined]
    return method


def reshape(self: ndarray, *shape: Any, order: str = "C", copy: Any = None) -> ndarray:
    wanted = shape[0] if len(shape) == 1 else shape
    return _functions.function("reshape")(self, wanted, order=order)


def transpose(self: ndarray, *axes: Any) -> ndarray:
    wanted = axes[0] if len(axes) == 1 else axes or None
    return _functions.function("transpose")(self, wanted)


def flatten(self: ndarray, order: str = "C") -> ndarray:
    return call("flatten", np.ravel, (self, order), {})


def clip(self: ndarray, min: Any = None, max: Any = None, out: Any = None) -> ndarray:
    return _functions.clip(self, min, max, out)


def dot(self: ndarray, b: ndarray, out: Any = None) -> ndarray:
    return _functions.function("dot")(self, b, out)


def sort(self: ndarray, axis: int = -1, kind: str | None = None) -> None:
    _check_sorting(self, kind)
    change("sort", self, lambda raw: raw.sort(axis, kind="stable"), ())


def partition(self: ndarray, kth: Any, axis: int = -1) -> None:
    _check_sorting(self, None)
    change("partition", self, lambda raw: raw.partition(kth, axis), ())


def _check_sorting(x: ndarray, kind: str | None) -> None:
    _functions.check_sortable(x.dtype, kind)
    if not x.flags.c_contiguous:
        raise NotImplementedError("Sorting non-contiguous array is not supported.")


def put(self: ndarray, indices: Any, values: Any, mode: str = "wrap") -> None:
    where, what = _creation.array(indices, copy=None), _creation.array(values, copy=None)
    _indexing.put(self, where, what, mode)


def reduce(self: ndarray) -> tuple:
    return _creation.array, (self.get(order="A"),)


def _scatter(short: str, name: str) -> Callable[..., None]:
    def method(self: ndarray, slices: Any, value: Any) -> None:
        warnings.warn(f"`ndarray.scatter_{short}` is deprecated. Please use `cupy.{name}.at` instead.",
                      DeprecationWarning, stacklevel=2)
        _ufunc.UFUNCS[name].at(self, slices, value)

    return method


def array_ufunc(self: ndarray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's ufuncs on device arrays are CuPy's."""
    outs = kwargs.get("out", ())
    if outs:
        if len(outs) != 1:
            raise ValueError("The 'out' parameter must have exactly one array value")
        kwargs["out"] = outs[0]
    if method not in ("__call__", "outer", "at", "reduce", "accumulate", "reduceat"):
        return NotImplemented
    name = ufunc.__name__
    found = _functions.function("matmul") if name == "matmul" else _ufunc.UFUNCS.get(name)
    if found is None and name in API["cupyx.scipy.special"]:
        found = getattr(importlib.import_module("cupyx.scipy.special"), name)
    if found is None:
        return NotImplemented
    for value in (*inputs, *outs):
        like = ("__cuda_array_interface__", "__cupy_get_ndarray__")
        if not isinstance(value, (ndarray, np.ndarray, *SCALARS)) and not any(hasattr(value, name) for name in like):
            return NotImplemented
    if name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"):
        inputs = tuple([x.item() if isinstance(x, np.ndarray) and not x.ndim else x for x in inputs])
    return (found if method == "__call__" else getattr(found, method))(*inputs, **kwargs)


def array_function(self: ndarray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's functions on device arrays are CuPy's of the same name."""
    module = sys.modules["cupy"]
    try:
        for part in func.__module__.split(".")[1:]:
            module = getattr(module, part)
        found = getattr(module, func.__name__)
    except AttributeError:
        return NotImplemented
    if found is func or not all(issubclass(kind, (ndarray, np.ndarray)) for kind in types):
        return NotImplemented
    return found(*args, **kwargs)


def matmul(self: ndarray, other: Any) -> Any:
    if isinstance(other, ndarray):
        return _functions.function("matmul")(self, other)
    return NotImplemented if _ufunc.defers(self, other) else np.matmul(self, other)


def swapped_matmul(self: ndarray, other: Any) -> Any:
    return NotImplemented if _ufunc.defers(self, other) else np.matmul(other, self)


def install() -> None:
    """Gives ndarray its methods, its operators and its place among NumPy's functions."""
    _ufunc.install()
    ndarray.__getitem__, ndarray.__setitem__ = _indexing.getitem, _indexing.setitem
    for name in _SAME:
        setattr(ndarray, name, _method(name))
    for method in (reshape, transpose, flatten, clip, dot, sort, partition, put):
        setattr(ndarray, method.__name__, method)
    ndarray.conjugate = ndarray.conj
    ndarray.take = lambda self, indices, axis=None, out=None: _indexing.take(self, indices, axis, out)
    for short, name in {"add": "add", "max": "maximum", "min": "minimum"}.items():
        setattr(ndarray, f"scatter_{short}", _scatter(short, name))
    ndarray.__matmul__, ndarray.__rmatmul__ = matmul, swapped_matmul
    ndarray.__reduce__ = reduce
    ndarray.__array_ufunc__ = array_ufunc
    ndarray.__array_function__ = array_function
