"""Computation of half types in float32."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...backend.arrays import dtypes
from ...backend.cpu.half import convert
from ...backend.cpu.half_table import MANY, looked_up
from ...core.extend import Source, deferred
from .blocks import BLOCK, elementwise


def in_float32(forward: Callable[..., Any], passes: bool = False) -> Callable[..., Any]:
    """`forward` on half types converted to float32; the result is rounded once, to the first operand's dtype.

    `passes` is for an elementwise function of several passes, whose result has the operands' dtype: large arrays are
    computed by blocks, which it may write itself, see `elementwise`.
    """

    def rounded(xp, *args, **attributes):
        widened = [convert(a, dtypes.float32) if getattr(a, "dtype", None) in dtypes.HALF else a for a in args]
        return convert(forward(xp, *widened, **attributes), args[0].dtype)

    parameters = [p for p in inspect.signature(forward).parameters.values() if p.name != "into"]

    def write(w: Source) -> dict[str, Any]:
        """Code with forward's own parameters: *args and **attributes would cost a quarter of a small op."""
        attributes = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        arrays = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        defaults = {f"default_{p.name}": p.default for p in attributes if p.default is not p.empty}
        listed = [f"{p.name}=default_{p.name}" if p.default is not p.empty else p.name for p in attributes]
        call = ", ".join([*arrays, *(f"{p.name}={p.name}" for p in attributes)])
        w(f"def forward_of_half({', '.join([*arrays, *(['*'] if attributes else []), *listed])}):")
        w.depth = 1
        # Numbers come with arrays of float32 or wider only, see core/dispatch.py.
        choice = f"(forward if getattr({arrays[1]}, 'itemsize', 4) > 2 else rounded)"
        if passes:
            named = ", ".join([f"'{p.name}': {p.name}" for p in attributes])
            w(f"if getattr({arrays[1]}, 'size', 1) > BLOCK:")
            if len(arrays) == 2:
                w(f"    if {arrays[1]}.size >= MANY and {arrays[1]}.dtype in HALF:")
                w(f"        return looked_up(forward, {arrays[1]}, {{{named}}})")
            w(f"    return elementwise({choice}, ({', '.join(arrays[1:])},), {{{named}}})")
        w(f"return {choice}({call})")
        return {"forward": forward, "rounded": rounded, "elementwise": elementwise, "looked_up": looked_up,
                "MANY": MANY, "HALF": dtypes.HALF, "BLOCK": BLOCK, **defaults}

    result = functools.wraps(forward)(deferred("forward_of_half", write))
    result.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return result
