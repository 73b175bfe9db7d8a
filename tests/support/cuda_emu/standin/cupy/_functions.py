"""The functions of the module cupy that are NumPy's, as far as CuPy has them and with its parameters.

    views       reshape, transpose, ...: taken at once where NumPy gives a view, copied otherwise
    now         results that depend on values: the host waits
    changing    put, copyto, ...: write into their first argument
    metadata    answered from shapes and dtypes
    the rest    computed later, in the current stream
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _creation, _indexing, _loops, _reductions
from ._access import refuse_overlap
from ._array import as_array, ndarray, viewed
from ._call import call, call_now, change, unpack
from ._errors import CompileException
from ._memory import view
from ._state import current_queue
from ._table import API
from ._ufunc import CLIP, WHERE, ufunc

VIEWS = frozenset((
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "diagonal", "dsplit",
    "expand_dims", "flip", "fliplr", "flipud", "hsplit", "imag", "matrix_transpose", "moveaxis", "permute_dims",
    "ravel", "real", "reshape", "rollaxis", "rot90", "split", "squeeze", "swapaxes", "transpose", "unstack", "vsplit",
))  # fmt: skip
NOW = frozenset((
    "apply_along_axis", "argwhere", "bincount", "compress", "delete", "extract", "flatnonzero", "histogram",
    "histogram2d", "histogramdd", "histogram_bin_edges", "insert", "intersect1d", "nonzero", "piecewise", "poly",
    "polyfit", "roots", "setdiff1d", "setxor1d", "trim_zeros", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
))  # fmt: skip
CHANGING = frozenset(("place", "put_along_axis", "putmask"))
METADATA = frozenset((
    "can_cast", "common_type", "iscomplexobj", "isfortran", "isrealobj", "isscalar", "issubdtype", "may_share_memory",
    "min_scalar_type", "mintypecode", "ndim", "promote_types", "result_type", "shape", "shares_memory", "size",
    "broadcast_shapes", "iterable",
))  # fmt: skip
MADE_FROM_NUMBERS = frozenset((
    "arange", "bartlett", "blackman", "diag_indices", "eye", "fromfunction", "geomspace", "hamming", "hanning",
    "identity", "indices", "kaiser", "linspace", "logspace", "mask_indices", "tri", "tril_indices", "triu_indices",
))  # fmt: skip
# Sums of half types are kept in float32 and rounded once.
WIDE = frozenset(("var", "std", "nanvar", "nanstd", "trace"))
_BY_CUBLAS = frozenset(("dot", "einsum", "inner", "matmul", "tensordot", "vdot"))
# Those that sort their arguments.
SORTING = frozenset(("in1d", "intersect1d", "isin", "lexsort", "setdiff1d", "setxor1d", "union1d", "unique",
                     "unique_all", "unique_counts", "unique_inverse", "unique_values"))  # fmt: skip
SORTED = frozenset(("argpartition", "argsort", "partition", "sort"))
SCANS = frozenset(("cumprod", "cumproduct", "cumsum", "nancumprod", "nancumsum"))
RENAMED = {"alltrue": "all", "sometrue": "any", "product": "prod", "cumproduct": "cumprod", "round_": "round",
           "trapz": "trapezoid", "in1d": "isin"}  # fmt: skip


@functools.cache
def function(name: str) -> Callable[..., Any]:
    """cupy.<name>, made of NumPy's function."""
    parameters = API["cupy"][name]
    return made(name, getattr(np, RENAMED.get(name, name)), ["*args", "**kwargs"] if parameters is None else parameters)


def made(
    name: str, numpy_function: Callable[..., Any], parameters: list[str], run: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A function of device arrays with CuPy's `parameters`, which runs `numpy_function` (or `run`)."""
    run = run or _kind(name, numpy_function, parameters)
    variadic = any(parameter.startswith("*") for parameter in parameters)
    allowed = frozenset(parameters)
    out_at = parameters.index("out") if "out" in allowed else sys.maxsize

    @functools.wraps(numpy_function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not variadic:
            if len(args) > len(parameters):
                raise TypeError(f"{name}() takes {len(parameters)} positional arguments but {len(args)} were given")
            for keyword in kwargs:
                if keyword not in allowed:
                    raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
        if len(args) > out_at:
            kwargs["out"], args = args[out_at], (*args[:out_at], *args[out_at + 1 :])
        return run(*args, **kwargs)

    checked.__module__ = "cupy"
    checked.__signature__ = _signature(parameters)  # type: ignore[attr-defined]
    return checked


def _signature(parameters: list[str]) -> inspect.Signature:
    kinds = {0: inspect.Parameter.POSITIONAL_OR_KEYWORD, 1: inspect.Parameter.VAR_POSITIONAL,
             2: inspect.Parameter.VAR_KEYWORD}  # fmt: skip
    result, seen = [], False
    for name in parameters:
        kind = kinds[name.count("*")]
        if seen and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            kind = inspect.Parameter.KEYWORD_ONLY
        seen = seen or kind is inspect.Parameter.VAR_POSITIONAL
        result.append(inspect.Parameter(name.lstrip("*"), kind))
    return inspect.Signature(result)


def _with_numpys_names(numpy_function: Callable[..., Any], parameters: list[str]) -> Callable[..., Any]:
    """`numpy_function` under CuPy's parameter names, where these differ."""
    try:
        theirs = list(inspect.signature(numpy_function).parameters)
    except ValueError:
        theirs = []
    renamed = {ours: other for ours, other in zip(parameters, theirs, strict=False)
               if ours != other and ours not in theirs and "*" not in ours and other not in parameters}
    if not renamed:
        return numpy_function

    @functools.wraps(numpy_function)
    def translated(*args: Any, **kwargs: Any) -> Any:
        return numpy_function(*args, **{renamed.get(name, name): value for name, value in kwargs.items()})

    return translated


def _kind(name: str, numpy_function: Callable[..., Any], parameters: list[str]) -> Callable[..., Any]:
    if RENAMED.get(name, name) in _reductions.TABLES:
        reduction = _reductions.reduction(RENAMED.get(name, name), numpy_function, parameters)
        return functools.partial(_later, name, reduction, True)
    numpy_function = _with_numpys_names(numpy_function, parameters)
    if name in VIEWS:
        return functools.partial(_view, name, numpy_function)
    if name in NOW:
        return functools.partial(_now, name, numpy_function)
    if name in CHANGING:
        return functools.partial(_change, name, numpy_function)
    if name in METADATA:
        return functools.partial(_metadata, numpy_function)
    if name in WIDE:
        numpy_function = _wide(numpy_function)
    elif name in SORTED:
        numpy_function = _by_thrust(numpy_function)
    return functools.partial(_later, name, numpy_function, name not in MADE_FROM_NUMBERS)


def _later(name: str, numpy_function: Callable[..., Any], needs_array: bool, *args: Any, **kwargs: Any) -> Any:
    out = kwargs.pop("out", None)
    if name in SORTING:
        _check_sorted(args)
    if name in SCANS:
        _check_scanned(name, out, *args, **kwargs)
    if needs_array and not _has_array(args) and not _has_array(tuple(kwargs.values())):
        raise TypeError(f"cupy.{name}: the argument must be a cupy.ndarray, not {type(args[0] if args else None)}")
    if name in ("dot", "matmul") and not all(isinstance(arg, ndarray) for arg in args[:2]):
        found = next(type(arg).__name__ for arg in args[:2] if not isinstance(arg, ndarray))
        raise TypeError(f"cupy.{name}: argument has incorrect type (expected ndarray, got {found})")
    if name in _BY_CUBLAS and current_queue().capture is not None:
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
    return call(name, numpy_function, args, kwargs, out)


def _has_array(values: Any) -> bool:
    return any(_has_array(value) if isinstance(value, (tuple, list)) else as_array(value) is not None
               for value in values)


def _now(name: str, numpy_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if name == "nonzero" and not args[0].ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use cp.atleast_1d(scalar).nonzero() instead.")
    if name in SORTING:
        _check_sorted(args)
    return call_now(name, numpy_function, args, kwargs)


def _change(name: str, numpy_function: Callable[..., Any], target: ndarray, *args: Any, **kwargs: Any) -> None:
    if type(target) is not ndarray:
        raise TypeError(f"cupy.{name} changes a cupy.ndarray, not {type(target)}")
    change(name, target, functools.partial(numpy_function, **kwargs), args)


def _metadata(numpy_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return numpy_function(*unpack(args, [])[0], **{name: unpack(value, [])[0] for name, value in kwargs.items()})


def _view(name: str, numpy_function: Callable[..., Any], a: Any, *args: Any, **kwargs: Any) -> Any:
    """What NumPy gives as a view is one here, with the memory of `a`; else the function is work for the stream."""
    if args and name.startswith("atleast"):
        return [_view(name, numpy_function, one) for one in (a, *args)]
    if type(a) is not ndarray:
        a = as_array(a)
        if a is None:
            raise TypeError(f"cupy.{name}: the argument must be a cupy.ndarray")
    raw = a._a
    result = numpy_function(raw, *args, **kwargs)
    several = isinstance(result, (tuple, list))
    for part in result if several else (result,):
        if part.size and (part.base is None or not np.may_share_memory(part, raw)):
            return call(name, numpy_function, (a, *args), kwargs)
    if several:
        return type(result)([viewed(a, _writable(part)) for part in result])
    return a if result is raw else viewed(a, _writable(result))


def _writable(raw: np.ndarray) -> np.ndarray:
    """CuPy's views can be written to, broadcast ones and diagonals too."""
    if raw.flags.writeable:
        return raw
    return view(raw.__array_interface__["data"][0] if raw.size else 0, raw.shape, raw.dtype, raw.strides)


def _wide(numpy_function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(numpy_function)
    def run(a: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        dtype = a.dtype
        if dtype.itemsize != 2 or dtype.kind not in "fV" or kwargs.get("dtype") is not None or len(args) > 1:
            return numpy_function(a, *args, **kwargs)
        return np.asarray(numpy_function(a.astype(np.float32), *args, **kwargs)).astype(dtype)

    return run


def _by_thrust(numpy_function: Callable[..., Any]) -> Callable[..., Any]:
    """Sorting as Thrust does it: stable, and of NumPy's own dtypes only."""

    @functools.wraps(numpy_function)
    def run(a: np.ndarray, *args: Any, kind: str | None = None, **kwargs: Any) -> Any:
        check_sortable(a.dtype, kind)
        stable = {"kind": "stable"} if "sort" in numpy_function.__name__ else {}
        return numpy_function(a, *args, **kwargs, **stable)

    return run


def _check_sorted(args: tuple) -> None:
    """Every array among the arguments, alone or in a list, has to be of a dtype that Thrust sorts."""
    for arg in args:
        for one in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(one, ndarray):
                check_sortable(one.dtype, None)


def check_sortable(dtype: np.dtype, kind: str | None) -> None:
    if kind is not None and kind != "stable":
        raise ValueError("kind can only be None or 'stable'")
    if dtype.char not in "?bBhHiIlLqQefdFD":
        raise NotImplementedError(f"Sorting arrays with dtype '{dtype}' is not supported")


def _check_scanned(name: str, out: Any, a: Any, axis: Any = None, dtype: Any = None) -> None:
    """CompileException for elements of bfloat16: CuPy's kernels for scans use += and *=, which its bfloat16 lacks.

    A scan of nothing along an axis compiles its kernel all the same, unless it is that axis that has no elements.
    """
    kept = np.dtype(dtype) if dtype is not None else a.dtype if out is None else out.dtype
    if kept.name == "bfloat16" and (a.size if axis is None else a.shape[axis]):
        operator = "*=" if "prod" in name else "+="
        raise CompileException(f'error: no operator "{operator}" matches these operands', "", name, ())


def special(name: str) -> Callable[..., Any] | None:
    """cupyx.scipy.special.<name>, made of SciPy's function."""
    theirs, parameters = getattr(importlib.import_module("scipy.special"), name, None), API["cupyx.scipy.special"][name]
    if theirs is None:
        return None
    if parameters != "ufunc":
        return made(name, theirs, parameters or [])
    loop = _loops.loops(f"cupyx.scipy.special.{name}")[0]
    return ufunc(f"cupyx.scipy.special.{name}", name, theirs, len(loop.taken), len(loop.given))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return call_now("where", np.nonzero, (condition,), {})
    if x is None or y is None:
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    return WHERE(condition.astype(bool, copy=False), x, y)


def _triangle(lower: bool, m: Any, k: int = 0) -> ndarray:
    """cupy.tril and triu: a mask, and where."""
    m = _creation.asarray(m)
    mask = function("tri")(*m.shape[-2:], k=k if lower else k - 1, dtype=bool)
    zero = m.dtype.type(0)
    return WHERE(mask, m, zero) if lower else WHERE(mask, zero, m)


def tril(m: Any, k: int = 0) -> ndarray:
    return _triangle(True, m, k)


def triu(m: Any, k: int = 0) -> ndarray:
    return _triangle(False, m, k)


def clip(a: ndarray, a_min: Any, a_max: Any, out: ndarray | None = None) -> ndarray:
    """Only NumPy's own dtypes may leave a bound out."""
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    if a.dtype.kind in "iu":
        limits = np.iinfo(a.dtype)
        bounds = limits.min, limits.max
    else:
        bounds = (a.dtype.type("-inf"), a.dtype.type("inf")) if a.dtype.kind == "f" else (None, None)
    a_min, a_max = bounds[0] if a_min is None else a_min, bounds[1] if a_max is None else a_max
    return CLIP(a, a_min, a_max, out=out)


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: ndarray | None = None) -> None:
    if not np.can_cast(src.dtype if hasattr(src, "dtype") else np.result_type(src), dst.dtype, casting):
        raise TypeError(f"Cannot cast array data to {dst.dtype!r} according to the rule {casting!r}")
    if where is None and isinstance(src, ndarray) and _by_memcpy(dst, src) and src.data.ptr != dst.data.ptr:
        refuse_overlap("copyto", dst, src)
    given = (src,) if where is None else (src, casting, where)
    change("copyto", dst, np.copyto, given)


def _by_memcpy(dst: ndarray, src: ndarray) -> bool:
    c = dst.flags.c_contiguous and src.flags.c_contiguous
    f = dst.flags.f_contiguous and src.flags.f_contiguous
    return (c or f) and dst.dtype == src.dtype and dst.size == src.size


def fill_diagonal(a: ndarray, val: Any, wrap: bool = False) -> None:
    """CuPy assigns to a slice of `a.flat`, which copies `val` to the device first: a number as a fill."""
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    value = _creation.asarray(val, a.dtype)
    change("fill_diagonal", a, lambda raw, filling: np.fill_diagonal(raw, filling, wrap), (value,))


def broadcast_arrays(*args: ndarray) -> list[ndarray]:
    shape = np.broadcast_shapes(*[array.shape for array in args])
    return [function("broadcast_to")(array, shape) for array in args]


def own() -> dict[str, Any]:
    """Functions that have a definition of their own."""
    own = {name: value for name, value in vars(_creation).items() if name in API["cupy"] and callable(value)}
    return {**own, "asanyarray": _creation.asarray, "broadcast_arrays": broadcast_arrays, "copyto": copyto,
            "fill_diagonal": fill_diagonal, "where": where, "tril": tril, "triu": triu, "clip": clip,
            "put": _indexing.put, "take": _indexing.take, "take_along_axis": _indexing.take_along_axis}  # fmt: skip
