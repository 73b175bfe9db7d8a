"""Calls of ops where the stack is one tape and one level of vmap above it: one step in place of two general paths.

It serves what functions of the user call most: a plain op (OpDef.is_plain) on arguments that need no preparation, which
runs on all examples as it is. Everything else, and every other stack or mode, takes the general path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import FULL_FLOATS
from ...modes import MODES
from ..declare.op import OpDef
from ..tensor import Parameter, Tensor
from .batched import Batched, batched


def run_lifted(op: OpDef, args: Sequence[Any], attributes: tuple[Any, ...]) -> Tensor | None:
    """The result of a call in two levels without other modes; None if they must get it one after the other."""
    tape, level = MODES.stack
    if not op.is_plain or level.tapes != (tape,) or MODES.forward_off:
        return None
    dtype, home = None, None
    flags: list[bool] = []
    values: list[Any] = []  # what lies below the levels
    arrays: list[Any] = []  # of those that are tensors
    for x in args:
        flag = type(x) is Batched and x._level is level
        value = array = x._value if flag else x
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            array = value._array
            device = backend.CPU if type(array) is np.ndarray else value.device
            if dtype is None:
                dtype, home = array.dtype, device
            elif array.dtype is not dtype or (device is not home and device != home):
                return None
        elif not ((kind is float and op.numbers) or (value is None and op.inputs[len(values)] in op.optional)):
            return None
        flags.append(flag)
        values.append(value)
        arrays.append(array)
    if True not in flags or dtype not in FULL_FLOATS:
        return None
    named = dict(zip(op.attributes, attributes, strict=True)) if attributes else {}
    for value in attributes:
        if isinstance(value, Tensor):
            return None
    return batched(level, tape.run_lifted(op, values, attributes, named)) if op.as_it_is(flags, arrays, named) else None
