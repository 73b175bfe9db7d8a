"""Optimizer steps on CUDA: one launch for all parameters of one dtype that share their numbers.

A ufunc call costs the host some 10 us, and a formula is seven to fifteen of them per parameter. SGD, Adam and AdamW
have kernels. The other optimizers run by their formulas, one parameter after the other (`chunks.sweep`), and so does
what the kernels do not take: parameters that are not contiguous, or that overlap so that the order counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import repeat
from operator import is_
from typing import Any

from .. import kernels
from ..cuda import runtime
from . import formulas
from .chunks import Array, Kernel

# By formula: the kernel, and the number of columns that it has with the state that it may go without.
_STEPS: dict[Kernel, tuple[Callable[[kernels.TensorLists, bool, Any], None], int]] = {
    formulas.sgd: (kernels.sgd_step, 3), formulas.adam: (kernels.adam_step, 5),
}  # fmt: skip

Columns = Sequence[Sequence[Array]]  # parameters, gradients, and each kind of state


def step_lists(formula: Kernel, columns: Columns, numbers: Sequence[Any], done: list[int]) -> Sequence[int]:
    """Steps the rows of `columns` that a kernel takes, and adds them to `done`, those of a launch after it.

    Returns the other rows.
    """
    rows, module = range(len(numbers)), runtime.loaded()
    if module is None or formula not in _STEPS or not rows:
        return rows
    stepped: set[int] = set()
    for group in _groups(columns[0], numbers, module.ndarray):
        taken = _launch(formula, columns, numbers[group[0]], group)
        done += taken
        stepped.update(taken)
    return [i for i in rows if i not in stepped] if len(stepped) < len(rows) else []


def _groups(params: Sequence[Array], numbers: Sequence[Any], kind: Any) -> Collection[Sequence[int]]:
    """The rows of CuPy's parameters, those of one dtype that share their numbers together."""
    if all(map(is_, numbers, repeat(numbers[0]))) and len({(type(param), param.dtype.char) for param in params}) == 1:
        return [range(len(params))] if type(params[0]) is kind else []
    groups: dict[tuple[int, str], list[int]] = {}
    for i, param in enumerate(params):
        if type(param) is kind:
            groups.setdefault((id(numbers[i]), param.dtype.char), []).append(i)
    return groups.values()


def _launch(formula: Kernel, columns: Columns, numbers: Any, rows: Sequence[int]) -> Sequence[int]:
    """Steps `rows` in one launch, or those that it can take; says which."""
    lists = _lists(columns, rows)
    if lists is None:
        fitting = [i for i in rows if kernels.fits(columns[0][i], *[column[i] for column in columns[2:]])]
        lists = _lists(columns, fitting) if 0 < len(fitting) < len(rows) else None
        rows = fitting
    if lists is None:
        return []
    step, full = _STEPS[formula]
    step(lists, len(columns) == full, numbers)
    return rows


def _lists(columns: Columns, rows: Sequence[int]) -> kernels.TensorLists | None:
    """The rows for a kernel. Gradients are copied if need be: the kernels only read them."""
    picked = [[column[i] for i in rows] if len(rows) < len(column) else column for column in columns]
    params, grads, *states = picked
    kind = runtime.cupy().ndarray
    grads = [g.copy() if type(g) is kind and not runtime.c_contiguous(g) else g for g in grads]
    return kernels.tensor_lists([params, *states], [grads], lasting=True)
