"""Reductions and scans with NumPy's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.extend import Tensor
from ..shape import concat
from .table import Row, Table, cast, chosen, dims, flat, floats, tensor


def over(a: Tensor, axis: Any) -> tuple[Tensor, Any]:
    """`a` and the dimensions to reduce: for the axis () one that is added, since PyTorch takes () for all."""
    return (a.unsqueeze(-1), -1) if axis == () else (a, axis)


def _sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = 0,
         where: Any = True) -> Tensor:  # fmt: skip
    a, axis = over(chosen(tensor(a), where, 0), axis)
    result = a.sum(axis, keepdims, dtype)
    return result if initial == 0 else result + initial


def _prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = 1,
          where: Any = True) -> Tensor:  # fmt: skip
    a, axis = over(chosen(tensor(a), where, 1), axis)
    result = cast(a, dtype)
    for dim in sorted(dims(a, axis), reverse=True):
        result = result.prod(dim, keepdims)
    return result if initial == 1 else result * initial


def _extreme(reduce: str, join: str) -> Callable[..., Tensor]:
    def run(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Tensor:
        a = tensor(a)
        if where is not True:
            if initial is None:
                raise ValueError(f"np.{join} with where= needs initial=, the result where nothing is chosen")
            a = chosen(a, where, initial)
        a, axis = over(a, axis)
        result = getattr(a, reduce)(axis, keepdims)
        return result if initial is None else getattr(result, join)(result.new_tensor(initial))
    return run


def _truth(name: str, neutral: bool) -> Callable[..., Tensor]:
    def run(a: Any, axis: Any = None, keepdims: bool = False, where: Any = True) -> Tensor:
        a, axis = over(chosen(tensor(a) != 0, where, neutral), axis)
        return getattr(a, name)(axis, keepdims)
    return run


def _count(a: Tensor, where: Any, axis: Any) -> Tensor:
    """How many elements are chosen along `axis`, which is kept."""
    return tensor(where).expand(a.shape).sum(axis, True)


def _mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = True) -> Tensor:
    a, where = floats(a, dtype), where if where is True or axis != () else tensor(where).unsqueeze(-1)
    a, axis = over(a, axis)
    if where is True:
        return a.mean(axis, keepdims)
    result = chosen(a, where, 0).sum(axis, True) / _count(a, where, axis)
    return result if keepdims else result.squeeze(dims(a, axis))


def _var(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, where: Any = True,
         mean: Any = None, correction: Any = None) -> Tensor:  # fmt: skip
    a, ddof = floats(a, dtype), ddof if correction is None else correction
    a, axis = over(a, axis)
    if where is True and mean is None:
        return a.var(axis, correction=ddof, keepdim=keepdims)
    count = a.new_tensor(math.prod([a.shape[d] for d in dims(a, axis)])) if where is True else _count(a, where, axis)
    centre = chosen(a, where, 0).sum(axis, True) / count if mean is None else mean
    result = chosen(a - centre, where, 0).square().sum(axis, True) / (count - ddof)
    return result if keepdims else result.squeeze(dims(a, axis))


def _std(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, where: Any = True,
         mean: Any = None, correction: Any = None) -> Tensor:  # fmt: skip
    if where is True and mean is None:
        a, axis = over(floats(a, dtype), axis)
        return a.std(axis, correction=ddof if correction is None else correction, keepdim=keepdims)
    return _var(a, axis, dtype, ddof, keepdims, where, mean, correction).sqrt()


def _ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    a, axis = over(tensor(a), axis)
    return a.amax(axis, keepdims) - a.amin(axis, keepdims)


def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    a = floats(a)
    if weights is None:
        result, total = a.mean(axis, keepdims), a.new_tensor(float(math.prod([a.shape[d] for d in dims(a, axis)])))
    else:
        w = tensor(weights)
        if w.shape != a.shape:
            if axis is None or w.shape != tuple([a.shape[d] for d in dims(a, axis)]):
                raise ValueError(f"np.average: weights of shape {list(w.shape)} need the axis of a, whose shape is "
                                 f"{list(a.shape)}, that they belong to")
            w = w.reshape([n if d in dims(a, axis) else 1 for d, n in enumerate(a.shape)])
        total = w.expand(a.shape).sum(axis, keepdims)
        result = (a * w).sum(axis, keepdims) / total
    return (result, total.expand(result.shape)) if returned else result


def _scan(name: str, neutral: float | None = None) -> Callable[..., Tensor]:
    """cumsum or cumprod; with `neutral` for NaN."""
    def run(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        a = tensor(a)
        a, dim = flat(a if neutral is None else chosen(a, ~a.isnan(), neutral), axis)
        return getattr(a, name)(dim, dtype=dtype)
    return run


def _cumulative(name: str, neutral: float) -> Callable[..., Tensor]:
    def run(x: Any, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
        x = tensor(x)
        if axis is None and x.ndim != 1:
            raise ValueError(f"np.cumulative_{name.removeprefix('cum')}: an array of {x.ndim} dimensions needs axis=")
        dim = 0 if axis is None else axis
        result = getattr(x, name)(dim, dtype=dtype)
        if not include_initial:
            return result
        first = result.new_full([1 if d == dim % x.ndim else n for d, n in enumerate(x.shape)], neutral)
        return concat.cat([first, result], dim)
    return run


def _without_nan(run: Callable[..., Tensor], neutral: float) -> Callable[..., Tensor]:
    """The reduction `run` of what is not NaN, where its result is `neutral` if nothing is left."""
    def skipping(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = neutral,
                 where: Any = True) -> Tensor:  # fmt: skip
        a = tensor(a)
        return run(chosen(a, ~a.isnan(), neutral), axis, dtype, keepdims, initial, where)
    return skipping


def _of_numbers(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The statistic `run` of what is not NaN."""
    def skipping(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = True) -> Tensor:
        a = floats(a)
        return run(a, axis, dtype, keepdims=keepdims, where=~a.isnan() if where is True else ~a.isnan() & tensor(where))
    return skipping


def _nan_spread(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def skipping(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
                 where: Any = True, mean: Any = None, correction: Any = None) -> Tensor:  # fmt: skip
        a = floats(a)
        chosen_too = ~a.isnan() if where is True else ~a.isnan() & tensor(where)
        return run(a, axis, dtype, ddof, keepdims, chosen_too, mean, correction)
    return skipping


def _nan_extreme(reduce: str, neutral: float) -> Callable[..., Tensor]:
    def run(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        a = floats(a)
        nan = a.isnan()
        values, axis = over(chosen(a, ~nan, neutral), axis)
        result = getattr(values, reduce)(axis, keepdims)
        return chosen(result, ~over(nan, axis)[0].all(axis, keepdims), math.nan)
    return run


def _first(name: str) -> Callable[..., Tensor]:
    return lambda a, axis=None, keepdims=False: getattr(tensor(a), name)(axis, keepdims)


REDUCTIONS: Table = {
    "sum": Row("sum", _sum), "prod": Row("prod", _prod), "mean": Row("mean", _mean), "var": Row("var", _var),
    "std": Row("std", _std), "average": Row("mean", _average), "ptp": Row("aminmax", _ptp),
    "max": Row("amax", _extreme("amax", "maximum")), "min": Row("amin", _extreme("amin", "minimum")),
    "argmax": Row("argmax", _first("argmax")), "argmin": Row("argmin", _first("argmin")),
    "all": Row("all", _truth("all", True)), "any": Row("any", _truth("any", False)),
    "count_nonzero": Row("count_nonzero", lambda a, axis=None, keepdims=False: (tensor(a) != 0).sum(axis, keepdims)),
    "cumsum": Row("cumsum", _scan("cumsum")), "cumprod": Row("cumprod", _scan("cumprod")),
    "cumulative_sum": Row("cumsum", _cumulative("cumsum", 0)),
    "cumulative_prod": Row("cumprod", _cumulative("cumprod", 1)),
    "nansum": Row("nansum", _without_nan(_sum, 0)), "nanprod": Row("prod", _without_nan(_prod, 1)),
    "nancumsum": Row("cumsum", _scan("cumsum", 0)), "nancumprod": Row("cumprod", _scan("cumprod", 1)),
    "nanmean": Row("nanmean", _of_numbers(_mean)),
    "nanvar": Row("var", _nan_spread(_var)), "nanstd": Row("std", _nan_spread(_std)),
    "nanmax": Row("amax", _nan_extreme("amax", -math.inf)), "nanmin": Row("amin", _nan_extreme("amin", math.inf)),
}  # fmt: skip
REDUCTIONS.update(amax=REDUCTIONS["max"], amin=REDUCTIONS["min"])
