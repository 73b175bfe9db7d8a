"""gradcheck and gradgradcheck: comparison of derivatives with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..backend.arrays.dtypes import float64
from ..core.declare.op import RECORD
from ..core.tensor import Tensor
from ..errors import GradcheckError
from .backward import grad
from .forward_checks import BATCHED, check_batched_forward, check_undefined_forward, compare_batched, pushes
from .numerical_jacobian import as_tuple, check_metadata, differences, floating, like, products
from .undefined_gradients import check_undefined

Inputs = Tensor | Sequence[Any]


@dataclass(frozen=True)
class Demands:
    """The options of `gradcheck`: the checks and their tolerances."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool
    masked: bool | None


def gradcheck(
    func: Callable[..., Any], inputs: Inputs, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func(*inputs)` agree with central differences of step `eps`.

    inputs: those that require grad are checked. They are perturbed in place, so `func` may read them from elsewhere:
    `gradcheck(lambda *_: net(data), tuple(net.parameters()))`. They should be float64; other dtypes warn, and need a
    larger eps and atol. Outputs that do not require grad are not compared; if none does, the differences must be zero.
    The condition is |analytic - numeric| <= atol + rtol * |numeric| for each element of the full Jacobian. Two backward
    runs must agree within `nondet_tol`, and zero cotangents must give zeros. Raises GradcheckError with the entry that
    differs, or returns False with raise_exception=False.
    check_undefined_grad: backward must accept None as the gradient of any output.
    check_grad_dtypes: gradients must have the dtypes of the inputs.
    check_batched_grad: `grad(is_grads_batched=True)` must equal single calls.
    fast_mode: compares only u^T J v for random u and v, with tolerance atol * sum|u| * sum|v|: two calls of `func` per
    input and one backward per output, for large inputs and slow devices.
    check_forward_ad: the Jacobian by forward mode (`autograd.forward_ad`) must agree, too; then func has to use the
    inputs that it is given. check_batched_forward_grad: a batch of tangents must give the same as single ones.
    check_backward_ad: with False only forward mode is checked.
    masked: ignored; in PyTorch it concerns sparse tensors.

    >>> x = ag.tensor([0.5, 1.5], dtype=ag.float64, requires_grad=True)
    >>> ag.autograd.gradcheck(lambda x: x.sin() * x, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    demands = Demands(eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
                      check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode, masked)
    return _verdict(func, as_tuple(inputs), demands, raise_exception)


def gradgradcheck(
    func: Callable[..., Any], inputs: Inputs, grad_outputs: Inputs | None = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:
    """Checks second derivatives: `gradcheck` of the gradient as a function of inputs and grad_outputs.

    grad_outputs: cotangents; random by default, and non-contiguous with gen_non_contig_grad_outputs.
    check_fwd_over_rev: forward mode over the gradient must agree, too. check_rev_over_rev: with False only that is
    checked. Other arguments as in `gradcheck`.

    >>> x = ag.tensor([0.5, 1.5], dtype=ag.float64, requires_grad=True)
    >>> ag.autograd.gradgradcheck(lambda x: x ** 3, (x,))
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    for name, value in (("check_undefined_grad", check_undefined_grad), ("check_batched_grad", check_batched_grad)):
        if value and not check_rev_over_rev:
            raise AssertionError(f"Setting {name}=True requires check_rev_over_rev to be True")
    args = as_tuple(inputs)
    positions = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    outputs = _differentiable(func(*args))
    if not outputs:
        raise ValueError("gradgradcheck: no output of the function requires grad, so there is nothing to check")
    cotangents = _cotangents(outputs, gen_non_contig_grad_outputs) if grad_outputs is None else as_tuple(grad_outputs)

    active = {i for i, x in enumerate((*args, *cotangents)) if isinstance(x, Tensor) and x.requires_grad}

    def gradient(*inputs: Any) -> tuple[Tensor, ...]:
        values = [x.requires_grad_() if i in active else x for i, x in enumerate(inputs)]  # a dual of one does not
        point, gs = values[: len(args)], values[len(args) :]
        grads = grad(_differentiable(func(*point)), [point[i] for i in positions], list(gs), create_graph=True,
                     allow_unused=True)
        return tuple([g for g in grads if g is not None])

    demands = Demands(eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
                      False, check_fwd_over_rev, check_rev_over_rev, fast_mode, masked)
    return _verdict(gradient, (*args, *cotangents), demands, raise_exception)


def _cotangents(outputs: list[Tensor], gaps: bool) -> tuple[Tensor, ...]:
    rng = np.random.default_rng(0)
    made = [like(o, rng.standard_normal((*o.shape, 2) if gaps else o.shape)) for o in outputs]
    return tuple([(g[..., 0] if gaps else g).requires_grad_() for g in made])


def _verdict(func: Callable[..., Any], args: tuple[Any, ...], demands: Demands, raise_exception: bool) -> bool:
    checked = _checked_positions(args)
    try:
        _check(func, args, checked, demands)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func: Callable[..., Any], args: tuple[Any, ...], checked: list[int], demands: Demands) -> None:
    outputs = floating(func(*args))
    kept = [k for k, o in enumerate(outputs) if o.requires_grad]
    inputs = [args[i] for i in checked]
    cotangents = {k: _probes(outputs[k].numel(), demands.fast_mode).T for k in kept}
    analytic = {}
    if demands.check_backward_ad:
        analytic = {k: _analytic(outputs[k], inputs, k, cotangents[k], demands) for k in kept}
    for n, i in enumerate(checked):
        directions = _probes(args[i].numel(), demands.fast_mode)
        numeric = differences(func, args, i, demands.eps, directions, outputs)
        if not kept:
            _check_constant(numeric, demands)
        for k in analytic:
            allowed = demands.atol * np.outer(np.abs(directions).sum(1), np.abs(cotangents[k]).sum(0))
            _compare(numeric[k] @ cotangents[k], directions @ analytic[k][n], allowed, demands.rtol, k, i)
        if demands.check_forward_ad and kept:
            pushed = pushes(func, args, checked, i, directions, demands.check_grad_dtypes)
            allowed = demands.atol * np.abs(directions).sum(1)[:, None]
            for k in kept if pushed else ():
                _compare(numeric[k], pushed[k], allowed, demands.rtol, k, i, "computed with forward mode ")
    if not kept:
        return
    if demands.check_forward_ad and demands.check_undefined_grad:
        check_undefined_forward(func, args, checked)
    if demands.check_batched_forward_grad:
        check_batched_forward(func, args, checked)
    if demands.check_backward_ad:
        if demands.check_batched_grad:
            for k in kept:
                _check_batched(outputs[k], inputs, k)
        _check_zeros([outputs[k] for k in kept], inputs, demands)
        if demands.check_undefined_grad:
            check_undefined(lambda: _differentiable(func(*args)), inputs)


def _probes(size: int, fast_mode: bool) -> np.ndarray:
    """Directions as rows: all unit vectors, or one random vector in fast mode."""
    return np.random.default_rng(size).standard_normal((1, size)) if fast_mode else np.eye(size)


def _checked_positions(args: tuple[Any, ...]) -> list[int]:
    checked = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have "
                         "requires_grad=True.")
    for i in checked:
        if args[i].dtype != float64:
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                          f"check will likely fail with {args[i].dtype}: give it float64, or a larger eps and atol",
                          stacklevel=4)
        if any(stride == 0 and size > 1 for stride, size in zip(args[i].stride(), args[i].shape, strict=True)):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                               "are non-overlapping to be able to compute the numerical gradients correctly. You "
                               "should call .contiguous on the input before passing it to gradcheck.")
    return checked


def _analytic(
    output: Tensor, inputs: list[Tensor], k: int, cotangents: np.ndarray, demands: Demands
) -> list[np.ndarray]:
    first = products(output, inputs, cotangents, demands.check_grad_dtypes)
    for i, (one, other) in enumerate(zip(first, products(output, inputs, cotangents), strict=True)):
        apart = np.abs(one - other).max(initial=0.0)
        if apart > demands.nondet_tol:
            raise GradcheckError(f"Backward is not reentrant: the gradient of output {k} by checked input {i} differs "
                                 f"between two runs by {apart:.3g}; nondet_tol={demands.nondet_tol} allows less")
    return first


def _check_batched(output: Tensor, inputs: list[Tensor], k: int) -> None:
    """GradcheckError unless a batch of two cotangents gives the same gradients as two single calls."""
    rows = [like(output, np.random.default_rng(seed).standard_normal(output.shape)) for seed in range(2)]
    options: dict[str, Any] = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    single = [grad(output, inputs, row, **options) for row in rows]
    what = BATCHED.format("gradient computation", "check_batched_grad")
    try:
        together = grad(output, inputs, RECORD.stack(rows), is_grads_batched=True, **options)
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{what}") from error
    for i, (got, expected) in enumerate(zip(together, zip(*single, strict=True), strict=True)):
        compare_batched(got, RECORD.stack(list(expected)), k, i, what)


def _check_constant(numeric: list[np.ndarray], demands: Demands) -> None:
    allowed = demands.nondet_tol if demands.fast_mode else 0.0
    if any((np.abs(rows) > allowed).any() for rows in numeric):
        raise GradcheckError("Numerical gradient for function expected to be zero, as no output of the function "
                             "requires grad; does it detach its inputs?")


def _check_zeros(outputs: list[Tensor], inputs: list[Tensor], demands: Demands) -> None:
    """GradcheckError unless zero cotangents give zero gradients."""
    grads = grad(outputs, inputs, [o.new_zeros(o.shape) for o in outputs], allow_unused=True)
    for g, x in zip(grads, inputs, strict=True):
        if g is None:
            continue
        if np.any(_values(g) != 0) and not (demands.masked and np.allclose(_values(g), 0)):
            raise GradcheckError("backward not multiplied by grad_output: it gives numbers other than zero for zeros")
        check_metadata(g, x, True)


def _compare(
    numeric: np.ndarray, analytic: np.ndarray, atol: np.ndarray, rtol: float, k: int, i: int, mode: str = ""
) -> None:
    wrong = ~(np.abs(numeric - analytic) <= atol + rtol * np.abs(numeric))
    if wrong.any():
        row, column = (int(v) for v in np.argwhere(wrong)[0])
        raise GradcheckError(
            f"Jacobian {mode}mismatch for output {k} with respect to input {i}: at input element {row}, output element "
            f"{column} numerical {numeric[row, column]:.6g}, analytical {analytic[row, column]:.6g} "
            f"({int(wrong.sum())} of {wrong.size} entries differ)\nnumerical:{numeric}\nanalytical:{analytic}"
        )


def _differentiable(outputs: Any) -> list[Tensor]:
    return [o for o in floating(outputs) if o.requires_grad]


def _values(tensor: Tensor) -> np.ndarray:
    return to_numpy(tensor.array).astype(np.float64)
