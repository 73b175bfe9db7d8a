"""sort, argsort, topk; isin; nonzero, argwhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.arrays import dtypes
from ...backend.arrays.flat_index import picked
from ...core.extend import LOOP, PROMOTE, Tensor, along, defop, impossible, public, refuse_batched
from ..indexing.basic_index import FULL, from_right, wrap_dim
from ..shape.reshape import reshape

BACKWARDS = slice(None, None, -1)
FEW = 4096  # up to so many comparisons `isin` compares all pairs
COUNT = "how many elements are not zero depends on the values"


def _order(xp, x, dim, descending):
    """The stable order along `dim`; NaN counts as the largest."""
    if not x.ndim:
        wrap_dim(dim, 0)
        return xp.zeros((), "int64")
    dim = wrap_dim(dim, x.ndim)
    if x.dtype == dtypes.bfloat16:
        x = x.astype(dtypes.float32)  # CuPy cannot sort half types, and NumPy is slow
    if not descending:
        return x.argsort(axis=dim, kind="stable")
    # descending and stable: sorting the reversed array, then reversing the order
    turn = (*(FULL,) * dim, BACKWARDS)
    return x.shape[dim] - 1 - x[turn].argsort(axis=dim, kind="stable")[turn]


def _take(xp, x, indices, dim):
    return picked(xp, x, indices, from_right(dim, x.ndim)) if x.ndim else xp.array(x)


def _sort(xp, x, *, dim=-1, descending=False, stable=True):
    indices = _order(xp, x, dim, descending)
    return _take(xp, x, indices, dim), indices


def _topk(xp, x, *, k, dim=-1, largest=True, sorted=True):
    at = wrap_dim(dim, x.ndim)
    if not (x.ndim and 0 < k < x.shape[at] // 8):
        return _topk_by_sorting(xp, x, k=k, dim=dim, largest=largest)
    chosen = _chosen(x, k, at, largest)
    values = _take(xp, x, chosen, at)
    order = _order(xp, values, at, largest)
    return _take(xp, values, order, at), _take(xp, chosen, order, at)


def _topk_by_sorting(xp, x, *, k, dim=-1, largest=True, sorted=True):
    at = wrap_dim(dim, x.ndim)
    if not 0 <= k <= (x.shape[at] if x.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if not x.ndim:
        return xp.array(x), xp.full((), 0, "int64")
    lead = (FULL,) * at
    indices = xp.ascontiguousarray(_order(xp, x, at, largest)[(*lead, slice(k))])
    return _take(xp, x, indices, at), indices


def _chosen(x, k, at, largest):
    """The indices of the k largest (smallest), in any order, in one pass."""
    x = x.astype(dtypes.float32) if x.dtype == dtypes.bfloat16 else x
    first = x.shape[at] - k if largest else 0
    partitioned = np.argpartition(x, first if largest else k - 1, axis=at)
    return partitioned[(*(FULL,) * at, slice(first, first + k))]


def values_back(F, g, x_shape, indices, dim):
    if not x_shape:
        return g[0]
    return F.gather_along_backward(g[0], indices, from_right(dim, len(x_shape)), x_shape)


def values_jvp(F, t, indices, dim):
    return F.gather_along(t, indices, from_right(dim, t.ndim)) if t.ndim else t, None


@defop
class sort:
    """(values, indices): x sorted stably along `dim`, and the index of each value in x.

    >>> ag.sort(ag.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """

    forward = _sort
    grad_x = values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = values_jvp, along("dim")
    public = methods = True


@defop
class topk:
    """(values, indices): the k largest (or smallest) elements along `dim` in order, and their indices.

    >>> ag.topk(ag.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """

    forward, cuda = _topk, _topk_by_sorting
    grad_x = values_back
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = values_jvp, along("dim")
    public = methods = True


@defop
class argsort:
    """The indices that sort x stably along `dim`.

    >>> ag.argsort(ag.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """

    def forward(xp, x, *, dim=-1, descending=False, stable=True): return _order(xp, x, dim, descending)
    nondiff = True
    batch = along("dim")
    public = methods = True


@public(methods=True, out=True)
def msort(input: Tensor) -> Tensor:
    """input sorted in ascending order along its first dimension.

    >>> ag.msort(ag.tensor([3.0, 1.0, 2.0]))
    tensor([1., 2., 3.])
    """
    return sort(input, 0)[0]


def _as_operand(xp, value, other):
    """A number as an array of a dtype in which comparisons with `other` are exact."""
    if hasattr(value, "dtype"):
        return value.astype(dtypes.float32) if value.dtype == dtypes.bfloat16 else value
    return xp.asarray(value, other.dtype if other.dtype in dtypes.FLOATS else None)


def _isin(xp, elements, test_elements, *, assume_unique=False, invert=False):
    a, b = _as_operand(xp, elements, test_elements), _as_operand(xp, test_elements, elements)
    if a.size * b.size > FEW:
        return xp.isin(a, b, assume_unique=assume_unique, invert=invert)
    mask = (a.reshape((*a.shape, 1)) == b.reshape(-1)).any(axis=-1)
    return xp.logical_not(mask) if invert else mask


def _isin_batch(F, n, batched, elements, test_elements, **attributes):
    if not batched[1]:
        return F.isin(elements, test_elements, **attributes)
    return LOOP.run(F, isin.op, n, batched, (elements, test_elements), attributes)


@defop
class isin:
    """Whether each element is in `test_elements`, or with `invert` is not; one of the two may be a number.

    `assume_unique`: neither has repeated elements, which may be faster.

    >>> ag.isin(ag.tensor([1, 2, 3]), ag.tensor([3, 1]))
    tensor([ True, False,  True])
    """

    forward = _isin
    nondiff = True
    types, numbers, batch = PROMOTE, True, _isin_batch
    public = methods = True


@defop
class argwhere:
    """The indices of the elements that are not zero, one per row.

    >>> ag.argwhere(ag.tensor([[1.0, 0.0], [0.0, 2.0]]))
    tensor([[0, 0],
            [1, 1]])
    """

    no_capture = "sizes"
    def forward(xp, x): return np.array(x.nonzero()).T if x.ndim else xp.argwhere(x)
    def cuda(xp, x): return xp.argwhere(x)
    nondiff = True
    batch = impossible(COUNT)
    takes_out = False
    public = methods = True


@defop
class nonzero_places:
    """The indices of the elements that are not zero, one vector per dimension.

    >>> ag.nonzero(ag.tensor([[1.0, 0.0], [0.0, 2.0]]), as_tuple=True)
    (tensor([0, 1]), tensor([0, 1]))
    """

    no_capture = "sizes"
    def forward(xp, x): return x.nonzero()
    nondiff = True
    outputs, batch = ("*",), impossible(COUNT)


@public(methods=True, out=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: one per row, or with `as_tuple` one vector per dimension.

    >>> ag.nonzero(ag.tensor([0.0, 3.0, 0.0, 4.0]))
    tensor([[1],
            [3]])
    """
    refuse_batched("nonzero", input, "use a mask and ag.where")
    return nonzero_places(input if input.ndim else reshape(input, (1,))) if as_tuple else argwhere(input)
