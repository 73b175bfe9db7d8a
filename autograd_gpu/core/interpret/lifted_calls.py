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
from ..declare.op_call import Call
from ..graph.storage import INFERENCE_STORAGE
from ..tensor import Parameter, Tensor
from .batched import Batched, batched
from .implementation import run_core
from .tape import Place


def run_lifted(op: OpDef, args: Sequence[Any], attributes: tuple[Any, ...]) -> Tensor | None:
    """The result of a call in two levels without other modes; None if they must get it one after the other."""
    tape, level = stack = MODES.stack
    if not op.is_plain or level.tapes != (tape,) or MODES.forward_off:
        return None
    dtype, home, moves = None, None, False
    flags: list[bool] = []
    values: list[Any] = []  # what lies below the levels
    arrays: list[Any] = []  # those of tensors
    places: list[Place | None] = []
    versions: list[tuple[Tensor, int]] = []
    for x in args:
        flag = type(x) is Batched and x._level is level
        value = array = x._value if flag else x
        kind, place = type(value), None
        if kind is Tensor or kind is Parameter:
            array = value._array
            device = backend.CPU if type(array) is np.ndarray else value.device
            if dtype is None:
                dtype, home = array.dtype, device
            elif array.dtype is not dtype or (device is not home and device != home):
                return None
            if (storage := value._storage) is None:
                versions.append((value, 0))
            elif storage is not INFERENCE_STORAGE:  # nobody writes to that while the tape is there
                versions.append((value, storage.version))
            if (numbers := getattr(value, "_tangents", None)) is not None and (place := numbers.get(tape)) is not None:
                moves = True
        elif not ((kind is float and op.numbers) or (value is None and op.inputs[len(values)] in op.optional)):
            return None
        flags.append(flag)
        values.append(value)
        arrays.append(array)
        places.append(place)
    if True not in flags or dtype not in FULL_FLOATS:
        return None
    for value in attributes:
        if isinstance(value, Tensor):
            return None
    named = dict(zip(op.attributes, attributes, strict=True)) if attributes else {}
    if not op.as_it_is(flags, arrays, named):  # type: ignore[misc]  # a plain op has it
        return None
    bits = MODES.bits
    MODES.stack, MODES.bits = (), tape.outer
    try:
        out: Tensor = run_core(op, values, attributes)
    finally:
        MODES.stack, MODES.bits = stack, bits
    if moves:
        tape.keep_lifted(Call(op, values, named, (out,)), places, versions)
    return batched(level, out)
