"""Jacobians of a function as NumPy matrices, by finite differences and by backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..backend.arrays.dtypes import FLOATS
from ..core.declare.op import RECORD
from ..core.tensor import Tensor, wrap
from ..errors import GradcheckError
from .backward import grad


def as_tuple(values: Any) -> tuple[Any, ...]:
    """The inputs or outputs of a function as a tuple."""
    return (values,) if isinstance(values, Tensor) else tuple(values)


def floating(outputs: Any) -> list[Tensor]:
    """The floating-point outputs."""
    return [o for o in as_tuple(outputs) if isinstance(o, Tensor) and o.dtype in FLOATS]


def like(tensor: Tensor, values: np.ndarray) -> Tensor:
    """A tensor of `values` with the dtype and device of `tensor`."""
    return RECORD.to_device(wrap(np.asarray(values, dtype=tensor.dtype)), tensor.device)


def differences(
    func: Callable[..., Any], args: tuple[Any, ...], i: int, eps: float, directions: np.ndarray, outputs: list[Tensor]
) -> list[np.ndarray]:
    """For each floating-point output the central differences along each direction of input i, as rows.

    Perturbs the input in place without changing its version counter, so that func may read it from elsewhere.
    """
    at = args[i].data
    base = to_numpy(at.array).copy()
    results = [np.zeros((len(directions), o.numel())) for o in outputs]
    for j, direction in enumerate(directions):
        step = eps * direction.reshape(base.shape)
        try:
            sides = [_moved(func, args, at, base + s) for s in (-step, step)]
        finally:
            at.copy_(like(at, base))
        where = f" on index {tuple(map(int, np.unravel_index(j, base.shape)))}" if len(directions) == base.size else ""
        for side in sides:
            _check_unchanged(outputs, side, f"{where} by {eps}")
        for rows, below, above in zip(results, *sides, strict=True):
            rows[j] = (above.astype(np.float64) - below.astype(np.float64)).reshape(-1) / (2 * eps)
    return results


def _moved(func: Callable[..., Any], args: tuple[Any, ...], at: Tensor, values: np.ndarray) -> list[np.ndarray]:
    """The floating-point outputs with `values` written to `at`, a view of an input."""
    at.copy_(like(at, values))
    return [to_numpy(o.array).copy() for o in floating(func(*args))]


def _check_unchanged(outputs: list[Tensor], side: list[np.ndarray], where: str) -> None:
    for what in ("shape", "dtype"):
        before, after = [getattr(o, what) for o in outputs], [getattr(o, what) for o in side]
        if before != after:
            raise AssertionError(f"Expected `func` to return outputs with the same {what} when inputs are perturbed"
                                 f"{where}, but got: {what}s {before} and {after}.")


def products(
    output: Tensor, inputs: Sequence[Tensor], cotangents: np.ndarray, check_dtypes: bool = False
) -> list[np.ndarray]:
    """J @ cotangents for each input, with J of shape (input elements, output elements); one backward per column."""
    jacobians = [np.zeros((x.numel(), cotangents.shape[1])) for x in inputs]
    for j, cotangent in enumerate(cotangents.T):
        g = like(output, cotangent.reshape(output.shape))
        gradients = grad(output, inputs, g, retain_graph=True, allow_unused=True)
        for jacobian, x, gx in zip(jacobians, inputs, gradients, strict=True):
            if gx is not None:
                check_metadata(gx, x, check_dtypes)
                jacobian[:, j] = to_numpy(gx.array).reshape(-1)
    return jacobians


def check_metadata(gradient: Tensor, x: Tensor, dtypes: bool) -> None:
    """GradcheckError if a gradient differs from its input in shape, device or, with `dtypes`, dtype."""
    if gradient.shape != x.shape:
        raise GradcheckError(f"Analytical gradient has incorrect size: {gradient.shape} for an input of {x.shape}")
    if gradient.device != x.device:
        raise GradcheckError(f"grad is on incorrect device: {gradient.device} for an input on {x.device}")
    if dtypes and gradient.dtype != x.dtype:
        raise GradcheckError(f"Gradient has dtype mismatch: {gradient.dtype} for an input of {x.dtype}")
