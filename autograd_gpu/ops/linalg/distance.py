"""Distances between points, and renorm."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import backend
from ...core.extend import FLOAT, LINEAR, MATRICES, Tensor, defop, one_by_one, other_words, public, wrap
from .._support.half_precision import in_float32
from ..creation.convert import contiguous
from ..elementwise.arithmetic import where
from ..reduction.dimensions import axes
from ..reduction.norm import norm
from ..shape.reshape import unsqueeze

MANY = 25  # with more points on either side, distances are computed by products, as in PyTorch


@public(methods=True)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of a - b, broadcasting; the derivative at 0 is 0.

    >>> ag.dist(ag.tensor([1.0, 2.0]), ag.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return norm(input - other, float(p))


def _euclidean(xp, x1, x2):
    if max(x1.shape[-2], x2.shape[-2]) <= MANY:
        away = x1[..., :, None, :] - x2[..., None, :, :]
        return xp.sqrt(backend.total(xp, away * away, -1))
    if x1.ndim != x2.ndim:
        lead = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        x1, x2 = (xp.broadcast_to(x, lead + x.shape[-2:]) for x in (x1, x2))
    squares = backend.total(xp, x1 * x1, -1)[..., :, None] + backend.total(xp, x2 * x2, -1)[..., None, :]
    return xp.sqrt(xp.maximum(squares - 2 * backend.matmul(x1, x2.swapaxes(-1, -2)), 0))


def _divide_by_distance(F, g, out):
    """g / out, the factor of each difference; 0 where two points coincide."""
    zero = out == 0
    return F.where(zero, 0.0, g / F.where(zero, 1.0, out))


def _euclidean_x1(F, g, x1, x2, out):
    w = _divide_by_distance(F, g, out)
    return x1 * F.sum(w, -1, True) - F.matmul(w, x2)


def _euclidean_x2(F, g, x1, x2, out):
    w = F.transpose(_divide_by_distance(F, g, out), -1, -2)
    return x2 * F.sum(w, -1, True) - F.matmul(w, x1)


def _euclidean_jvp(F, t, x1, x2, out):
    """sum((x1 - x2) (t1 - t2)) / distance, expanded into products, without all differences."""
    t1, t2 = t
    terms = []
    if t1 is not None:
        terms.append(F.unsqueeze(F.sum(x1 * t1, -1), -1) - F.matmul(t1, F.mT(x2)))
    if t2 is not None:
        terms.append(F.unsqueeze(F.sum(x2 * t2, -1), -2) - F.matmul(x1, F.mT(t2)))
    return _divide_by_distance(F, sum(terms[1:], terms[0]), out)


@defop
class euclidean_distances:
    """The Euclidean distances between the rows of x1 and those of x2, over broadcasting batches.

    >>> ag.cdist(ag.tensor([[0.0, 0.0], [3.0, 0.0]]), ag.tensor([[0.0, 4.0]]))
    tensor([[4.],
            [5.]])
    """

    forward = in_float32(_euclidean)
    grad_x1 = _euclidean_x1
    grad_x2 = _euclidean_x2
    jvp, batch = _euclidean_jvp, MATRICES
    wide_rules = True
    types, broadcasts = FLOAT, True
    no_lossy_save = True


MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@public()
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:  # fmt: skip
    """The p-norm distances between the rows of x1 (..., P, M) and those of x2 (..., R, M), as (..., P, R).

    For p = 2 and more than 25 rows it is computed by products, which needs no memory for the differences but loses
    digits for points close together; with compute_mode "donot_use_mm_for_euclid_dist" always by differences. The
    derivative of a distance of 0 is 0.

    >>> ag.cdist(ag.tensor([[0.0, 0.0]]), ag.tensor([[3.0, 4.0]]), p=1)
    tensor([[7.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values; got {p}")
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode; one of {', '.join(MODES)}")
    if p == 2 and compute_mode != "donot_use_mm_for_euclid_dist":
        return euclidean_distances(x1, x2)
    return norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), float(p), -1)


def _row_differences_back(F, g, x_shape, rows, columns):
    def at(row_indices):
        return F.advanced_index_backward(g, row_indices, None, None, None, dims=(-2,), shape=x_shape)

    return at(rows) - at(columns)


@defop
class row_differences:
    """x[rows] - x[columns].

    >>> from autograd_gpu.ops.linalg.distance import row_differences
    >>> row_differences(ag.tensor([[1.0, 2.0], [5.0, 5.0]]), ag.tensor([1]), ag.tensor([0]))
    tensor([[4., 3.]])
    """

    def forward(xp, x, rows, columns): return x[..., rows, :] - x[..., columns, :]
    grad_x = _row_differences_back
    def batch(F, n, batched, x, rows, columns):
        if batched[1] or batched[2]:
            return one_by_one(F, "row_differences", F.row_differences, n, batched, (x, rows, columns))
        return F.row_differences(x, rows, columns)
    jvp = LINEAR
    integral = ("rows", "columns")


def _pairs(device: Any, n: int) -> list[Tensor]:
    """The row indices of all pairs; for few rows from a cache on the host."""
    if n > MANY:
        return [wrap(index) for index in backend.make(device, "triu_indices", n, 1)]
    return [wrap(backend.to_device(index, device)) for index in _few_pairs(n)]


_few_pairs = functools.lru_cache(MANY + 1)(lambda n: np.triu_indices(n, 1))


@public("pdist", "nn.functional.pdist")
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distances of all pairs of rows of a matrix of n rows, as a vector of n (n - 1) / 2.

    >>> ag.pdist(ag.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]))
    tensor([5., 4., 3.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values; got {p}")
    rows, columns = _pairs(input.device, input.shape[0])
    return norm(row_differences(input, rows, columns), float(p), -1)


@public(methods=True, inplace=True, out=True)
@other_words
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """input with every slice along `dim` whose p-norm is above `maxnorm` scaled down to `maxnorm`.

    >>> ag.renorm(ag.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6, 0.8],
            [0.3, 0.4]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive norm not supported; got p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    (kept,) = axes(dim, input.ndim)
    size = norm(input, float(p), [axis for axis in range(-input.ndim, 0) if axis != kept], True)
    return contiguous(input * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0))
