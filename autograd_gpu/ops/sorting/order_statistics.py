"""Order statistics: kthvalue, median, mode."""

from __future__ import annotations

import math
from typing import Any

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.dtypes import wide
from ...backend.arrays.ranks import or_nan, order_up_to
from ...core.extend import LEADING, Tensor, along, defop, other_words, public, rank
from ..indexing.basic_index import wrap_dim
from ..reduction.minmax import grad_at_indices, refuse_empty, tangent_at_indices

# ---- kthvalue and mode ---------------------------------------------------------------------------------


def _last(x, at):
    """x with dimension `at` as its last; np.moveaxis takes twenty times as long."""
    return x if at == x.ndim - 1 else x.transpose([*(d for d in range(x.ndim) if d != at), at])


def _ranked(xp, x, rank):
    """The index of the element of rank `rank` along the last dimension."""
    return order_up_to(xp, x, rank)[..., rank]


def _pick(xp, x, at, indices, keepdim):
    """x at one index per slice along `at`, and these indices."""
    rows = _last(x, at).reshape(-1, x.shape[at])
    values = rows[xp.arange(len(rows)), indices.reshape(-1)]
    shape = [size for d, size in enumerate(x.shape) if d != at]
    if keepdim:
        shape.insert(at, 1)
    return values.reshape(shape), indices.reshape(shape)


def _sortable(x, at):
    """x in a dtype that sorts NaN last, with dimension `at` as its last."""
    return _last(x if x.itemsize > 2 else x.astype(wide(x.dtype), copy=False), at)


def _kthvalue(xp, x, *, k, dim=-1, keepdim=False):
    at = wrap_dim(dim, x.ndim)
    refuse_empty("kthvalue", x, dim)
    if not 1 <= k <= (x.shape[at] if x.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {at}")
    if not x.ndim:
        return xp.array(x), xp.zeros((), dtypes.int64)
    return _pick(xp, x, at, _ranked(xp, _sortable(x, at), k - 1), keepdim)


@defop
class kthvalue:
    """(values, indices): the k-th smallest element along `dim`, k from 1, and its index; NaN counts as the largest.

    >>> ag.kthvalue(ag.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """

    forward = _kthvalue
    grad_x = grad_at_indices
    jvp, batch = tangent_at_indices, along("dim")
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    public = methods = True


def _at_ranks(xp, x, *, ranks):
    y = _sortable(x, x.ndim - 1)
    positions = order_up_to(xp, y, sorted(set(ranks)))[..., list(ranks)]
    return xp.take_along_axis(x, positions, -1), positions


@defop
class at_ranks:
    """(values, indices): the elements of `ranks`, from 0, along the last dimension; NaN counts as the largest.

    >>> from autograd_gpu.ops.sorting.order_statistics import at_ranks
    >>> at_ranks(ag.tensor([3.0, 1.0, 2.0]), (2, 0)).values
    tensor([3., 1.])
    """

    no_capture = "host"
    forward = _at_ranks
    def grad_x(F, g, x_shape, indices): return F.gather_along_backward(g[0], indices, -1, x_shape)
    def jvp(F, t, indices): return F.gather_along(t, indices, -1), None
    batch = LEADING
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)


def _mode(xp, x, *, dim=-1, keepdim=False):
    at = wrap_dim(dim, x.ndim)
    refuse_empty("mode", x, dim)
    if not x.ndim:
        return xp.array(x), xp.zeros((), dtypes.int64)
    y = _sortable(x, at)
    rows = y.reshape(-1, y.shape[-1])
    order = rows.argsort(-1, kind="stable")
    line = xp.arange(len(rows))
    ordered = rows[line[:, None], order]
    begins = xp.ones(rows.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    positions = xp.arange(rows.shape[1])
    # the number of equal elements up to each index
    met = positions - backend.accumulate(xp, "maximum", begins * positions, -1)
    return _pick(xp, x, at, order[line, met.argmax(-1)], keepdim)


@defop
class mode:
    """(values, indices): the most frequent element along `dim`, the smallest of several, and its last index.

    >>> ag.mode(ag.tensor([3.0, 1.0, 3.0, 1.0, 2.0]))
    mode_result(values=tensor(1.), indices=tensor(3))
    """

    forward = _mode
    grad_x = grad_at_indices
    jvp, batch = tangent_at_indices, along("dim")
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    public = methods = True


# ---- the median ----------------------------------------------------------------------------------------


def _median_all(xp, x, *, ignore_nan=False, trailing=None):
    lead = () if trailing is None else x.shape[: x.ndim - trailing]
    size = math.prod(x.shape[len(lead) :])
    if not size:
        if x.dtype in dtypes.FLOATS:
            return xp.full(lead, float("nan"), x.dtype)
        raise RuntimeError(f"median(): input tensor must be non-empty for {x.dtype}, which has no NaN")
    flat, middle = x.reshape((-1,) if trailing is None else (-1, size)).astype(wide(x.dtype)), (size - 1) // 2  # a copy
    if ignore_nan:
        flat.sort()
        rank = xp.maximum((size - xp.isnan(flat).sum(-1) - 1) // 2, 0)
        medians = flat[rank] if trailing is None else xp.take_along_axis(flat, rank[:, None], -1)
    else:
        flat.partition(middle)  # a single kth: for two NumPy takes ten times as long
        medians = flat.T[middle]
        if x.dtype in dtypes.FLOATS:  # NaN if there is one
            medians = or_nan(xp, flat, medians)
    medians = medians if trailing is None else medians.reshape(lead)
    return medians if x.itemsize > 2 else medians.astype(x.dtype)


def _ties(F, x, out, trailing):
    """1 for the elements that equal their median, 0 for the others."""
    out = _to_elements(F, out, trailing)
    return F.cast(F.logical_or(F.eq(x, out), F.logical_and(F.isnan(x), F.isnan(out))), x.dtype)


def _to_elements(F, y, trailing):
    """y, one number per median, shaped to broadcast with the elements."""
    return y if trailing is None else F.reshape(y, (*y.shape, *(1,) * trailing))


def _per_median(F, x, trailing):
    return F.sum(x, None if trailing is None else tuple(range(-trailing, 0)))


def _median_back(F, g, x, out, trailing):
    """Equal shares of g for all elements that equal the median."""
    if 0 in x.shape:
        return F.expand(_to_elements(F, g, trailing), x.shape)
    ties = _ties(F, x, out, trailing)
    return ties * _to_elements(F, g / _per_median(F, ties, trailing), trailing)


def _median_jvp(F, t, x, out, trailing):
    if 0 in x.shape:
        return _per_median(F, t, trailing)
    ties = _ties(F, x, out, trailing)
    return _per_median(F, t * ties, trailing) / _per_median(F, ties, trailing)


def _median_batch(F, n, batched, x, *, ignore_nan, trailing):
    taken = rank(x, True) if trailing is None else trailing
    return F.median_all(x if taken else F.unsqueeze(x, -1), ignore_nan, taken or 1)


@defop
class median_all:
    """The median of all elements, the lower of two; NaN if any is NaN, or ignoring NaN; ties share the gradient.

    With `trailing`, of all elements of the last `trailing` dimensions.

    >>> ag.median(ag.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """

    forward = _median_all
    grad_x = _median_back
    jvp, batch = _median_jvp, _median_batch
    no_lossy_save = True


def _median_dim(xp, x, *, dim, keepdim=False, ignore_nan=False):
    at, name = wrap_dim(dim, x.ndim), "nanmedian" if ignore_nan else "median"
    refuse_empty(name, x, dim)
    if not x.ndim:
        return xp.array(x), xp.zeros((), dtypes.int64)
    y, n = _sortable(x, at), x.shape[at]
    middle = (n - 1) // 2
    unknown = xp.isnan(y) if x.dtype in dtypes.FLOATS else None
    if unknown is None or backend.seen_none(unknown):
        return _pick(xp, x, at, _ranked(xp, y, middle), keepdim)
    counts = unknown.sum(axis=-1)
    order = y.argsort(-1)
    if ignore_nan:
        rank = xp.maximum((n - counts - 1) // 2, 0)
        return _pick(xp, x, at, xp.take_along_axis(order, rank[..., None], -1)[..., 0], keepdim)
    indices = backend.where(xp, counts > 0, unknown.argmax(-1), order[..., middle])  # the first NaN, or the middle
    return _pick(xp, x, at, indices, keepdim)


@defop
class median_dim:
    """(values, indices): the median along `dim`, the lower of two, and its index; NaN propagates or is ignored.

    >>> ag.median(ag.tensor([[1.0, 3.0, 2.0]]), 1).values
    tensor([2.])
    """

    forward = _median_dim
    grad_x = grad_at_indices
    jvp, batch = tangent_at_indices, along("dim")
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)


@public(methods=True, out=True)
@other_words
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median, the lower of two; with `dim` (values, indices) along it. NaN propagates.

    >>> ag.median(ag.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """
    return median_all(input) if dim is None else median_dim(input, dim, keepdim)


@public(methods=True, out=True)
@other_words
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median ignoring NaN; with `dim` (values, indices) along it.

    >>> ag.nanmedian(ag.tensor([4.0, float("nan"), 3.0]))
    tensor(3.)
    """
    return median_all(input, True) if dim is None else median_dim(input, dim, keepdim, True)
