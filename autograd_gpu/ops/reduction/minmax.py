"""Maxima, minima and their indices; any and all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.cpu import numpy_ops
from ...core.extend import (
    RECORD,
    REDUCING,
    Tensor,
    along,
    counted_from_right,
    defop,
    example,
    other_words,
    public,
    rank,
)
from ..elementwise.clamp import maximum, minimum
from ..indexing.basic_index import from_right, wrap_dim
from .dimensions import axes, numpy_axis, restore_dims

MANY, SHORT = 4096, 8  # from so many elements on, up to so many along a dimension are compared one after the other


def refuse_empty(name, x, dim):
    """PyTorch's errors for the maximum or minimum of no elements."""
    if x.size:
        return
    if dim is None or dim == ():
        kind = IndexError if name.startswith("arg") else RuntimeError
        raise kind(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                   "Specify the reduction dim with the 'dim' argument.")
    for axis in axes(dim, x.ndim):
        if x.shape[axis] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {axis + x.ndim} to have non-zero size.")


def _ties(F, x, out, dtype):
    """1 for all elements that equal the result, else 0; NaN, which is the maximum if there is one, equals NaN."""
    return F.cast(F.logical_or(F.eq(x, out), F.isnan(x)), dtype)


def _share_among_ties(F, g, x, out, dim, keepdim):
    """Equal shares of g for all elements that equal `out`, the result with keepdim."""
    g = restore_dims(F, g, x.shape, dim, keepdim)
    ties = _ties(F, x, out, g.dtype)
    return ties * (g / F.sum(ties, None if dim is None else axes(dim, x.ndim), True))


def _mean_of_ties(F, t, x, out, dim, keepdim):
    over = None if dim is None else axes(dim, x.ndim)
    ties = _ties(F, x, restore_dims(F, out, x.shape, dim, keepdim), t.dtype)
    return F.sum(ties * t, over, keepdim) / F.sum(ties, over, keepdim)


def _extreme(xp, x, name, ufunc, dim, keepdim):
    if not x.size:
        refuse_empty(f"a{name}", x, dim)
    axis = numpy_axis(dim, x.ndim)
    return backend.reduce(xp, ufunc, x, axis, keepdim)


def _amax_cuda(xp, x, *, dim=None, keepdim=False): return _extreme(xp, x, "max", "maximum", dim, keepdim)
def _amin_cuda(xp, x, *, dim=None, keepdim=False): return _extreme(xp, x, "min", "minimum", dim, keepdim)


def _amax(xp, x, *, dim=None, keepdim=False):
    if dim is None and 0 < x.size <= numpy_ops.FEW and not keepdim and x.dtype.kind != "V":  # V: bfloat16
        flat = x.ravel()
        return flat[flat.argmax()]  # takes a third of the time of np.maximum.reduce
    return _extreme(xp, x, "max", "maximum", dim, keepdim)


def _amin(xp, x, *, dim=None, keepdim=False):
    if dim is None and 0 < x.size <= numpy_ops.FEW and not keepdim and x.dtype.kind != "V":
        flat = x.ravel()
        return flat[flat.argmin()]
    return _extreme(xp, x, "min", "minimum", dim, keepdim)


@defop
class amax:
    """The largest element over `dim` (an int, a tuple, or None for all); ties share the gradient equally.

    >>> ag.amax(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    tensor([2., 4.])
    """

    forward, cuda = _amax, _amax_cuda
    def grad_x(F, g, x, dim, keepdim): return _share_among_ties(F, g, x, F.amax(x, dim, True), dim, keepdim)
    jvp, batch = _mean_of_ties, REDUCING
    public = methods = no_lossy_save = True


@defop
class amin:
    """The smallest element over `dim` (an int, a tuple, or None for all); ties share the gradient equally.

    >>> ag.amin(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    tensor([1., 3.])
    """

    forward, cuda = _amin, _amin_cuda
    def grad_x(F, g, x, dim, keepdim): return _share_among_ties(F, g, x, F.amin(x, dim, True), dim, keepdim)
    jvp, batch = _mean_of_ties, REDUCING
    public = methods = no_lossy_save = True


@public(methods=True, out=True)
@other_words
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """(min, max): the smallest and the largest element over `dim` (None for all); ties share the gradient equally.

    >>> ag.aminmax(ag.tensor([1.0, 3.0, 2.0])).max
    tensor(3.)
    """
    if not input.numel() and dim is None:
        raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
                           "identity.")
    return RECORD.aminmax(input, dim, keepdim)


# ---- with indices --------------------------------------------------------------------------------------


def _arg(xp, name, x, dim, keepdim):
    """argmax or argmin, also for 0-d tensors, and keepdim without dim."""
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")
    if not x.size:
        refuse_empty(name, x, dim)
    if dim is not None:
        dim = wrap_dim(dim, x.ndim)
    axis = dim if x.ndim else None
    indices = (x.argmax if name == "argmax" else x.argmin)(axis)
    if indices.dtype is not dtypes.int64:  # CuPy's may be narrower
        indices = indices.astype(dtypes.int64)
    if keepdim and x.ndim:
        return indices.reshape([1 if axis in (None, i) else size for i, size in enumerate(x.shape)])
    return indices


def _arg_cuda(xp, name, x, dim, keepdim):
    """`_arg` of CuPy arrays: for the index in all of an array CuPy takes two launches, in one row of it one."""
    if dim is not None or not 0 < x.size <= kernels.LONGEST_ROW:
        return _arg(xp, name, x, dim, keepdim)
    index = _arg(xp, name, x.reshape(1, x.size), 1, False)
    return index.reshape((1,) * x.ndim if keepdim else ())


def _batched_arg(F, name, n, x, dim, keepdim):
    shape, ndim = x.shape[1:], rank(x, True)
    if dim is not None and (ndim or not isinstance(dim, int)):
        return getattr(F, name)(x, counted_from_right(dim, ndim), keepdim)
    if dim is None and not math.prod(shape):
        refuse_empty(name, example(x), None)
    counted_from_right(dim, ndim)  # a 0-d tensor accepts dim 0 and -1
    indices = getattr(F, name)(F.reshape(x, (n, math.prod(shape))), -1)
    return F.reshape(indices, (n, *(1,) * ndim)) if keepdim else indices


@defop
class argmax:
    """The index of the largest element along `dim`, or without `dim` in the flattened tensor; the first of several.

    >>> ag.argmax(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    tensor([1, 0])
    """

    def forward(xp, x, *, dim=None, keepdim=False): return _arg(xp, "argmax", x, dim, keepdim)
    def cuda(xp, x, *, dim=None, keepdim=False): return _arg_cuda(xp, "argmax", x, dim, keepdim)
    nondiff = True
    def batch(F, n, batched, x, *, dim, keepdim): return _batched_arg(F, "argmax", n, x, dim, keepdim)
    public = methods = True


@defop
class argmin:
    """The index of the smallest element along `dim`, or without `dim` in the flattened tensor; the first of several.

    >>> ag.argmin(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    tensor([0, 1])
    """

    def forward(xp, x, *, dim=None, keepdim=False): return _arg(xp, "argmin", x, dim, keepdim)
    def cuda(xp, x, *, dim=None, keepdim=False): return _arg_cuda(xp, "argmin", x, dim, keepdim)
    nondiff = True
    def batch(F, n, batched, x, *, dim, keepdim): return _batched_arg(F, "argmin", n, x, dim, keepdim)
    public = methods = True


def _of_few(name, x, dim):
    """The values and indices along `dim` of a few numbers without NaN: NumPy calls argmax for each few numbers."""
    ufunc, better = (np.maximum, np.greater) if name == "max" else (np.minimum, np.less)
    first, *rest = np.moveaxis(x, dim, 0)
    values, indices = np.array(first), np.zeros(first.shape, np.int8)
    for j, numbers in enumerate(rest, 1):
        np.maximum(indices, better(numbers, values).view(np.int8) * np.int8(j), out=indices)
        ufunc(values, numbers, out=values)
    return values, indices.astype(np.int64)


def _along(xp, name, x, dim, keepdim):
    if not x.size:
        refuse_empty(name, x, dim)
    many = type(x) is np.ndarray and x.ndim > 1 and x.size > MANY and x.dtype in dtypes.FULL_FLOATS
    if many and -x.ndim <= dim < x.ndim and x.shape[dim] <= SHORT:
        values, indices = _of_few(name, x, dim)
        if not np.isnan(values).any():
            return (np.expand_dims(values, dim), np.expand_dims(indices, dim)) if keepdim else (values, indices)
    indices = _arg(xp, f"arg{name}", x, dim, keepdim)
    if not x.ndim:
        return xp.array(x), indices
    return backend.reduce(xp, f"{name}imum", x, dim, keepdim), indices


def grad_at_indices(F, g, x_shape, indices, dim, keepdim):
    if not x_shape:
        return g[0]
    g, indices = (restore_dims(F, y, x_shape, dim, keepdim) for y in (g[0], indices))
    return F.gather_along_backward(g, indices, from_right(dim, len(x_shape)), x_shape)


def tangent_at_indices(F, t, x_shape, indices, dim, keepdim):
    """The tangent of the values along `dim`: the transpose of grad_at_indices."""
    if not x_shape:
        return t, None
    axis = from_right(dim, len(x_shape))
    tangent = F.gather_along(t, restore_dims(F, indices, x_shape, dim, keepdim), axis)
    return tangent if keepdim else F.squeeze(tangent, axis), None


@defop
class max_dim:
    """(values, indices) of the largest elements along `dim`; the gradient goes to these indices.

    >>> values, indices = ag.max(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    >>> indices
    tensor([1, 0])
    """

    def forward(xp, x, *, dim, keepdim=False): return _along(xp, "max", x, dim, keepdim)
    grad_x = grad_at_indices
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = tangent_at_indices, along("dim")
    torch = "max"


@defop
class min_dim:
    """(values, indices) of the smallest elements along `dim`; the gradient goes to these indices.

    >>> values, indices = ag.min(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    >>> values
    tensor([1., 3.])
    """

    def forward(xp, x, *, dim, keepdim=False): return _along(xp, "min", x, dim, keepdim)
    grad_x = grad_at_indices
    outputs, nondiff_outputs = ("values", "indices"), ("indices",)
    jvp, batch = tangent_at_indices, along("dim")
    torch = "min"


@public(methods=True, out=True)
@other_words
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest element; with an int `dim` (values, indices) along it; with a tensor instead of it, or `other`,
    `maximum`.

    >>> ag.max(ag.tensor([1.0, 5.0, 2.0]))
    tensor(5.)
    >>> ag.max(ag.tensor([[1.0, 2.0], [4.0, 3.0]]), dim=0).indices
    tensor([1, 1])
    """
    if other is not None or isinstance(dim, Tensor):
        return maximum(input, dim if other is None else other)
    return amax(input) if dim is None else max_dim(input, dim, keepdim)


@public(methods=True, out=True)
@other_words
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest element; with an int `dim` (values, indices) along it; with a tensor instead of it, or `other`,
    `minimum`.

    >>> ag.min(ag.tensor([1.0, 5.0, 2.0]))
    tensor(1.)
    """
    if other is not None or isinstance(dim, Tensor):
        return minimum(input, dim if other is None else other)
    return amin(input) if dim is None else min_dim(input, dim, keepdim)


# ---- any and all ---------------------------------------------------------------------------------------


def _truth(xp, name, x, dim, keepdim):
    truth = x != 0 if dim == () else backend.truth(xp, name, x, numpy_axis(dim, x.ndim), keepdim)
    return truth.astype(dtypes.uint8) if x.dtype is dtypes.uint8 else truth


def _dims_of_examples(x, dim):
    """`dim` for a batch; here () means no dimension."""
    ndim = rank(x, True)
    dims = counted_from_right(dim, ndim, dim != ())
    return dims if ndim else ()


@defop
class any:
    """Whether any element over `dim` (an int, a tuple, or None for all) is not zero; as uint8 if x is uint8.

    With an empty tuple elementwise, as in PyTorch.

    >>> ag.any(ag.tensor([[True, False], [False, False]]), 1)
    tensor([ True, False])
    """

    def forward(xp, x, *, dim=None, keepdim=False): return _truth(xp, "any", x, dim, keepdim)
    nondiff = True
    def batch(F, n, batched, x, *, dim, keepdim): return F.any(x, _dims_of_examples(x, dim), keepdim)
    public = methods = True


@defop
class all:
    """Whether every element over `dim` (an int, a tuple, or None for all) is not zero; as uint8 if x is uint8.

    With an empty tuple elementwise, as in PyTorch.

    >>> ag.all(ag.tensor([[True, False], [True, True]]), 1)
    tensor([False,  True])
    """

    def forward(xp, x, *, dim=None, keepdim=False): return _truth(xp, "all", x, dim, keepdim)
    nondiff = True
    def batch(F, n, batched, x, *, dim, keepdim): return F.all(x, _dims_of_examples(x, dim), keepdim)
    public = methods = True
