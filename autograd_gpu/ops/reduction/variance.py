"""The variance and the standard deviation, alone and with the mean."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.cpu import numpy_ops
from ...core.extend import RECORD, REDUCING, BatchWord, Tensor, defop, other_words, public
from .dimensions import as_rows, divided_by_count, float_sum, negative_axes, reduced_size, restore_dims

FAR = 256.0**2
LEAST, MOST = 1e-33, float(np.finfo(np.float32).max)  # the variances that float32 represents accurately
FIRST = np.float32(LEAST).view(np.uint32)
SPAN = int(np.float32(MOST).view(np.uint32) - FIRST)


def _dim_and_unbiased(dim, unbiased):
    """The arguments (dim, unbiased); a bool `dim`, as in var(x, False), is `unbiased` as in PyTorch."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


def _freedom(n, unbiased, correction):
    """The divisor of a variance of n numbers: n minus Bessel's correction, at least 0."""
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    return n - less if n > less else 0


def _arguments(x, dim, unbiased, correction):
    """(dim, unbiased), after a check of all arguments."""
    dim, unbiased = _dim_and_unbiased(dim, unbiased)
    if unbiased is not None and correction is not None:
        raise TypeError("std and var take one of unbiased and correction, not both")
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"std and var only support floating point dtypes; got {x.dtype}")
    return dim, unbiased


def _checked(x, dim, unbiased, correction):
    """The arguments; half types as float32."""
    dim, unbiased = _arguments(x, dim, unbiased, correction)
    return x if x.dtype in dtypes.FULL_FLOATS else x.astype(dtypes.float32), dim, unbiased


def _variance(xp, x, dim, unbiased, keepdim, correction):
    x, dim, unbiased = _checked(x, dim, unbiased, correction)
    few = x.size <= numpy_ops.FEW
    if few and x.itemsize < 8:
        x = x.astype(dtypes.float64)
    if few and dim is None and x.size and not keepdim:
        n = x.size
        away = x.reshape(n)
        away = away - away.dot(numpy_ops.ones(n, x.dtype)) / n
        return divided_by_count(away.dot(away), _freedom(n, unbiased, correction))
    return _in_two_passes(xp, x, dim, unbiased, keepdim, correction, None if few else _mean_dominates)


def _variance_cuda(xp, x, dim, unbiased, keepdim, correction):
    x, dim, unbiased = _checked(x, dim, unbiased, correction)
    return _in_two_passes(xp, x, dim, unbiased, keepdim, correction, lambda *_: True)  # a test would synchronize


def in_one_launch(forward, root=False, with_mean=False):
    """`forward` on CuPy arrays: the variance or its `root`, alone or `with_mean`, by one kernel for short rows."""
    def run(xp, x, *, dim=None, unbiased=None, keepdim=False, correction=None):
        over, bessel = _arguments(x, dim, unbiased, correction)
        rows = as_rows(x, over, keepdim, copies=True)
        if rows is None:
            return forward(xp, x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction)
        matrix, shape = rows
        divisor = _freedom(matrix.shape[1], bessel, correction)
        results = kernels.row_variance(matrix, divisor, shape, root, with_mean)
        return results if with_mean else results[0]

    return run


def _in_two_passes(xp, x, dim, unbiased, keepdim, correction, corrects):
    """The sum of squared deviations from the mean, without the rounding error of the mean if `corrects` says so."""
    n = reduced_size(x.shape, dim)
    mean = divided_by_count(float_sum(xp, x, dim, True), n)
    away = x - mean
    squares = float_sum(xp, away * away, dim, keepdim)
    if corrects is not None and corrects(mean, squares, n):
        rest = float_sum(xp, away, dim, keepdim)  # the rounding error of the mean times n
        squares = xp.maximum(squares - divided_by_count(rest * rest, n), 0)
    return divided_by_count(squares, _freedom(n, unbiased, correction))


def _mean_dominates(mean, squares, n):
    """Whether a mean is more than 256 standard deviations from 0, so that its rounding affects the squares."""
    if mean.size == 1:
        return mean.item() ** 2 * n > squares.item() * FAR
    return bool(np.count_nonzero(mean * mean * (n / FAR) > squares.reshape(mean.shape)))


def _deviations(F, x, dim, unbiased, correction):
    """2 / freedom * (x - mean): the derivative of the variance."""
    dim, unbiased = _dim_and_unbiased(dim, unbiased)
    n = _freedom(reduced_size(x.shape, dim), unbiased, correction)
    return (x - F.mean(x, negative_axes(dim, x.ndim), True)) * (2 / n if n else math.nan)


def _variance_in_range(xp, x, dim, unbiased, keepdim, correction):
    """The variance, in float64 if float32 squares are out of range, though their root may not be."""
    out = _variance(xp, x, dim, unbiased, keepdim, correction)
    if out.itemsize == 8:
        return out
    if type(out) is np.float32:
        within = LEAST <= float(out) <= MOST
    else:  # the order of the bits is that of the numbers, with NaN last
        bits = (out if out.ndim else out[None]).view(np.uint32) - FIRST
        within = not out.size or bits.item(bits.argmax()) <= SPAN
    return out if within else _variance(xp, x.astype(np.float64), dim, unbiased, keepdim, correction)


def _var(variance, xp, x, *, dim=None, unbiased=None, keepdim=False, correction=None):
    out = variance(xp, x, dim, unbiased, keepdim, correction)
    return out if x.itemsize == out.itemsize else out.astype(x.dtype)


def _var_back(F, g, x, dim, unbiased, keepdim, correction):
    g = restore_dims(F, g, x.shape, _dim_and_unbiased(dim, unbiased)[0], keepdim)
    return g * _deviations(F, x, dim, unbiased, correction)


def _var_jvp(F, t, x, dim, unbiased, keepdim, correction):
    changes = _deviations(F, x, dim, unbiased, correction) * t
    return F.sum(changes, negative_axes(_dim_and_unbiased(dim, unbiased)[0], x.ndim), keepdim)


def _batched(F, op, n, batched, inputs, attributes):
    dim, unbiased = _dim_and_unbiased(attributes["dim"], attributes["unbiased"])
    return REDUCING.run(F, op, n, batched, inputs, attributes | {"dim": dim, "unbiased": unbiased})


_BATCH = BatchWord("REDUCING", _batched)


@defop
class var:
    """The variance over `dim`, with divisor n - correction; correction is 1, or 0 with unbiased=False.

    var(x, False) is var(x, unbiased=False), as in PyTorch.

    >>> ag.var(ag.tensor([1.0, 2.0, 3.0, 4.0]), correction=0)
    tensor(1.25)
    """

    forward, cuda = partial(_var, _variance_in_range), in_one_launch(partial(_var, _variance_cuda))
    grad_x = _var_back
    jvp, batch = _var_jvp, _BATCH
    public = methods = True


def _std(variance, xp, x, *, dim=None, unbiased=None, keepdim=False, correction=None):
    out = xp.sqrt(variance(xp, x, dim, unbiased, keepdim, correction))
    return out if x.itemsize == out.itemsize else out.astype(x.dtype)


def _through_root(F, g, out):
    """g times the derivative of the square root `out`, 0 where out is 0."""
    flat = out == 0
    return F.where(flat, 0.0, g / (F.where(flat, 1.0, out) * 2))


def _std_back(F, g, x, out, dim, unbiased, keepdim, correction):
    return _var_back(F, _through_root(F, g, out), x, dim, unbiased, keepdim, correction)


def _std_jvp(F, t, x, out, dim, unbiased, keepdim, correction):
    return _through_root(F, _var_jvp(F, t, x, dim, unbiased, keepdim, correction), out)


@defop
class std:
    """The square root of `var`; its derivative at 0 is 0.

    >>> ag.std(ag.tensor([1.0, 2.0, 3.0, 4.0]), unbiased=False)
    tensor(1.118)
    """

    forward, cuda = partial(_std, _variance_in_range), in_one_launch(partial(_std, _variance_cuda), root=True)
    grad_x = _std_back
    jvp, batch = _std_jvp, _BATCH
    wide_rules = True
    public = methods = no_lossy_save = True


# ---- with the mean -----------------------------------------------------------------------------------


@public(out=True)
@other_words
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(var, mean) over `dim`, see ag.var and ag.mean.

    >>> ag.var_mean(ag.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return tuple(RECORD.var_mean(input, dim, unbiased, keepdim, correction))


@public(out=True)
@other_words
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(std, mean) over `dim`, see ag.std and ag.mean.

    >>> ag.std_mean(ag.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return tuple(RECORD.std_mean(input, dim, unbiased, keepdim, correction))
