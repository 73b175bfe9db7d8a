"""Matrix decompositions on the CPU: SciPy's LAPACK for one matrix, NumPy's C loops for batches where they exist.

For a small matrix NumPy's functions have an overhead of four times the LAPACK call. `cuda/cusolver.py` has the same
functions for CuPy arrays. All take float32 or float64 arrays (..., m, n) of checked shapes, and do not change them.

`info` is 0 on success, else LAPACK's info value of the matrix, or for a batch an int32 array (...) of them; the result
of a failed matrix is NaN. numpy.linalg.LinAlgError means that an iteration did not converge.

A decomposition of one matrix runs on one thread, or on as many of BLAS' as `ag.set_num_threads` was asked for; the
matrices of a large batch are shared among our own threads (rows.py).

Note [transposed]
LAPACK is column-major, so it sees a row-major matrix as its transpose: these functions pass `a.T`, which needs no copy,
and transpose the result.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..arrays.dtypes import float32
from . import blas, rows

SMALL = 1 << 12  # elements up to which NumPy's overhead matters: np.triu takes 8 us to make its mask
NO_THREADS = 1 << 10  # elements up to which OpenBLAS uses no threads in any routine
PER_BLOCK, BLOCKS_PER_CORE = 1 << 14, 4  # elements of a block of matrices, at least; blocks, at most
MANY = 4  # matrices per row or column from which steps for all of them are faster than a call for each
BLOCK = 64  # LAPACK's block size in columns, for the size of workspaces

Info = Any  # int or an int32 array


@functools.lru_cache(maxsize=64)
def _routine(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """SciPy's LAPACK or BLAS routine for `dtype`: sgetrf or dgetrf for "getrf". Imports SciPy at the first call."""
    import scipy.linalg.blas
    import scipy.linalg.lapack

    full = ("s" if dtype == float32 else "d") + name
    return getattr(scipy.linalg.lapack if hasattr(scipy.linalg.lapack, full) else scipy.linalg.blas, full)


def _by_scipy(name: str, matrix: np.ndarray, *args: Any) -> Any:
    """_routine(name)(*args), where `matrix` is the largest operand."""
    routine = _routine(name, matrix.dtype)
    if matrix.size <= NO_THREADS:
        return routine(*args)
    return blas.limit_of("scipy").on(rows.asked(), routine, *args)


def _by_numpy(function: Callable[..., Any], a: np.ndarray, *args: Any) -> Any:
    """function(a, *args) of numpy.linalg, for a batch of the results of `a` alone by blocks of its matrices."""
    if a.size <= NO_THREADS:
        return function(a, *args)
    count = math.prod(a.shape[:-2])
    if count == 1 or a.size < PER_BLOCK * 2 or rows.cores() == 1:
        return blas.limit_of("numpy").on(rows.asked() if count == 1 else 1, function, a, *args)
    blocks = min(count, BLOCKS_PER_CORE * rows.cores(), a.size // PER_BLOCK)
    return _in_blocks(function, a.reshape(count, *a.shape[-2:]), -(-count // blocks), args, a.shape[:-2])


def _in_blocks(function: Callable[..., Any], a: np.ndarray, step: int, args: tuple[Any, ...], batch: Any) -> Any:
    parts: dict[int, Any] = {}

    def work(start: int, stop: int) -> None:
        parts[start] = function(a[start:stop], *args)

    blas.on_one_thread(rows.in_blocks, len(a), step, work)
    results = [parts[start] for start in range(0, len(a), step)]
    if not isinstance(results[0], tuple):
        return _joined(results, batch)
    return tuple([_joined(column, batch) for column in zip(*results, strict=True)])


def _joined(parts: Any, batch: tuple[int, ...]) -> np.ndarray:
    whole = np.concatenate(parts)
    return whole.reshape(*batch, *whole.shape[1:])


def _each(function: Callable[..., Any], *arrays: np.ndarray) -> list[Any]:
    """Calls `function` on each matrix of a broadcast batch and stacks each of its results.

    Scalar results (info) become an int32 array, or 0 if all are 0.
    """
    batch = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
    stacks = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    calls = [function(*[stack[index] for stack in stacks]) for index in np.ndindex(*batch)]
    results: list[Any] = []
    for column in zip(*calls, strict=True):
        stacked = np.array(column, None if isinstance(column[0], np.ndarray) else np.int32)
        stacked = stacked.reshape(*batch, *stacked.shape[1:])
        results.append(stacked if isinstance(column[0], np.ndarray) or stacked.any() else 0)
    return results


def _failed(a: np.ndarray) -> np.ndarray:
    return np.full(a.shape, math.nan, a.dtype)


@functools.lru_cache(maxsize=64)
def _below(m: int, n: int) -> np.ndarray:
    """An (m, n) bool mask, True below the diagonal."""
    return np.tri(m, n, -1, bool)


# ---- square systems ----------------------------------------------------------------------------------


def lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, Info]:
    """The LU factorization with partial pivoting: (factors, pivots, info).

    `factors` (..., m, n) holds L below the diagonal and U on and above it. `pivots` (..., min(m, n)), int32, is the row
    that each row was exchanged with, counted from 1. `info` is the position of the first zero on U's diagonal, from 1.
    """
    if not a.size:
        return a.copy(), np.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32), 0
    if a.ndim > 2:
        return _eliminated(a) if math.prod(a.shape[:-2]) >= MANY * min(a.shape[-2:]) else tuple(_each(lu, a))
    factors, pivots, info = _by_scipy("getrf", a, a)
    pivots += 1
    return factors, pivots, info


def _eliminated(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, Info]:
    """`lu` of many small matrices, one column of all of them at a time: SciPy calls LAPACK from Python for each."""
    m, n = a.shape[-2:]
    steps, count = min(m, n), math.prod(a.shape[:-2])
    matrices = np.arange(count)
    factors = np.ascontiguousarray(a.reshape(count, m, n).transpose(1, 2, 0))  # the matrices are the last dimension
    pivots, zeros = np.empty((steps, count), np.int32), np.empty((steps, count), bool)
    for k in range(steps):
        row = np.absolute(factors[k:, k]).argmax(0) + k
        pivots[k] = row + 1
        top = factors[k].copy()
        factors[k] = factors[row, :, matrices].T
        factors[row, :, matrices] = top.T
        pivot = factors[k, k]
        zeros[k] = pivot == 0
        factors[k + 1 :, k] /= np.where(zeros[k], 1, pivot)  # zeros below a zero
        factors[k + 1 :, k + 1 :] -= factors[k + 1 :, k, None] * factors[k, None, k + 1 :]
    info: Info = np.where(zeros.any(0), zeros.argmax(0) + 1, 0).astype(np.int32).reshape(a.shape[:-2])
    factors = np.ascontiguousarray(factors.transpose(2, 0, 1)).reshape(a.shape)
    return factors, np.ascontiguousarray(pivots.T).reshape(*a.shape[:-2], steps), info if info.any() else 0


def inv(a: np.ndarray) -> tuple[np.ndarray, Info]:
    """The inverse of a (..., n, n), and info as in `lu`."""
    if a.ndim > 2 or not a.size:
        try:
            return _by_numpy(np.linalg.inv, a), 0
        except np.linalg.LinAlgError:
            return tuple(_each(inv, a))
    factors, pivots, info = _by_scipy("getrf", a, a.T)  # see Note [transposed]
    if info:
        return _failed(a), lu(a)[2] or info
    return _by_scipy("getri", a, factors, pivots, BLOCK * len(a), 1)[0].T, 0


def solve(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Info]:
    """The solution x of a @ x = b for b (..., n, k), broadcasting batches, and info as in `lu`."""
    if a.ndim > 2 or b.ndim > 2 or not a.size or not b.size:
        try:
            return blas.on_one_thread(np.linalg.solve, a, b), 0
        except np.linalg.LinAlgError:
            return tuple(_each(solve, a, b))
    _, _, x, info = _by_scipy("gesv", max(a, b, key=np.size), a, b)
    return (_failed(b), info) if info else (x, 0)


def cholesky(a: np.ndarray, upper: bool) -> tuple[np.ndarray, Info]:
    """The Cholesky factor of a positive-definite matrix, and info.

    The lower factor, which reads the lower triangle of a; the upper one, from the upper triangle, if `upper`. `info` is
    the order of the first leading minor that is not positive; from its last pivot on the factor is NaN.
    """
    if a.ndim > 2 or not a.size:
        try:
            lower = _by_numpy(np.linalg.cholesky, a.swapaxes(-1, -2) if upper else a)
            factor = lower.swapaxes(-1, -2) if upper else lower
        except np.linalg.LinAlgError:
            return tuple(_each(lambda x: cholesky(x, upper), a))
        return tuple(_each(lambda x: cholesky(x, upper), a)) if np.isnan(factor[..., -1:, -1:]).any() else (factor, 0)
    factor, info = _by_scipy("potrf", a, a.T, int(upper), 1)  # see Note [transposed]: the other triangle
    if not info and math.isnan(factor[-1, -1]):  # OpenBLAS goes on with NaN, to the last element
        info = int(np.isnan(factor.diagonal()).argmax()) + 1
    if not info:
        return factor.T, 0
    result = _failed(a)  # but for the rows that were factored: users learn from them by how much the minor fails
    known = (slice(None), slice(info)) if upper else (slice(info), slice(None))
    result[known] = factor.T[known]
    result[info - 1, info - 1] = math.nan
    return result, info


def solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """The solution x of a @ x = b for the upper or lower triangle of a, broadcasting batches.

    `unit` takes the diagonal as ones; a zero on the diagonal gives infinities or NaN.
    """
    if not a.size or not b.size:
        return np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
    if a.ndim > 2 or b.ndim > 2:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if math.prod(batch) > a.shape[-1]:
            return _substituted(a, b, batch, upper, unit)
        return _each(lambda p, q: (solve_triangular(p, q, upper, unit),), a, b)[0]
    largest = max(a, b, key=np.size)
    return _by_scipy("trsm", largest, 1.0, a.T, b.T, 1, int(upper), 0, int(unit)).T  # Note [transposed]: xᵀ aᵀ = bᵀ


def _substituted(a: np.ndarray, b: np.ndarray, batch: tuple[int, ...], upper: bool, unit: bool) -> np.ndarray:
    """Solves a batch of triangular systems by substitution, one row of all matrices at a time.

    For many small matrices this is faster than one LAPACK call per matrix.
    """
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    n = a.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in reversed(range(n)) if upper else range(n):
            known = slice(i + 1, n) if upper else slice(i)
            x[..., i : i + 1, :] -= np.matmul(a[..., i : i + 1, known], x[..., known, :])
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
    return x


def slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sign and the log of the absolute value of the determinant; 0 and -inf for a singular matrix."""
    sign, logarithm = _by_numpy(np.linalg.slogdet, a)
    return sign, logarithm


def det(a: np.ndarray) -> np.ndarray:
    """The determinant of a (..., n, n)."""
    return _by_numpy(np.linalg.det, a)


def expm(a: np.ndarray) -> np.ndarray:
    """The matrix exponential, by scaling and squaring (Al-Mohy and Higham, 2009)."""
    import scipy.linalg

    return blas.limit_of("scipy").on(1, blas.on_one_thread, scipy.linalg.expm, a) if a.size else a.copy()


# ---- orthogonal factors ------------------------------------------------------------------------------


def qr(a: np.ndarray, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    """The QR factorization: Q with orthonormal columns, m of them if `complete`, else min(m, n); and R."""
    if a.ndim > 2 or not a.size:
        q, r = _by_numpy(np.linalg.qr, a, "complete" if complete else "reduced")
        return q, r
    m, n = a.shape
    k = m if complete else min(m, n)
    reflectors, tau, _, _ = _by_scipy("geqrf", a, a, BLOCK * n)
    vectors = reflectors[:, :k]
    if k > n:
        vectors = np.zeros((m, k), a.dtype, "F")
        vectors[:, :n] = reflectors
    q = _by_scipy("orgqr", vectors, vectors, tau, BLOCK * k)[0]
    return q, np.where(_below(k, n), a.dtype.type(0), reflectors[:k]) if k * n <= SMALL else np.triu(reflectors[:k])


def reflected(a: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The first n columns of the product of the reflections in the columns of one matrix (m, n)."""
    return _by_scipy("orgqr", a, a, tau, BLOCK * max(a.shape[1], 1))[0]


# ---- iterations ---------------------------------------------------------------------------------------


def _is_one_small(a: np.ndarray) -> bool:
    """Whether `a` is one small matrix: NumPy's overhead would dominate, and LAPACK's minimal workspace is enough."""
    return a.ndim == 2 and 0 < a.size <= SMALL


def _converged(info: int, *results: np.ndarray) -> tuple[np.ndarray, ...]:
    if info:
        raise np.linalg.LinAlgError(f"LAPACK's iteration did not converge (error code: {info})")
    return results


def eigh(a: np.ndarray, triangle: Literal["L", "U"]) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues, and eigenvectors as columns, of a symmetric matrix; reads one triangle."""
    if _is_one_small(a):
        values, vectors, info = _by_scipy("syevd", a, a, 1, int(triangle == "L"))
        return _converged(info, values, vectors)  # type: ignore[return-value]
    values, vectors = _by_numpy(np.linalg.eigh, a, triangle)
    return values, vectors


def eigvalsh(a: np.ndarray, triangle: Literal["L", "U"]) -> np.ndarray:
    """The eigenvalues of `eigh`."""
    if _is_one_small(a):
        values, _, info = _by_scipy("syevd", a, a, 0, int(triangle == "L"))
        return _converged(info, values)[0]
    return _by_numpy(np.linalg.eigvalsh, a, triangle)


def eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, and eigenvectors as columns of norm 1; complex arrays if an eigenvalue is, and with NumPy 2.5."""
    values, vectors = _by_numpy(np.linalg.eig, a)
    return values, vectors


def svd(a: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, the singular values in descending order, and Vᵀ; with square U and V if `full`."""
    if _is_one_small(a):
        *factors, info = _by_scipy("gesdd", a, a, 1, int(full))
        return _converged(info, *factors)  # type: ignore[return-value]
    u, s, vt = _by_numpy(np.linalg.svd, a, full)
    return u, s, vt


def svdvals(a: np.ndarray) -> np.ndarray:
    """The singular values of `svd`."""
    if _is_one_small(a):
        _, s, _, info = _by_scipy("gesdd", a, a, 0)
        return _converged(info, s)[0]
    return _by_numpy(functools.partial(np.linalg.svd, compute_uv=False), a)
