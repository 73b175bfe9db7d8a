"""Decompositions and solvers of cupy.linalg and cupyx.scipy.linalg: NumPy's and SciPy's, after waiting for arguments.

CuPy looks at cuSOLVER's answer only under `cupyx.errstate(linalg="raise")`; else what failed is garbage: here NaN.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._call import call_now
from ._functions import made
from ._state import current_queue
from ._table import API

_PRODUCTS = frozenset(("cross", "diagonal", "matmul", "matrix_transpose", "norm", "outer", "tensordot", "trace",
                       "vecdot"))  # fmt: skip


class _Config(threading.local):
    linalg = "ignore"


_config = _Config()


def seterr(
    *, divide: None = None, over: None = None, under: None = None, invalid: None = None, linalg: str | None = None
) -> dict[str, Any]:
    before = geterr()
    if (divide, over, under, invalid) != (None,) * 4 or linalg not in (None, "ignore", "raise"):
        raise NotImplementedError
    _config.linalg = linalg or _config.linalg
    return before


def geterr() -> dict[str, Any]:
    return {"divide": None, "over": None, "under": None, "invalid": None, "linalg": _config.linalg}


@contextmanager
def errstate(
    *, divide: None = None, over: None = None, under: None = None, invalid: None = None, linalg: str | None = None
) -> Iterator[None]:
    before = seterr(divide=divide, over=over, under=under, invalid=invalid, linalg=linalg)
    try:
        yield
    finally:
        seterr(**before)


def linalg(name: str) -> Callable[..., Any] | None:
    """cupy.linalg.<name>, made of NumPy's function."""
    theirs, parameters = getattr(np.linalg, name, None), API["cupy.linalg"][name] or []
    if theirs is None or name in _PRODUCTS:
        return theirs and made(name, theirs, parameters)
    if name in ("eig", "eigvals"):
        theirs = _complex(theirs)
    return made(name, theirs, parameters, functools.partial(_solve, name, theirs))


def _complex(function: Callable[..., Any]) -> Callable[..., Any]:
    """CuPy's results are complex, whatever the eigenvalues are; so are NumPy's from 2.5 on."""

    @functools.wraps(function)
    def run(a: Any) -> Any:
        found = function(a)
        dtype = np.result_type(a, np.complex64)
        return tuple(x.astype(dtype) for x in found) if isinstance(found, tuple) else found.astype(dtype)

    return run


def scipy_linalg(name: str) -> Callable[..., Any] | None:
    """cupyx.scipy.linalg.<name>, made of SciPy's function."""
    own = {"solve_triangular": _solve_triangular}
    theirs = own.get(name) or getattr(importlib.import_module("scipy.linalg"), name, None)
    return theirs and made(name, theirs, API["cupyx.scipy.linalg"][name] or [], functools.partial(_solve, name, theirs))


def _solve(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if current_queue().capture is not None:
        raise NotImplementedError("calling cuSOLVER API during stream capture is currently unsupported")
    return call_now(f"linalg.{name}", _as_configured(function), args, kwargs)


def _as_configured(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(a: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(a, *args, **kwargs)
        except np.linalg.LinAlgError:
            if _config.linalg == "raise":
                raise
        sound = function(np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape), *args, **kwargs)
        several = isinstance(sound, tuple)
        garbage = [np.full_like(part, np.nan) for part in (sound if several else (sound,))]
        return tuple(garbage) if several else garbage[0]

    return run


def _solve_triangular(
    a: np.ndarray, b: np.ndarray, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False,
    overwrite_b: bool = False, check_finite: bool = False,
) -> np.ndarray:  # fmt: skip
    """SciPy's for a batch, with CuPy's conditions; a zero on the diagonal is divided by, as cuBLAS does."""
    batch = a.shape[:-2]
    if a.shape[-1] != a.shape[-2]:
        raise ValueError("expected a batch of square matrices" if batch else "expected square matrix")
    if batch != b.shape[: len(batch)]:
        raise ValueError("incompatible batch count")
    if b.ndim < a.ndim - 1 or a.shape[-2] != b.shape[len(batch)]:
        raise ValueError("incompatible dimensions")
    trtrs = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs(("trtrs",), (a, b))[0]
    out = np.empty(b.shape, np.result_type(a, b))
    for index in np.ndindex(*batch):
        x, info = trtrs(a[index], b[index], lower=lower, trans={"N": 0, "T": 1, "C": 2}.get(trans, trans),
                        unitdiag=unit_diagonal)  # fmt: skip
        out[index] = np.inf if info > 0 else x
    return out
