"""Functions of elements, differences, order and selection with NumPy's arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.extend import Tensor
from ..creation import like
from ..elementwise import bessel, clamp, comparison, rounding, trigonometric, unary
from ..indexing import gather, index, masked
from ..reduction import covariance, difference
from ..shape import concat, diagonal
from ..sorting import histogram, quantile, searchsorted, sort, unique
from .table import Row, Table, dims, flat, floats, tensor, tensors

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
_absent = object()


def _where(condition: Any, x: Any = _absent, y: Any = _absent) -> Any:
    condition = tensors([condition, x, y])[0] if x is not _absent else tensor(condition)
    chosen = condition if condition.dtype == np.bool_ else condition != 0
    return sort.nonzero(chosen, as_tuple=True) if x is _absent else masked.where(chosen, x, y)


def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = masked.where(tensor(condition), choice, result)
    return result


def _clip(a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None) -> Tensor:
    return clamp.clamp(tensor(a), a_min if min is None else min, a_max if max is None else max)


def _round(a: Any, decimals: int = 0) -> Tensor:
    return rounding.round(tensor(a), decimals=decimals)


def _angle(z: Any, deg: bool = False) -> Tensor:
    z = floats(z)
    return masked.where(z < 0, 180.0 if deg else math.pi, z * 0)


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    a = tensor(a)
    edge = [1 if d == axis % a.ndim else size for d, size in enumerate(a.shape)]

    def end(value: Any) -> Tensor | None:
        return None if value is None else t if (t := tensors([a, value])[1]).ndim else t.expand(edge)

    return difference.diff(a, n, axis, end(prepend), end(append))


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    steps = difference.diff(tensor(ary).ravel())
    parts = [tensors([steps, part])[1].ravel() for part in (to_begin, to_end) if part is not None]
    return concat.cat([*parts[: to_begin is not None], steps, *parts[to_begin is not None :]]) if parts else steps


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = floats(f)
    along = list(dims(f, axis))
    spacing = list(varargs) or [1.0]
    if len(spacing) == 1 and np.ndim(spacing[0]) == 0:
        spacing *= len(along)
    if len(spacing) != len(along):
        raise TypeError(f"np.gradient: {len(spacing)} spacings for {len(along)} axes; give one, or one for each axis")
    steps = [step if np.ndim(step) == 0 else (tensors([f, step])[1],) for step in spacing]
    results = [difference.gradient(f, spacing=step, dim=dim, edge_order=edge_order)[0]
               for step, dim in zip(steps, along, strict=True)]  # fmt: skip
    return results[0] if len(along) == 1 else tuple(results)


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    y = tensor(y)
    if x is None:
        return difference.trapezoid(y, dx=dx, dim=axis)
    return difference.trapezoid(y, tensors([y, x])[1], dim=axis)


def _polyval(p: Any, x: Any) -> Tensor:
    p, x = tensors([p, x])
    result = x * 0
    for coefficient in p.unbind(0):
        result = result * x + coefficient
    return result


def _cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
         aweights: Any = None, dtype: Any = None) -> Tensor:  # fmt: skip
    parts = tensors([m] if y is None else [m, y])
    if not rowvar:
        parts = [p.T if p.ndim == 2 and p.shape[0] != 1 else p for p in parts]
    rows = parts[0] if y is None else concat.cat([p if p.ndim == 2 else p.unsqueeze(0) for p in parts])
    weights = [None if w is None else tensors([rows, w])[1] for w in (fweights, aweights)]
    correction = (0 if bias else 1) if ddof is None else ddof
    return covariance.cov(floats(rows, dtype), correction=correction, fweights=weights[0], aweights=weights[1])


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Tensor:
    c = _cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    d = diagonal.diag(c).sqrt()
    return c / d.unsqueeze(1) / d


def _quantile(name: str, scale: float, a: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Tensor:
    if method not in METHODS:
        raise TypeError(f"np.{name}: method={method!r} is not defined for tensors, which take {', '.join(METHODS)}; "
                        "use one of them, or ag.sort and a formula of your own")
    a = floats(a)
    kept = dims(a, axis)
    rest = [d for d in range(a.ndim) if d not in kept]
    rows = a.permute((*rest, *kept)).reshape((*[a.shape[d] for d in rest], -1))
    ranks = tensors([a, q])[1].to(a.dtype) / scale
    function = quantile.nanquantile if name.startswith("nan") else quantile.quantile
    result = function(rows, ranks.ravel(), -1, interpolation=method)
    shape = [1 if d in kept else n for d, n in enumerate(a.shape)] if keepdims else [a.shape[d] for d in rest]
    return result.reshape((*ranks.shape, *shape))


def _quantiles(name: str, scale: float) -> Any:
    return lambda a, q, axis=None, overwrite_input=False, method="linear", keepdims=False: _quantile(
        name, scale, a, q, axis, method, keepdims)  # fmt: skip


def _median(name: str) -> Any:
    return lambda a, axis=None, overwrite_input=False, keepdims=False: _quantile(
        name, 1.0, a, 0.5, axis, "linear", keepdims)  # fmt: skip


def _sort(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None) -> Tensor:
    return sort.sort(*flat(tensor(a), axis))[0]


def _argsort(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None) -> Tensor:
    return sort.argsort(*flat(tensor(a), axis))


def _take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    a = tensor(a)
    a, dim = flat(a, axis)
    return index.getitem(a, (slice(None),) * (dim % a.ndim) + (tensors([a, indices])[1],))


def _take_along(arr: Tensor, indices: Any, axis: int | None) -> Tensor:
    arr, dim = flat(tensor(arr), axis)
    places = tensors([arr, indices])[1]
    return gather.take_along_dim(arr, places.ravel() if axis is None else places, dim)


def _compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    a, dim = flat(tensor(a), axis)
    places = sort.nonzero(tensors([a, condition])[1] != 0, as_tuple=True)[0]
    return index.getitem(a, (slice(None),) * (dim % a.ndim) + (places,))


def _unique(ar: Any, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None) -> Any:
    return unique.unique(tensor(ar), True, return_inverse, return_counts, axis)


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    a, v = tensors([a, v])
    return searchsorted.searchsorted(a, v, side=side, sorter=None if sorter is None else tensors([a, sorter])[1])


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    x = tensor(x)
    return histogram.bincount(x, None if weights is None else tensors([x, weights])[1], minlength)


def _isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False,
          kind: Any = None) -> Tensor:  # fmt: skip
    return sort.isin(*tensors([element, test_elements]), assume_unique, invert)


def close(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    a, b = tensors([a, b])
    wide = np.promote_types(a.dtype, b.dtype)
    return comparison.isclose(a.to(wide), b.to(wide), rtol, atol, equal_nan)


def _linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Tensor:
    start, stop = (floats(end) for end in tensors([start, stop]))
    part = tensors([start, list(np.linspace(0.0, 1.0, num, endpoint))])[1].to(start.dtype)
    result = start + (stop - start) * part.reshape((num,) + (1,) * max(start.ndim, stop.ndim))
    return result if dtype is None else result.to(dtype)


def _filled(fill: Any) -> Any:
    return lambda a, dtype=None, shape=None: like.new_full(a, a.shape if shape is None else shape, fill, dtype=dtype)


def _full_like(a: Tensor, fill_value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    return like.new_full(a, a.shape if shape is None else shape, fill_value, dtype=dtype)


def _empty_like(prototype: Tensor, dtype: Any = None, shape: Any = None) -> Tensor:
    return like.new_empty(prototype, prototype.shape if shape is None else shape, dtype=dtype)


ELEMENTS: Table = {
    "where": Row("where", _where), "select": Row("where", _select), "clip": Row("clamp", _clip),
    "round": Row("round", _round), "around": Row("round", _round),
    "fix": Row("fix", lambda x: rounding.trunc(tensor(x))),
    "nan_to_num": Row("nan_to_num", lambda x, nan=0.0, posinf=None, neginf=None: unary.nan_to_num(
        tensor(x), nan, posinf, neginf)),
    "sinc": Row("sinc", lambda x: trigonometric.sinc(floats(x))), "i0": Row("i0", lambda x: bessel.i0(floats(x))),
    "angle": Row("where", _angle, "of real numbers: 0 or pi, NaN where the number is"),
    "real": Row("real", lambda val: val),
    "astype": Row("Tensor.to", lambda x, dtype, copy=True: x.to(dtype, copy=copy)),
    "isclose": Row("isclose", close), "isneginf": Row("isneginf", lambda x: comparison.isneginf(tensor(x))),
    "isposinf": Row("isposinf", lambda x: comparison.isposinf(tensor(x))),
    "isreal": Row("isreal", lambda x: comparison.isreal(x)), "isin": Row("isin", _isin),
    "diff": Row("diff", _diff), "ediff1d": Row("diff", _ediff1d), "gradient": Row("gradient", _gradient),
    "trapezoid": Row("trapezoid", _trapezoid), "polyval": Row("add", _polyval),
    "cov": Row("cov", _cov), "corrcoef": Row("corrcoef", _corrcoef),
    "median": Row("quantile", _median("median")), "nanmedian": Row("nanquantile", _median("nanmedian")),
    "quantile": Row("quantile", _quantiles("quantile", 1.0)),
    "percentile": Row("quantile", _quantiles("percentile", 100.0)),
    "nanquantile": Row("nanquantile", _quantiles("nanquantile", 1.0)),
    "nanpercentile": Row("nanquantile", _quantiles("nanpercentile", 100.0)),
    "sort": Row("sort", _sort), "argsort": Row("argsort", _argsort), "searchsorted": Row("searchsorted", _searchsorted),
    "unique": Row("unique", _unique), "unique_values": Row("unique", lambda x: unique.unique(tensor(x))),
    "linspace": Row("linspace", _linspace), "bincount": Row("bincount", _bincount),
    "take": Row("index_select", _take), "take_along_axis": Row("take_along_dim", _take_along),
    "compress": Row("masked_select", _compress),
    "extract": Row("masked_select", lambda condition, arr: _compress(tensors([arr, condition])[1].ravel(), arr)),
    "nonzero": Row("nonzero", lambda a: sort.nonzero(a, as_tuple=True)),
    "flatnonzero": Row("nonzero", lambda a: sort.nonzero(a.ravel(), as_tuple=True)[0]),
    "argwhere": Row("argwhere", lambda a: sort.argwhere(a)),
    "zeros_like": Row("zeros_like", _filled(0)), "ones_like": Row("ones_like", _filled(1)),
    "full_like": Row("full_like", _full_like), "empty_like": Row("empty_like", _empty_like),
}  # fmt: skip
