"""Optimizer steps on CUDA: one launch for all parameters of one dtype that share their numbers.

A ufunc call costs the host some 10 us, and a formula is seven to fifteen of them per parameter. SGD, Adam and AdamW
have kernels. The other optimizers run by their formulas, one parameter after the other (`chunks.sweep`), and so does
what the kernels do not take: parameters that are not contiguous, or that overlap so that the order counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import cuda, kernels, optimizers
from .chunks import Array, Kernel

# By formula: the kernel, and the number of columns that it has with the state that it may go without.
_STEPS: dict[Kernel, tuple[Callable[[kernels.TensorLists, bool, Any], None], int]] = {
    optimizers.sgd: (kernels.sgd_step, 3), optimizers.adam: (kernels.adam_step, 5),
}  # fmt: skip

Columns = Sequence[Sequence[Array]]  # parameters, gradients, and each kind of state


def step_lists(formula: Kernel, columns: Columns, numbers: Sequence[Any], done: list[int]) -> Sequence[int]:
    """Steps the rows of `columns` that a kernel takes, and adds them to `done`, those of a launch after it.

    Returns the other rows.
    """
    rows, module = range(len(numbers)), cuda.loaded()
    if module is None or formula not in _STEPS:
        return rows
    groups: dict[tuple[int, str], list[int]] = {}
    for i, param in enumerate(columns[0]):
        if type(param) is module.ndarray:
            groups.setdefault((id(numbers[i]), param.dtype.char), []).append(i)
    stepped: set[int] = set()
    for group in groups.values():
        taken = _launch(formula, columns, numbers[group[0]], group)
        done += taken
        stepped.update(taken)
    return [i for i in rows if i not in stepped] if stepped else rows


def _launch(formula: Kernel, columns: Columns, numbers: Any, rows: list[int]) -> list[int]:
    """Steps `rows` in one launch, or those that it can take; says which."""
    lists = _lists([[column[i] for i in rows] for column in columns])
    if lists is None:
        rows = [i for i in rows if kernels.fits(columns[0][i], *[column[i] for column in columns[2:]])]
        params, grads, *states = [[column[i] for i in rows] for column in columns]
        lists = _lists([params, [cuda.cupy().ascontiguousarray(g) for g in grads], *states]) if rows else None
    if lists is None:
        return []
    step, full = _STEPS[formula]
    step(lists, len(columns) == full, numbers)
    return rows


def _lists(columns: Columns) -> kernels.TensorLists | None:
    params, grads, *states = columns
    return kernels.tensor_lists([params, *states], [grads])
