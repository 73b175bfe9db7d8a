"""How half types are computed with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...backend.arrays import dtypes
from ...core.extend import Source


def in_float32(forward: Callable[..., Any], on_cuda: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Half types go through `forward` as float32 and are rounded once, at the end, to the first operand's dtype.

    CuPy arrays of any dtype go to `on_cuda` instead, where there is one.
    """

    def rounded(xp, *args, **attributes):
        widened = [a.astype(dtypes.float32) if getattr(a, "dtype", None) in dtypes.HALF else a for a in args]
        return forward(xp, *widened, **attributes).astype(args[0].dtype)

    # Straight-line code with forward's own parameters: *args and **attributes would cost a quarter of a small op.
    parameters = list(inspect.signature(forward).parameters.values())
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    arrays = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    call = ", ".join([*arrays, *(f"{name}={name}" for name in keywords)])
    # A number comes with arrays of float32 or wider: core/dispatch.py sees to that.
    w = Source()
    w(f"def forward_of_half({', '.join(arrays)}{', *, ' if keywords else ''}{', '.join(keywords)}):")
    w.depth = 1
    if on_cuda is not None:
        w(f"if xp is not numpy: return on_cuda({call})")
    w(f"return (forward if getattr({arrays[1]}, 'itemsize', 4) > 2 else rounded)({call})")
    made: Any = w.compile("forward_of_half", {"forward": forward, "rounded": rounded, "on_cuda": on_cuda})
    functools.update_wrapper(made, forward)
    made.__defaults__, made.__kwdefaults__ = forward.__defaults__, forward.__kwdefaults__
    return made
