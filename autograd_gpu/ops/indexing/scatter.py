"""Writes along one dimension at an index tensor of the same rank: scatter, scatter_add, scatter_reduce; and
index_reduce.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.flat_index import FEW, add_at, flat_indices, grid
from ...backend.cuda import exact
from ...core.extend import LEADING, LINEAR, RECORD, SAME, Tensor, defop, other_words, public
from ..creation.factories import constant_like, full
from ..creation.from_data import as_tensor
from ..shape.reshape import expand, reshape
from .basic_index import wrap_dim
from .gather import checked, corner, vector
from .index import index_select, index_vector
from .index_put import index_copy
from .scatter_prod import scatter_prod

# The ops take tensors of one dimension or more and a negative `dim`, which the public functions ensure.


def _scatter_along(xp, x, index, src, *, dim):
    out = xp.array(x, order="C")
    if not backend.many(index, FEW):
        out[grid(xp, index, dim)] = exact.assignable(src, out)
        return out
    flat = flat_indices(out.shape, 0, grid(xp, index, dim))
    out.reshape(-1)[flat] = src.ravel() if isinstance(src, np.ndarray) else src
    return out


def _scatter_sum(xp, x, index, src, *, dim):
    return add_at(xp, xp.array(x, order="C"), -x.ndim, grid(xp, index, dim), src, "scatter_add (or scatter_reduce)")


@defop
class scatter_along:
    """A copy of x with src[i][j], or the number src, at [i][index[i][j]] for dim = -1, and so on.

    >>> ag.scatter(ag.zeros(3), 0, ag.tensor([1]), 5.0)
    tensor([0., 5., 0.])
    """

    forward = _scatter_along
    def grad_x(F, g, index, dim): return F.scatter_along(g, index, 0.0, dim)
    def grad_src(F, g, index, dim): return F.gather_along(g, index, dim)
    integral, promoted = ("index",), ("x", "src")
    types, numbers, selects_only = SAME, True, True
    scalars = ("src",)
    jvp, batch = LINEAR, LEADING


@defop
class scatter_sum:
    """x plus src[i][j] at [i][index[i][j]] for dim = -1, and so on.

    >>> ag.scatter_add(ag.zeros(3), 0, ag.tensor([1, 1]), ag.tensor([1.0, 2.0]))
    tensor([0., 3., 0.])
    """

    forward = _scatter_sum
    def grad_x(F, g): return g
    def grad_src(F, g, index, dim): return F.gather_along(g, index, dim)
    integral, promoted, types = ("index",), ("x", "src"), SAME
    jvp, batch = LINEAR, LEADING


def _scatter_counts(xp, x, index, *, dim, first):
    counts = xp.full(x.shape, first, dtypes.int64)
    ones = xp.ones(index.shape, dtypes.int64)
    return xp.maximum(add_at(xp, counts, -x.ndim, grid(xp, index, dim), ones, "scatter_reduce"), 1).astype(x.dtype)


@defop
class scatter_counts:
    """How often each index along `dim` occurs in `index`, plus `first`, at least 1; in the shape and dtype of x.

    >>> from autograd_gpu.ops.indexing.scatter import scatter_counts
    >>> scatter_counts(ag.zeros(3), ag.tensor([1, 1]), -1, 1)
    tensor([1., 3., 1.])
    """

    forward = _scatter_counts
    nondiff = True
    batch = LEADING


# ---- maxima and minima -----------------------------------------------------------------------------------


def _ordered(xp, x, largest):
    """x as integers in the same order, for CuPy's atomic maxima; NaN is above or, unless `largest`, below all."""
    if x.dtype in dtypes.FLOATS:
        x = x.astype(dtypes.float64 if x.dtype == dtypes.float64 else dtypes.float32, copy=False)
        x = backend.where(xp, xp.isnan(x), x.dtype.type(np.nan if largest else -np.nan), x)
        bits = x.view(f"i{x.itemsize}")
        x = bits ^ (bits >> 8 * x.itemsize - 1 & np.iinfo(bits.dtype).max)
    if x.dtype == dtypes.int64:
        return x.view(dtypes.uint64) ^ np.uint64(1 << 63)
    return x if x.dtype in (dtypes.uint32, dtypes.uint64) else x.astype(dtypes.int32, copy=False)


def _restored(xp, keys, dtype):
    """The inverse of `_ordered`: the numbers of `dtype` for `keys`."""
    if dtype in dtypes.FLOATS:
        bits = (keys ^ np.uint64(1 << 63)).view(dtypes.int64) if keys.itemsize == 8 else keys
        bits = bits ^ (bits >> 8 * bits.itemsize - 1 & np.iinfo(bits.dtype).max)
        return bits.view(f"f{bits.itemsize}").astype(dtype, copy=False)
    if dtype == dtypes.int64:
        return (keys ^ np.uint64(1 << 63)).view(dtypes.int64)
    return keys.astype(dtype, copy=False)


def extremes_at(xp, x, key, src, largest):
    """A copy of x with the maximum (or minimum) of x[key] and src at `key`. On CUDA it is computed on integers, since
    CuPy's atomic maximum of float64 rounds to float32 and ignores NaN.
    """
    ufunc = xp.maximum if largest else xp.minimum
    out, src = _ordered(xp, x, largest).copy(), _ordered(xp, src, largest)
    ufunc.at(out, key, src)
    return _restored(xp, out, x.dtype)


def _scatter_extreme_cuda(xp, x, index, src, *, dim, largest):
    return extremes_at(xp, x, grid(xp, index, dim), src, largest) if src.size else xp.array(x)


def _scatter_extreme(xp, x, index, src, *, dim, largest):
    if not src.size:
        return xp.array(x)
    if x.dtype == dtypes.bfloat16:
        return _scatter_extreme_cuda(xp, x, index, src, dim=dim, largest=largest)
    out = np.array(x, order="C")
    ufunc = np.maximum if largest else np.minimum
    with np.errstate(invalid="ignore"):  # NumPy warns about NaN
        ufunc.at(out.reshape(-1), flat_indices(out.shape, 0, grid(np, index, dim)), src.ravel())
    return out


def _winners(F, x, index, src, out, dim):
    """1 for the elements of x and of src that equal the result, else 0; NaN equals NaN."""
    value = F.gather_along(out, index, dim)
    mine = F.cast(F.logical_or(F.eq(x, out), F.isnan(x)), x.dtype)
    return mine, F.cast(F.logical_or(F.eq(src, value), F.isnan(src)), x.dtype)


def _extreme_back(F, g, need, x, index, src, out, dim):
    mine, theirs = _winners(F, x, index, src, out, dim)
    share = g / F.scatter_sum(mine, index, theirs, dim)
    return mine * share if need[0] else None, None, theirs * F.gather_along(share, index, dim) if need[2] else None


def _extreme_jvp(F, t, x, index, src, out, dim):
    mine, theirs = _winners(F, x, index, src, out, dim)
    x_t, _, src_t = t
    total = F.constant_like(x, 0.0) if x_t is None else mine * x_t
    if src_t is not None:
        total = F.scatter_sum(total, index, theirs * src_t, dim)
    return total / F.scatter_sum(mine, index, theirs, dim)


@defop
class scatter_extreme:
    """The larger (or smaller) of x and src[i][j] at [i][index[i][j]] for dim = -1, and so on; ties share the gradient.

    >>> from autograd_gpu.ops.indexing.scatter import scatter_extreme
    >>> scatter_extreme(ag.ones(2), ag.tensor([1, 1]), ag.tensor([3.0, 2.0]), -1, True)
    tensor([1., 3.])
    """

    forward, cuda = _scatter_extreme, _scatter_extreme_cuda
    grads = _extreme_back
    integral, promoted, types = ("index",), ("x", "src"), SAME
    jvp, batch = _extreme_jvp, LEADING
    no_lossy_save = True


# ---- the public functions ------------------------------------------------------------------------------


def as_source(src: Any) -> Any:
    """An array as a constant tensor; tensors and numbers as they are."""
    return as_tensor(src) if backend.is_array(src) else src


@public(methods=True, inplace=True, out=True)
@other_words
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """A copy of input with `src`, a tensor or a number, at the indices `index` along `dim`. A number may also be passed
    as `value`.

    For repeated indices it is undefined which element is written, and the gradient of src is wrong. With `reduce` "add"
    or "multiply" every element of src counts, see scatter_reduce.

    >>> ag.scatter(ag.zeros(3), 0, ag.tensor([2, 0]), ag.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    if src is not None and value is not None:
        raise TypeError("scatter(): takes src, a tensor, or value, a number, not both")
    src = as_source(value if src is None else src)
    if src is None:
        raise TypeError("scatter(): missing 1 required argument: src, a tensor, or value, a number")
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
        src = src if isinstance(src, Tensor) else full(index.shape, src, dtype=input.dtype, device=input.device)
        return scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod")
    is_tensor = isinstance(src, Tensor)
    dim, index = checked("scatter", input, dim, index, src if is_tensor else None)
    index = vector(index)
    values = corner(vector(src), index) if is_tensor else dtypes.fitting(src, input.dtype)
    result = scatter_along(vector(input), index, values, dim)
    return result if input.ndim else reshape(result, ())


@public(methods=True, inplace=True, out=True)
@other_words
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input plus the elements of `src` at the indices `index` along `dim`; out of place.

    >>> ag.scatter_add(ag.ones(3), 0, ag.tensor([1, 1]), ag.tensor([1.0, 2.0]))
    tensor([1., 4., 1.])
    """
    src = as_source(src)
    dim, index = checked("scatter_add", input, dim, index, src)
    index = vector(index)
    result = scatter_sum(vector(input), index, corner(vector(src), index), dim)
    return result if input.ndim else reshape(result, ())


def _means(x: Tensor, index: Tensor, src: Tensor, dim: int, include_self: bool) -> Tensor:
    counts, total = scatter_counts(x, index, dim, int(include_self)), scatter_sum(x, index, src, dim)
    return total / counts if x.dtype in dtypes.FLOATS else RECORD.floor_divide(total, counts)


def _limit(dtype: np.dtype, largest: bool) -> float:
    """The lower (or upper) bound of all numbers of `dtype`."""
    if dtype in dtypes.FLOATS:
        return -np.inf if largest else np.inf
    if dtype == dtypes.bool_:
        return not largest
    return int(np.iinfo(dtype).min if largest else np.iinfo(dtype).max)


_START: dict[str, Any] = {
    "sum": lambda dtype: 0, "mean": lambda dtype: 0, "prod": lambda dtype: 1,
    "amax": lambda dtype: _limit(dtype, True), "amin": lambda dtype: _limit(dtype, False),
}  # fmt: skip


def _reduced(x: Tensor, index: Tensor, src: Tensor, dim: int, reduce: str, include_self: bool) -> Tensor:
    if x.dtype in dtypes.HALF and reduce in ("mean", "prod"):  # one rounding instead of several
        wide = _reduced(x.to(dtypes.float32), index, src.to(dtypes.float32), dim, reduce, include_self)
        return wide.to(x.dtype)
    if not include_self:
        x = scatter_along(x, index, constant_like(src, _START[reduce](x.dtype)), dim)
    if reduce == "sum":
        return scatter_sum(x, index, src, dim)
    if reduce == "mean":
        return _means(x, index, src, dim, include_self)
    if reduce == "prod":
        return scatter_prod(x, index, src, dim)
    return scatter_extreme(x, index, src, dim, reduce == "amax")


@public(methods=True, inplace=True, out=True)
@other_words
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The "sum", "prod", "mean", "amax" or "amin" of all elements of `src` with the same index along `dim` and, with
    `include_self`, of the element of input at that index; input where no index points to. Out of place.

    Equal maxima (minima) share the gradient equally.

    >>> i = ag.tensor([0, 0, 1])
    >>> ag.scatter_reduce(ag.zeros(3), 0, i, ag.tensor([1.0, 2.0, 3.0]), "mean", include_self=False)
    tensor([1.5, 3. , 0. ])
    """
    at, index = checked("scatter_reduce", input, dim, index, src)
    if reduce not in _START:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    index = vector(index)
    result = _reduced(vector(input), index, corner(vector(src), index), at, reduce, include_self)
    return result if input.ndim else reshape(result, ())


def _distinct(index: Tensor) -> bool:
    """Whether `index`, small and on the CPU, has no repeated indices."""
    if type(index._array) is not np.ndarray or index.numel() > FEW:
        return False
    numbers = index._array.tolist()
    return min(numbers, default=0) >= 0 and len(set(numbers)) == len(numbers)


@public(methods=True, inplace=True, out=True)
@other_words
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The "prod", "mean", "amax" or "amin" of all source[k] with the same index[k] along `dim` and, with
    `include_self`, of the element of input at that index; see scatter_reduce, and index_add for sums.

    >>> ag.index_reduce(ag.ones(2), 0, ag.tensor([1, 1]), ag.tensor([2.0, 3.0]), "prod")
    tensor([1., 6.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    index, at = index_vector("index_reduce", index), wrap_dim(dim, input.ndim)
    x1, source = vector(input), vector(source)
    expected = (*x1.shape[:at], index.shape[0], *x1.shape[at + 1 :])
    if source.shape != expected:
        raise RuntimeError("index_reduce(): source must have the shape of self, with the number of indices at "
                           f"dimension {at}: expected {list(expected)}, got {list(source.shape)}")
    if reduce == "prod" and x1._array.dtype is source._array.dtype in dtypes.FULL_FLOATS and _distinct(index):
        factors = index_select(x1, at, index) * source if include_self else source
        result = index_copy(x1, at, index, factors)
    else:
        index = expand(reshape(index, (-1, *(1,) * (x1.ndim - 1 - at))), source.shape)
        result = scatter_reduce(x1, at, index, source, reduce, include_self=include_self)
    return result if input.ndim else reshape(result, ())
