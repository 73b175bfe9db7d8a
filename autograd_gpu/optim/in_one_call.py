"""A step on the CPU as one call of machine code (backend/formulas/native/lists.py): a short way through an update.

`Optimizer._ag_update` looks at each parameter in Python, and then the machine code does. Where the last step was one
call, most likely the next one is, too, and only the machine code looks; it refuses what it cannot update.
"""

from __future__ import annotations

from typing import Any

from ..backend.cuda import live_numbers
from ..backend.formulas.native.switch import SETTING
from ..backend.optimizers.code import machine_code
from ..core.graph.storage import before_write, bump_versions
from .param_groups import Group
from .update_call import UpdateCall


def was_one_call(call: UpdateCall, natively: bool) -> bool:
    """Whether a step was one call of machine code; `natively`: whether no row was updated otherwise."""
    alike = all(numbers is call.numbers[0] for numbers in call.numbers)
    return natively and alike and len({param.dtype for param in call.columns[0]}) == 1


def step_in_one_call(optimizer: Any, group: Group) -> bool:
    """Updates `group` as `_ag_update` does; False, with nothing changed, where it cannot be one call.

    That is so if a gradient or state is missing, if counts of steps differ, and for arrays that the machine code
    refuses, as it does where `_ag_update` raises an error.
    """
    params = group["params"]
    if not params or optimizer._ag_recorded or not SETTING.on or live_numbers.current() is not None:
        return False
    rows, slots, notes = len(params), optimizer._ag_slots(group), None
    try:
        arrays = [param._array for param in params] + [param._grad._array for param in params]
        states = [*map(optimizer.state.get, params)] if slots else [{}] * rows
        for name in slots:
            arrays += [state[name]._array for state in states]
    except (AttributeError, KeyError, TypeError):  # None in place of a gradient or a state
        return False
    before_write(params)
    keys: list[tuple[Any, ...]] = []
    try:
        optimizer._ag_advance(states, group, [False] * rows, keys)
        if keys.count(keys[0]) == rows:
            numbers = optimizer._ag_numbers(group, *keys[0])
            ready = machine_code(optimizer._ag_formula.on("p", "g", *slots), numbers, arrays[:rows])
            if ready is not None:
                notes = ready.kernel.notes(rows)
                ready.kernel(notes, ready.values, arrays)
    except BaseException:
        bump_versions(params)
        raise
    finally:
        is_done = notes is not None and notes.is_done
        if not is_done:
            optimizer._ag_take_back(states, keys, None, [])
    if is_done:
        bump_versions(params)
    return is_done
