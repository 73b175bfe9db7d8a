"""A step of an optimizer as data: the formula, the arrays that it reads and replaces, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..backend import Array
from ..backend.formulas.update import Variant
from ..core.graph.storage import before_write
from ..core.tensor import Tensor
from .param_groups import Group, check_grad, with_numbers


class UpdateCall(NamedTuple):
    """The update of `params`, whose step has been counted.

    `columns` has a list of arrays, one per parameter, for each of `variant.arrays`: parameters, gradients, states. The
    arrays named in `variant.general.outputs` are replaced, the others are read only. `numbers` are those of each
    parameter, one object for parameters that share them; `variant.trace(numbers)` is the formula for them, with
    `program` and `values`. `take_back(done)` undoes the count, and state that was made, for parameters whose index is
    not in `done`.
    """

    params: list[Tensor]
    variant: Variant
    columns: list[Sequence[Array]]
    numbers: list[dict[str, Any]]
    take_back: Callable[[list[int]], None]


def counted(optimizer: Any, number: int) -> UpdateCall | None:
    """Counts a step of group `number` and says what is to be computed; None if no parameter has a gradient.

    Makes missing state, too. Whoever computes the update in place of `_ag_update` bumps the versions of `params`.
    """
    group = with_numbers(optimizer.param_groups[number])
    params, arrays, grads = with_grads(group)
    if not params:
        return None
    call: UpdateCall = optimizer._ag_counted(group, params, [arrays, grads], optimizer._ag_slots(group))
    return call


def with_grads(group: Group) -> tuple[list[Tensor], list[Array], list[Array]]:
    """The parameters of `group` with a gradient, their arrays, and the gradients' arrays; checks the gradients."""
    params, arrays, grads = [], [], []
    for param in group["params"]:
        grad = param._grad
        if grad is None and param.grad is None:  # which warns of a tensor that is no leaf
            continue
        array, g = param._array, grad._array
        if array.shape != g.shape or array.dtype is not g.dtype or type(array) is not type(g):
            check_grad(param, grad)
        params.append(param)
        arrays.append(array)
        grads.append(g)
    before_write(params)
    return params, arrays, grads
