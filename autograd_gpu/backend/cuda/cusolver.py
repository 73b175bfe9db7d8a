"""The functions of `lapack.py` for CuPy's arrays, by cupy.linalg and cupyx.scipy.linalg: cuSOLVER and cuBLAS.

A failure is known only after waiting for the device, as PyTorch does for the same functions. cuSOLVER's report names no
matrix that one could show, and CuPy hands none out: what failed is computed again on the host, which names it.

CuPy has lu and expm of one matrix only. Batches of expm and of square lu are made here, of calls that take the whole
batch; lu of a batch that is not square, or of few large matrices, is a loop, which waits for the device at each matrix.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.dtypes import float32
from ..cpu import lapack
from ..cpu.lapack import Info
from . import cublas_handles, runtime

FEW = 1 << 16  # a batch of fewer matrices than n * n / FEW is factorized one by one
PADE_RADIUS = 5.37  # norms up to which the approximant is exact to float64: Higham's theta 13
PADE = [math.comb(13, k) / math.perm(26, k) for k in range(14)]  # of x ** k in the numerator


def _or_on_host(function: Callable[..., Any], on_host: Callable[..., Any], *arrays: Any) -> tuple[Any, Info]:
    """(function(*arrays), 0), or if it fails what `on_host` makes of copies of the arrays."""
    try:
        with runtime.raising_linalg_errors():
            return function(*arrays), 0
    except np.linalg.LinAlgError:
        result, info = on_host(*map(runtime.to_host, arrays))
        return runtime.from_host(result, arrays[0].device.id), info


def _raising(function: Callable[..., Any], *args: Any) -> Any:
    with runtime.raising_linalg_errors():
        return function(*args)


def _stacked(a: Any, b: Any) -> tuple[Any, Any]:
    """Both with one batch: cuBLAS takes as many matrices of each."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    xp = runtime.cupy()
    return xp.broadcast_to(a, (*batch, *a.shape[-2:])), xp.broadcast_to(b, (*batch, *b.shape[-2:]))


def _each(function: Callable[[Any], tuple[Any, ...]], a: Any) -> list[Any]:
    """The results of `function` for each matrix of a batch, stacked."""
    batch, xp = a.shape[:-2], runtime.cupy()
    columns = zip(*[function(a[index]) for index in np.ndindex(*batch)], strict=True)
    return [xp.stack(column).reshape(*batch, *column[0].shape) for column in columns]


# ---- square systems ----------------------------------------------------------------------------------


def lu(a: Any) -> tuple[Any, Any, Info]:
    xp = runtime.cupy()
    if not a.size:
        return a.copy(), xp.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32), 0
    if a.ndim == 2:
        factors, pivots = _lu(a)
    else:
        factors, pivots = _lu_of_batch(a) if _suits_batched(a) else _each(_lu, a)
    zero = runtime.to_host(xp.diagonal(factors, axis1=-2, axis2=-1) == 0)
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)
    return factors, pivots, (info if info.ndim else int(info)) if info.any() else 0


def _lu(a: Any) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a zero on the diagonal, which info tells
        factors, pivots = runtime.scipy_linalg().lu_factor(a, check_finite=False)
    return factors, pivots.astype(np.int32) + 1


def _suits_batched(a: Any) -> bool:
    """Whether getrfBatched takes `a` and is the faster way, by CuPy's rule for its inv and solve."""
    *batch, m, n = a.shape
    return m == n and math.prod(batch) * FEW >= n * n


def _lu_of_batch(a: Any) -> tuple[Any, Any]:
    """One call of cuBLAS for all matrices, which takes their addresses, and has them by columns."""
    xp, (*batch, n, _) = runtime.cupy(), a.shape
    count = math.prod(batch)
    columns = xp.array(a.swapaxes(-1, -2), order="C")
    first, step = columns.data.ptr, n * n * a.itemsize
    addresses = xp.arange(first, first + count * step, step, dtype=np.uint64)
    pivots, info = xp.empty((*batch, n), np.int32), xp.empty(count, np.int32)
    bindings, handle = runtime.cublas(), cublas_handles.handle(columns.device.id)
    factorize = bindings.sgetrfBatched if a.dtype == float32 else bindings.dgetrfBatched
    with handle.lock:
        factorize(handle.number, n, addresses.data.ptr, n, pivots.data.ptr, info.data.ptr, count)
    return columns.swapaxes(-1, -2), pivots


def inv(a: Any) -> tuple[Any, Info]:
    return _or_on_host(runtime.cupy().linalg.inv, lapack.inv, a)


def solve(a: Any, b: Any) -> tuple[Any, Info]:
    return _or_on_host(runtime.cupy().linalg.solve, lapack.solve, *_stacked(a, b))


def cholesky(a: Any, upper: bool) -> tuple[Any, Info]:
    factor, info = _or_on_host(
        runtime.cupy().linalg.cholesky, lambda x: lapack.cholesky(x, False), a.swapaxes(-1, -2) if upper else a
    )
    return (factor.swapaxes(-1, -2) if upper else factor), info


def solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    a, b = _stacked(a, b)
    if not b.size:
        return b.copy()
    return runtime.scipy_linalg().solve_triangular(a, b, lower=not upper, unit_diagonal=unit)


def slogdet(a: Any) -> tuple[Any, Any]:
    sign, logarithm = runtime.cupy().linalg.slogdet(a)
    return sign, logarithm


def det(a: Any) -> Any:
    return runtime.cupy().linalg.det(a)


def expm(a: Any) -> Any:
    """By scaling and squaring, with the [13/13] Padé approximant: Higham, SIAM J. Matrix Anal. Appl. 26 (2005)."""
    if not a.size:
        return a.copy()
    return runtime.scipy_linalg().expm(a) if a.ndim == 2 else _expm_of_batch(a)


def _expm_of_batch(a: Any) -> Any:
    """Each matrix is scaled by its own power of two; how often to square the worst is the one number that is read."""
    xp = runtime.cupy()
    norm = xp.abs(a).sum(-2).max(-1)
    halvings = xp.ceil(xp.log2(xp.where(norm > PADE_RADIUS, norm / PADE_RADIUS, 1)))
    halvings = xp.where(xp.isfinite(norm), halvings, 0)[..., None, None]
    odd, even = _pade(xp, a * xp.exp2(-halvings))
    out = xp.linalg.solve(even - odd, even + odd)
    for done in range(int(halvings.max())):
        out = xp.where(halvings > done, xp.matmul(out, out), out)
    return out


def _pade(xp: Any, a: Any) -> tuple[Any, Any]:
    """The odd and the even powers of the numerator; of the denominator the odd ones have the other sign."""
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
    """Complex arrays always."""
    values, vectors = _raising(runtime.cupy().linalg.eig, a)
    return values, vectors


def svd(a: Any, full: bool) -> tuple[Any, Any, Any]:
    u, s, vt = _raising(runtime.cupy().linalg.svd, a, full)
    return u, s, vt


def svdvals(a: Any) -> Any:
    return _raising(runtime.cupy().linalg.svd, a, False, False)
