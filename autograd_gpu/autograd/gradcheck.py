"""Derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..backend.dtypes import FLOATS, float64
from ..core.op import RECORD
from ..core.tensor import Tensor, wrap
from ..errors import GradcheckError
from .backward import grad

Inputs = Tensor | Sequence[Any]


def gradcheck(
    func: Callable[..., Any], inputs: Inputs, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, fast_mode: bool = False,
) -> bool:
    """Whether the gradients of `func(*inputs)` agree with central differences of step `eps`.

    inputs: float64 tensors, those with requires_grad are checked; other values are passed on. Agreement:
    |analytic - numeric| <= atol + rtol * |numeric|, per element of the full Jacobian. Running backward twice must give
    the same within `nondet_tol`. Raises GradcheckError that shows the entry, or returns False without raise_exception.
    fast_mode: only u^T J v for random u and v is compared, with atol * sum|u| * sum|v|: two calls of `func` and one
    backward per pair of input and output, for large inputs and slow devices.

    >>> x = ag.tensor([0.5, 1.5], dtype=ag.float64, requires_grad=True)
    >>> ag.autograd.gradcheck(lambda x: x.sin() * x, (x,))
    True
    """
    try:
        if _checked_positions(_tuple(inputs)) and not _differentiable(func(*_tuple(inputs))):
            raise ValueError("gradcheck: no output of the function requires grad, so there is nothing to check; "
                             "does it detach its inputs?")
        _check(func, inputs, eps, atol, rtol, nondet_tol, fast_mode)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Inputs, grad_outputs: Inputs | None = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
    fast_mode: bool = False,
) -> bool:
    """The same for the second derivatives: `gradcheck` of the gradient as a function of inputs and grad_outputs.

    grad_outputs: cotangents; random ones by default.

    >>> x = ag.tensor([0.5, 1.5], dtype=ag.float64, requires_grad=True)
    >>> ag.autograd.gradgradcheck(lambda x: x ** 3, (x,))
    True
    """
    args = _tuple(inputs)
    positions = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    outputs = _differentiable(func(*args))
    if not outputs:
        raise ValueError("gradgradcheck: no output of the function requires grad, so there is nothing to check")
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = [_like(o, rng.standard_normal(o.shape)).requires_grad_() for o in outputs]
    else:
        cotangents = list(_tuple(grad_outputs))

    def gradient(*values: Any) -> tuple[Tensor, ...]:
        point, gs = values[: len(args)], values[len(args) :]
        outs = _differentiable(func(*point))
        wanted = [point[i] for i in positions]
        found = grad(outs, wanted, list(gs), create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    try:
        _check(gradient, (*args, *cotangents), eps, atol, rtol, nondet_tol, fast_mode)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Any, inputs: Inputs, eps: float, atol: float, rtol: float, nondet_tol: float, fast_mode: bool
) -> None:
    args = _tuple(inputs)
    checked = _checked_positions(args)
    for k, output in enumerate(_floating(func(*args))):
        cotangents = _probes(output.numel(), fast_mode).T
        analytic = _analytic(func, args, checked, k, cotangents)
        again = _analytic(func, args, checked, k, cotangents)
        for i, first, second in zip(checked, analytic, again, strict=True):
            if first.size and np.abs(first - second).max() > nondet_tol:
                raise GradcheckError(f"Backward is not reentrant: the gradient of output {k} by input {i} differs "
                                     f"between two runs by {np.abs(first - second).max():.3g}")
            directions = _probes(args[i].numel(), fast_mode)
            numeric = _numeric(func, args, i, k, eps, directions, output.numel()) @ cotangents
            allowed = atol * np.outer(np.abs(directions).sum(1), np.abs(cotangents).sum(0)) + rtol * np.abs(numeric)
            _compare(numeric, directions @ first, allowed, k, i)


def _probes(size: int, fast_mode: bool) -> np.ndarray:
    """Directions as rows: all unit vectors, or a random one."""
    return np.random.default_rng(size).standard_normal((1, size)) if fast_mode else np.eye(size)


def _checked_positions(args: tuple[Any, ...]) -> list[int]:
    checked = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them does")
    for i in checked:
        if args[i].dtype != float64:
            raise ValueError(f"gradcheck: input {i} has dtype {args[i].dtype}; finite differences need float64")
    return checked


def _analytic(
    func: Any, args: tuple[Any, ...], checked: list[int], k: int, cotangents: np.ndarray
) -> list[np.ndarray]:
    """J @ cotangents for each checked input, J being (inputs, outputs), a column at a time in reverse mode.

    An output that does not require grad claims not to depend on them: zeros, which the numerical one must confirm.
    """
    output = _floating(func(*args))[k]
    wanted = [args[i] for i in checked]
    jacobians = [np.zeros((x.numel(), cotangents.shape[1])) for x in wanted]
    if not output.requires_grad:
        return jacobians
    for j, cotangent in enumerate(cotangents.T):
        g = _like(output, cotangent.reshape(output.shape))
        found = grad(output, wanted, g, retain_graph=True, allow_unused=True)
        for jacobian, x, gx in zip(jacobians, wanted, found, strict=True):
            if gx is not None:
                if (gx.shape, gx.dtype) != (x.shape, x.dtype):
                    raise GradcheckError(f"Gradient of shape {gx.shape} and dtype {gx.dtype} for an input of shape "
                                         f"{x.shape} and dtype {x.dtype}")
                jacobian[:, j] = to_numpy(gx._array).reshape(-1)
    return jacobians


def _numeric(
    func: Any, args: tuple[Any, ...], i: int, k: int, eps: float, directions: np.ndarray, size: int
) -> np.ndarray:
    """The central difference of output k along each direction of input i, as rows."""
    base = to_numpy(args[i]._array)
    differences = np.zeros((len(directions), size))
    for j, direction in enumerate(directions):
        sides = []
        for step in (eps, -eps):
            moved = base + step * direction.reshape(base.shape)
            point = [*args[:i], _like(args[i], moved).requires_grad_(), *args[i + 1 :]]
            sides.append(to_numpy(_floating(func(*point))[k]._array).reshape(-1))
        differences[j] = (sides[0] - sides[1]) / (2 * eps)
    return differences


def _compare(numeric: np.ndarray, analytic: np.ndarray, allowed: np.ndarray, k: int, i: int) -> None:
    wrong = ~(np.abs(numeric - analytic) <= allowed)
    if wrong.any():
        row, column = (int(v) for v in np.argwhere(wrong)[0])
        raise GradcheckError(
            f"Jacobian mismatch for output {k} with respect to input {i}: at input element {row}, output element "
            f"{column} numerical {numeric[row, column]:.6g}, analytical {analytic[row, column]:.6g} "
            f"({int(wrong.sum())} of {wrong.size} entries differ)\nnumerical:{numeric}\nanalytical:{analytic}"
        )


def _tuple(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, Tensor) else tuple(values)


def _floating(outputs: Any) -> list[Tensor]:
    return [o for o in _tuple(outputs) if isinstance(o, Tensor) and o.dtype in FLOATS]


def _differentiable(outputs: Any) -> list[Tensor]:
    return [o for o in _floating(outputs) if o.requires_grad]


def _like(tensor: Tensor, values: np.ndarray) -> Tensor:
    return RECORD.to_device(wrap(np.asarray(values, dtype=tensor.dtype)), tensor.device)
