"""Optimizer steps on CUDA for all parameters of one dtype with the same hyperparameters at once.

A ufunc call costs the host about 10 us, and a formula has seven to fifteen of them per parameter. SGD, Adam and AdamW
have kernels, one launch for some hundred parameters (kernels/array_lists.py); the other formulas run on lists of
arrays, a launch per function (`lists.py`). Parameters that neither supports, non-contiguous ones and ones that overlap,
run their formulas one at a time (`chunks.sweep`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import repeat
from operator import is_
from typing import Any, Literal

from .. import kernels
from ..cuda import live_numbers, runtime
from . import formulas
from .chunks import Array, Formula
from .lists import run_lists

# How a step runs on CUDA: by a kernel where there is one, else by lists; only by a kernel; only by lists; or one
# parameter at a time. NumPy arrays are updated in the same way under each.
Way = Literal["best", "fused", "foreach", "loop"]

# By formula: the kernel, and the number of columns including the optional state.
_STEPS: dict[Formula, tuple[Callable[[kernels.TensorLists, bool, Any], None], int]] = {
    formulas.sgd: (kernels.sgd_step, 3), formulas.adam: (kernels.adam_step, 5),
}  # fmt: skip

Columns = Sequence[Sequence[Array]]  # parameters, gradients, and each kind of state
Step = Callable[[kernels.TensorLists, Any], None]


def step_lists(
    formula: Formula, columns: Columns, numbers: Sequence[Any], done: list[int], way: Way
) -> Sequence[int]:
    """Updates the rows of `columns` that a kernel or lists support, and appends them to `done` after each launch.

    Returns the other rows. RuntimeError for "fused" without a kernel.
    """
    rows, module = range(len(numbers)), runtime.loaded()
    if module is None or way == "loop" or not rows:
        return rows
    stepped: set[int] = set()
    for group in _groups(columns[0], numbers, module.ndarray):
        taken = _launch(_step(formula, len(columns), way), columns, numbers[group[0]], group)
        done += taken
        stepped.update(taken)
    return [i for i in rows if i not in stepped] if len(stepped) < len(rows) else []


def _step(formula: Formula, columns: int, way: Way) -> Step:
    """What updates the rows of TensorLists, of so many columns."""
    if formula in _STEPS and way != "foreach":
        kernel, full = _STEPS[formula]
        return lambda lists, numbers: kernel(lists, columns == full, numbers)
    if way == "fused":
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: ['cpu']; this "
            "optimizer has no fused kernel on CUDA: leave fused None, and its step runs on lists of parameters"
        )
    return partial(_by_lists, formula)


def _by_lists(formula: Formula, lists: kernels.TensorLists, numbers: Any) -> None:
    if live_numbers.skip() is not None:
        raise RuntimeError("a captured step of GradScaler is skipped on the device where gradients overflow, which the "
                           "kernels of SGD, Adam and AdamW can, but steps on lists cannot: use one of these without "
                           "foreach, or capture forward, scale() and backward, and call step() after the replay")
    params, *states, grads = lists.lists
    run_lists(formula, [params, grads, *states], numbers)


def _groups(params: Sequence[Array], numbers: Sequence[Any], kind: Any) -> Collection[Sequence[int]]:
    """The rows of CuPy parameters, grouped by dtype and hyperparameters."""
    if all(map(is_, numbers, repeat(numbers[0]))) and len({(type(param), param.dtype.char) for param in params}) == 1:
        return [range(len(params))] if type(params[0]) is kind else []
    groups: dict[tuple[int, str], list[int]] = {}
    for i, param in enumerate(params):
        if type(param) is kind:
            groups.setdefault((id(numbers[i]), param.dtype.char), []).append(i)
    return groups.values()


def _launch(step: Step, columns: Columns, numbers: Any, rows: Sequence[int]) -> Sequence[int]:
    """Updates `rows`, or the supported ones of them, together; returns the updated rows."""
    lists = _lists(columns, rows)
    if lists is None:
        fitting = [i for i in rows if kernels.fits(columns[0][i], *[column[i] for column in columns[2:]])]
        lists = _lists(columns, fitting) if 0 < len(fitting) < len(rows) else None
        rows = fitting
    if lists is None:
        return []
    step(lists, numbers)
    return rows


def _lists(columns: Columns, rows: Sequence[int]) -> kernels.TensorLists | None:
    """The rows as TensorLists; gradients are copied if not contiguous, since the kernels only read them."""
    picked = [[column[i] for i in rows] if len(rows) < len(column) else column for column in columns]
    params, grads, *states = picked
    kind = runtime.cupy().ndarray
    grads = [g.copy() if type(g) is kind and not runtime.c_contiguous(g) else g for g in grads]
    return kernels.tensor_lists([params, *states], [grads], lasting=True)
