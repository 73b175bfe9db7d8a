"""The functions of `lapack.py` for CuPy's arrays, by cupy.linalg and cupyx.scipy.linalg: cuSOLVER and cuBLAS.

A failure is known only after waiting for the device, as PyTorch does for the same functions. cuSOLVER's report names no
matrix that one could show, and CuPy hands none out: what failed is computed again on the host, which names it.

CuPy has no batch of lu and expm; theirs is a loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import cuda, lapack
from .lapack import Info


def _or_on_host(function: Callable[..., Any], on_host: Callable[..., Any], *arrays: Any) -> tuple[Any, Info]:
    """(function(*arrays), 0), or if it fails what `on_host` makes of copies of the arrays."""
    try:
        with cuda.raising_linalg_errors():
            return function(*arrays), 0
    except np.linalg.LinAlgError:
        result, info = on_host(*map(cuda.to_host, arrays))
        return cuda.from_host(result, arrays[0].device.id), info


def _raising(function: Callable[..., Any], *args: Any) -> Any:
    with cuda.raising_linalg_errors():
        return function(*args)


def _stacked(a: Any, b: Any) -> tuple[Any, Any]:
    """Both with one batch: cuBLAS takes as many matrices of each."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    xp = cuda.cupy()
    return xp.broadcast_to(a, (*batch, *a.shape[-2:])), xp.broadcast_to(b, (*batch, *b.shape[-2:]))


def _each(function: Callable[[Any], tuple[Any, ...]], a: Any) -> list[Any]:
    """The results of `function` for each matrix of a batch, stacked."""
    batch, xp = a.shape[:-2], cuda.cupy()
    columns = zip(*[function(a[index]) for index in np.ndindex(*batch)], strict=True)
    return [xp.stack(column).reshape(*batch, *column[0].shape) for column in columns]


# ---- square systems ----------------------------------------------------------------------------------


def lu(a: Any) -> tuple[Any, Any, Info]:
    xp = cuda.cupy()
    if not a.size:
        return a.copy(), xp.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32), 0
    factors, pivots = _each(_lu, a) if a.ndim > 2 else _lu(a)
    zero = cuda.to_host(xp.diagonal(factors, axis1=-2, axis2=-1) == 0)
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)
    return factors, pivots, (info if info.ndim else int(info)) if info.any() else 0


def _lu(a: Any) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a zero on the diagonal, which info tells
        factors, pivots = cuda.scipy_linalg().lu_factor(a, check_finite=False)
    return factors, pivots.astype(np.int32) + 1


def inv(a: Any) -> tuple[Any, Info]:
    return _or_on_host(cuda.cupy().linalg.inv, lapack.inv, a)


def solve(a: Any, b: Any) -> tuple[Any, Info]:
    return _or_on_host(cuda.cupy().linalg.solve, lapack.solve, *_stacked(a, b))


def cholesky(a: Any, upper: bool) -> tuple[Any, Info]:
    factor, info = _or_on_host(
        cuda.cupy().linalg.cholesky, lambda x: lapack.cholesky(x, False), a.swapaxes(-1, -2) if upper else a
    )
    return (factor.swapaxes(-1, -2) if upper else factor), info


def solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    a, b = _stacked(a, b)
    if not b.size:
        return b.copy()
    return cuda.scipy_linalg().solve_triangular(a, b, lower=not upper, unit_diagonal=unit)


def slogdet(a: Any) -> tuple[Any, Any]:
    sign, logarithm = cuda.cupy().linalg.slogdet(a)
    return sign, logarithm


def det(a: Any) -> Any:
    return cuda.cupy().linalg.det(a)


def expm(a: Any) -> Any:
    if not a.size:
        return a.copy()
    one = cuda.scipy_linalg().expm
    return one(a) if a.ndim == 2 else _each(lambda x: (one(x),), a)[0]


# ---- orthogonal factors ------------------------------------------------------------------------------


def qr(a: Any, complete: bool) -> tuple[Any, Any]:
    q, r = cuda.cupy().linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def eigh(a: Any, triangle: str) -> tuple[Any, Any]:
    values, vectors = _raising(cuda.cupy().linalg.eigh, a, triangle)
    return values, vectors


def eigvalsh(a: Any, triangle: str) -> Any:
    return _raising(cuda.cupy().linalg.eigvalsh, a, triangle)


def eig(a: Any) -> tuple[Any, Any]:
    """Complex arrays always."""
    values, vectors = _raising(cuda.cupy().linalg.eig, a)
    return values, vectors


def svd(a: Any, full: bool) -> tuple[Any, Any, Any]:
    u, s, vt = _raising(cuda.cupy().linalg.svd, a, full)
    return u, s, vt


def svdvals(a: Any) -> Any:
    return _raising(cuda.cupy().linalg.svd, a, False, False)
