"""The checks of gradcheck that concern forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..core.declare.op import RECORD
from ..core.interpret.batched import Batching, batched
from ..core.interpret.interpreters import below, entered
from ..core.tensor import Tensor
from ..errors import GradcheckError
from .forward_ad import dual_level, make_dual, unpack_dual
from .numerical_jacobian import floating, like

BATCHED = ("gradcheck or gradgradcheck failed while testing batched {}: every rule that runs has to work on a batch "
           "(ag.func.vmap), or leave out {}")


def pushes(
    func: Callable[..., Any], args: tuple[Any, ...], checked: Sequence[int], i: int, directions: np.ndarray,
    check_dtypes: bool,
) -> list[np.ndarray]:
    """For each floating-point output the tangents for each direction of input i, as rows, by forward mode.

    The other inputs in `checked` get tangents of zeros. func has to use the inputs that it is given.
    """
    rows = []
    for direction in directions:
        with dual_level():
            duals = list(args)
            for j in checked:
                x = args[j].detach()
                t = like(x, direction.reshape(x.shape)) if i == j else x.new_zeros(x.shape)
                duals[j] = make_dual(x, t)
            rows.append([_pushed(out, check_dtypes) for out in floating(func(*duals))])
    return [np.stack(column) for column in zip(*rows, strict=True)] if rows else []


def _pushed(out: Tensor, check_dtypes: bool) -> np.ndarray:
    t = unpack_dual(out).tangent
    if t is None:
        return np.zeros(out.numel())
    if check_dtypes and t.dtype != out.dtype:
        raise GradcheckError(f"Forward AD gradient has dtype mismatch: {t.dtype} for an output of {out.dtype}.")
    return to_numpy(t.detach().array).astype(np.float64).reshape(-1)


def check_batched_forward(func: Callable[..., Any], args: tuple[Any, ...], checked: Sequence[int]) -> None:
    """GradcheckError unless a batch of two tangents, of each input, gives the same tangents as two single runs."""
    what = BATCHED.format("forward mode AD", "check_batched_forward_grad")
    plain = [x.detach() if isinstance(x, Tensor) else x for x in args]
    for i in checked:
        x = plain[i]

        def push(t: Tensor, i: int = i, x: Tensor = x) -> list[Tensor]:
            with dual_level():
                outputs = floating(func(*plain[:i], make_dual(x, t), *plain[i + 1 :]))
                pairs = [(out, unpack_dual(out).tangent) for out in outputs]
                return [out.new_zeros(out.shape) if moved is None else moved for out, moved in pairs]

        rows = [like(x, np.random.default_rng(seed).standard_normal(x.shape)) for seed in range(2)]
        single = [push(row) for row in rows]
        try:
            with entered(Batching(len(rows), is_transform=False)) as level:  # so that a Function's forward may take ctx
                together = push(batched(level, RECORD.stack(rows)))
                with below(level):
                    tangents = [level.whole(t) for t in together]
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{what}") from error
        for k, (got, expected) in enumerate(zip(tangents, map(RECORD.stack, zip(*single, strict=True)), strict=True)):
            compare_batched(got, expected, k, i, what)


def compare_batched(batched: Tensor, expected: Tensor, k: int, i: int, what: str) -> None:
    """GradcheckError unless a batched result equals the single ones."""
    got, want = to_numpy(batched.detach().array), to_numpy(expected.detach().array)
    if not np.allclose(got.astype(np.float64), want.astype(np.float64), equal_nan=True):
        raise GradcheckError(f"For output {k} and input {i}:\n\n{what}\n\nGot:\n{got}\n\nExpected:\n{want}")


def check_undefined_forward(func: Callable[..., Any], args: tuple[Any, ...], checked: Sequence[int]) -> None:
    """GradcheckError unless an input without a tangent gives the same tangents as one with a tangent of zeros."""
    with dual_level():
        duals = list(args)
        for seed, i in enumerate(checked):
            x = args[i].detach()
            duals[i] = make_dual(x, like(x, np.random.default_rng(seed).standard_normal(x.shape)))
        for i in checked:
            x = args[i].detach()
            several = []
            for arg in (make_dual(x, x.new_zeros(x.shape)), x):
                outputs = floating(func(*duals[:i], arg, *duals[i + 1 :]))
                several.append([unpack_dual(out).tangent for out in outputs])
            for k, (zero, undefined) in enumerate(zip(*several, strict=True)):
                if zero is None or undefined is None:
                    continue
                got, want = to_numpy(undefined.detach().array), to_numpy(zero.detach().array)
                if not np.allclose(got.astype(np.float64), want.astype(np.float64)):
                    raise GradcheckError(f"Mismatch in tangent values for output with index: {k} when input: {i} has "
                                         f"an undefined tangent value. Got: {got} but expected: {want}")
