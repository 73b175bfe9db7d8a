"""The functions of `cpu/lapack.py` for CuPy arrays, by cupy.linalg and cupyx.scipy.linalg (cuSOLVER and cuBLAS).

Detecting a failure synchronizes with the device, as in PyTorch. CuPy does not return cuSOLVER's info array, so after a
failure the host repeats the computation with LAPACK to find `info`.

CuPy has lu of one matrix. Here lu of small square matrices, one or a batch, is a batched call of cuBLAS, which leaves
info on the device, and determinants are products of its diagonals; lu of non-square batches, or of few large matrices,
is a loop that synchronizes with the device for each matrix. expm is made of products and a solve.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cpu import lapack
from ..cpu.lapack import Info
from . import cublas, runtime

SMALL = 32  # rows
FEW = 1 << 16  # a batch of fewer than n * n / FEW matrices is factorized one matrix at a time
PADE_RADIUS = 5.37  # 1-norm up to which the Padé approximant is exact in float64: Higham's theta_13
PADE = [math.comb(13, k) / math.perm(26, k) for k in range(14)]  # the coefficients of x ** k in the numerator


def _or_on_host(function: Callable[..., Any], on_host: Callable[..., Any], *arrays: Any) -> tuple[Any, Info]:
    """(function(*arrays), 0); if that raises LinAlgError, the result of `on_host` for copies of the arrays."""
    try:
        with runtime.raising_linalg_errors():
            return function(*arrays), 0
    except np.linalg.LinAlgError:
        result, info = on_host(*map(runtime.to_host, arrays))
        return runtime.from_host(result, arrays[0].device.id), info


def _raising(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args); LinAlgError if cuSOLVER reports a failure."""
    with runtime.raising_linalg_errors():
        return function(*args)


def _stacked(a: Any, b: Any) -> tuple[Any, Any]:
    """a and b broadcast to the same batch shape, which cuBLAS requires."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    xp = runtime.cupy()
    return xp.broadcast_to(a, (*batch, *a.shape[-2:])), xp.broadcast_to(b, (*batch, *b.shape[-2:]))


def _each(function: Callable[[Any], tuple[Any, ...]], a: Any) -> list[Any]:
    """Calls `function` on each matrix of a batch and stacks each of its results."""
    batch, xp = a.shape[:-2], runtime.cupy()
    columns = zip(*[function(a[index]) for index in np.ndindex(*batch)], strict=True)
    return [xp.stack(column).reshape(*batch, *column[0].shape) for column in columns]


# ---- square systems ----------------------------------------------------------------------------------


def lu(a: Any) -> tuple[Any, Any, Info]:
    xp = runtime.cupy()
    if not a.size:
        return a.copy(), xp.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32), 0
    if _suits_batched(a):
        return _lu_of_batch(a)
    factors, pivots = _lu(a) if a.ndim == 2 else _each(_lu, a)
    zero = runtime.to_host(xp.diagonal(factors, axis1=-2, axis2=-1) == 0)
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)
    return factors, pivots, (info if info.ndim else int(info)) if info.any() else 0


def _lu(a: Any) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # warns of a zero on the diagonal, which is in info
        factors, pivots = runtime.scipy_linalg().lu_factor(a, check_finite=False)
    return factors, pivots.astype(np.int32) + 1


def _suits_batched(a: Any) -> bool:
    """Whether getrfBatched supports `a` and is faster: for batches by CuPy's rule for its inv and solve.

    One matrix of up to SMALL rows counts as a batch: CuPy's LU reads info on the host. Of a larger one getrfBatched, of
    which one block computes a matrix, takes longer than cuSOLVER; SMALL is an estimate.
    """
    *batch, m, n = a.shape
    count = math.prod(batch)
    return bool(a.size) and m == n and (n <= SMALL if count == 1 else count * FEW >= n * n)


def _as_batch(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of matrices; of one small matrix as a batch of one, for which CuPy calls cuBLAS."""
    def run(a: Any, *others: Any) -> Any:
        if a.ndim > 2 or not _suits_batched(a):
            return function(a, *others)
        return function(*[x[None] for x in (a, *others)])[0]

    return run


def _lu_of_batch(a: Any) -> tuple[Any, Any, Any]:
    """`lu` of square matrices in one cuBLAS call, which takes addresses of column-major matrices. info is an array."""
    xp, (*batch, n, _) = runtime.cupy(), a.shape
    count = math.prod(batch)
    columns = xp.array(a.swapaxes(-1, -2), order="C")
    first, step = columns.data.ptr, n * n * a.itemsize
    addresses = xp.arange(first, first + count * step, step, dtype=np.uint64)
    pivots, info = xp.empty((*batch, n), np.int32), xp.empty(tuple(batch), np.int32)
    cublas.getrf_batched(columns, addresses, pivots, info)
    return columns.swapaxes(-1, -2), pivots, info


def inv(a: Any) -> tuple[Any, Info]:
    return _or_on_host(_as_batch(runtime.cupy().linalg.inv), lapack.inv, a)


def solve(a: Any, b: Any) -> tuple[Any, Info]:
    return _or_on_host(_as_batch(runtime.cupy().linalg.solve), lapack.solve, *_stacked(a, b))


def _cholesky(a: Any) -> Any:
    factor = runtime.cupy().linalg.cholesky(a)
    if runtime.cupy().isnan(factor[..., -1:, -1:]).any():  # where a holds NaN
        raise np.linalg.LinAlgError
    return factor


def cholesky(a: Any, upper: bool) -> tuple[Any, Info]:
    factor, info = _or_on_host(_cholesky, lambda x: lapack.cholesky(x, False), a.swapaxes(-1, -2) if upper else a)
    return (factor.swapaxes(-1, -2) if upper else factor), info


def solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    a, b = _stacked(a, b)
    if not b.size:
        return b.copy()
    return runtime.scipy_linalg().solve_triangular(a, b, lower=not upper, unit_diagonal=unit)


def _factors_of_det(a: Any) -> Any:
    """Numbers whose product is the determinant: U's diagonal, with the sign of each exchange of rows."""
    xp, (factors, pivots, _) = runtime.cupy(), _lu_of_batch(a)
    diagonal = xp.diagonal(factors, axis1=-2, axis2=-1)
    stays = pivots == xp.arange(1, a.shape[-1] + 1, dtype=np.int32)
    return xp.where(stays, diagonal, -diagonal)


def slogdet(a: Any) -> tuple[Any, Any]:
    xp = runtime.cupy()
    if not _suits_batched(a):
        sign, logarithm = xp.linalg.slogdet(a)
        return sign, logarithm
    factors = _factors_of_det(a)
    return xp.sign(factors).prod(-1), xp.log(xp.abs(factors)).sum(-1)


def det(a: Any) -> Any:
    return _factors_of_det(a).prod(-1) if _suits_batched(a) else runtime.cupy().linalg.det(a)


def expm(a: Any) -> Any:
    """The matrix exponential by scaling and squaring with a [13/13] Padé approximant.

    N. J. Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, SIAM J. Matrix Anal. Appl. 26
    (2005).

    Each matrix has a power of two of its own; one number goes to the host, the most squarings needed. cupyx has expm of
    one matrix, which reads its trace on the host, and raises where the exponential of that overflows.
    """
    xp = runtime.cupy()
    if not a.size:
        return a.copy()
    norm = xp.abs(a).sum(-2).max(-1)
    halvings = xp.ceil(xp.log2(xp.where(norm > PADE_RADIUS, norm / PADE_RADIUS, 1)))
    halvings = xp.where(xp.isfinite(norm), halvings, 0)[..., None, None]
    odd, even = _pade(xp, a * xp.exp2(-halvings))
    out = xp.linalg.solve(even - odd, even + odd)
    for done in range(int(halvings.max())):
        out = xp.where(halvings > done, xp.matmul(out, out), out)
    return out


def _pade(xp: Any, a: Any) -> tuple[Any, Any]:
    """The odd and the even part of the Padé numerator; the denominator is their difference, even - odd."""
    b, one = PADE, xp.eye(a.shape[-1], dtype=a.dtype)
    a2 = xp.matmul(a, a)
    a4 = xp.matmul(a2, a2)
    a6 = xp.matmul(a2, a4)
    high = xp.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = xp.matmul(a, high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    high = xp.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    return odd, high + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one


# ---- orthogonal factors ------------------------------------------------------------------------------


def qr(a: Any, complete: bool) -> tuple[Any, Any]:
    q, r = runtime.cupy().linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def eigh(a: Any, triangle: str) -> tuple[Any, Any]:
    values, vectors = _raising(runtime.cupy().linalg.eigh, a, triangle)
    return values, vectors


def eigvalsh(a: Any, triangle: str) -> Any:
    return _raising(runtime.cupy().linalg.eigvalsh, a, triangle)


def eig(a: Any) -> tuple[Any, Any]:
    """Eigenvalues, and eigenvectors as columns; always complex arrays."""
    values, vectors = _raising(runtime.cupy().linalg.eig, a)
    return values, vectors


def svd(a: Any, full: bool) -> tuple[Any, Any, Any]:
    u, s, vt = _raising(runtime.cupy().linalg.svd, a, full)
    return u, s, vt


def svdvals(a: Any) -> Any:
    return _raising(runtime.cupy().linalg.svd, a, False, False)
