"""Checks of the arguments of linear algebra, and errors for matrices that fail, with PyTorch's texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...core.extend import aligned, expanded, moved
from ...errors import LinAlgError

CONVERGED = ("The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
             "{what}")
NON_FINITE = "The algorithm failed to converge because the input matrix contained non-finite values."


def check_matrix(name: str, a: Any, what: str = "A") -> None:
    """Checks for two dimensions or more, float32 or float64: as in PyTorch, half types cannot be decomposed."""
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {what} must have at least 2 dimensions.")
    if a.dtype not in dtypes.FULL_FLOATS:
        if a.dtype in dtypes.HALF:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {a.dtype}; convert with "
                               ".to(ag.float32)")
        raise RuntimeError(f"{name}: Expected a floating point tensor as input. Got {a.dtype}; convert with .float()")


def check_square(name: str, a: Any, what: str = "A") -> None:
    check_matrix(name, a, what)
    m, n = a.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: {what} must be batches of square matrices, but they are {m} by {n} matrices")


def check_system(name: str, a: Any, b: Any, left: bool) -> None:
    """Checks the sizes of the system a @ x = b, or x @ a = b."""
    check_square(name, a)
    check_matrix(name, b, "B")
    if a.shape[-1] != b.shape[-2 if left else -1]:
        m, n = a.shape[-2:]
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
                           f"({m}x{n} and {b.shape[-2]}x{b.shape[-1]})")


def raise_if_failed(name: str, info: Any, text: Callable[[int], str]) -> None:
    """LinAlgError for the first nonzero entry of `info`, an int or a NumPy array of ints, one per matrix."""
    if type(info) is int and not info:
        return
    numbers = np.asarray(info)
    failed = numbers.reshape(-1).nonzero()[0]
    if failed.size:
        which = f"(Batch element {failed[0]}): " if numbers.ndim else ""
        raise LinAlgError(f"{name}: {which}{text(int(numbers.reshape(-1)[failed[0]]))}")


def info_array(info: Any, a: Any) -> Any:
    """`info` as an int32 array on a's device, one number per matrix; the same array if it is there already."""
    if not isinstance(info, int) and backend.namespace(info) is backend.namespace(a):
        return info.astype(dtypes.int32, copy=False)
    return backend.to_device(np.full(a.shape[:-2], info, np.int32), backend.device_of(a))


def converged(name: str, text: str, function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), with PyTorch's error if its iteration does not converge."""
    try:
        return function(*args)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}: {text}") from error


# ---- batches of systems -------------------------------------------------------------------------------


def solutions(F: Any, solve: Callable[..., Any], n: int, batched: Any, a: Any, b: Any, left: bool) -> Any:
    """solve(a, b) for a batch of n; if a is not batched, all right-hand sides are solved as one system."""
    if tuple(batched) != (False, True):
        return solve(*aligned(F, (True, True), expanded(F, n, batched, (a, b))))
    x = solve(a, fold_batch(F, b, left))
    return unfold_batch(F, x, n, b.shape[-1 if left else -2], left)


def fold_batch(F: Any, b: Any, left: bool = True) -> Any:
    """b with the batch dimension folded into the columns, or into the rows if not `left`."""
    at = len(b.shape) - (2 if left else 3)
    rows, columns = b.shape[-2:]
    size = (rows, b.shape[0] * columns) if left else (b.shape[0] * rows, columns)
    return F.reshape(moved(F, b, 0, at), (*b.shape[1:-2], *size))


def unfold_batch(F: Any, x: Any, n: int, m: int, left: bool = True) -> Any:
    """The inverse of fold_batch: x with n * m columns, or rows, as n matrices."""
    rows, columns = x.shape[-2:]
    size = (rows, n, m) if left else (n, m, columns)
    return moved(F, F.reshape(x, (*x.shape[:-2], *size)), len(x.shape) - (1 if left else 2), 0)
