"""Runs the core of an op: the call on arrays, which lies below all interpreters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ... import errors
from ...backend import is_array
from ...modes import MODES, SAVING
from ..codegen import call, list_call
from ..declare.op import OpDef
from ..history.anomaly import noted
from ..saved.saved_tensor_hooks import hand_over
from ..tensor import Tensor, wrap

# Error texts that are complete, and equal to PyTorch's.
COMPLETE = re.compile(r"[\w.]+\(\)|index |Dimension |shape mismatch|(std and )?var |too many indices")
# What NumPy and CuPy say of shapes that do not broadcast.
REFUSED = re.compile("broadcast together with shapes|broadcast to a single shape")


def run_core(
    op: OpDef, args: Sequence[Any], attributes: Sequence[Any], forward: Callable[..., Any] | None = None,
    keep_saved: bool = False,
) -> Any:
    """Runs the op on tensors of matching dtype, numbers and None; creates the node if this thread records.

    Uses the op's forward unless another is given. With `keep_saved` it returns (result, saved extras as arrays).
    """
    key: tuple[Any, ...] = () if op.variadic else tuple(map(type, args))
    if keep_saved or forward is not None:
        key = (*key, keep_saved, forward is None)
    core = op.cores.get(key)
    if core is None:
        core = op.cores[key] = _make_core(op, args, keep_saved, forward is not None)
    rest = (args, *attributes) if op.variadic else (*args, *attributes)
    try:
        return core(*rest) if forward is None else core(forward, *rest)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise explained(op, args, error) from (None if isinstance(error, errors.ArgumentError) else error)


def run_keeping_saved(
    op: OpDef, args: Sequence[Any], attributes: dict[str, Any], forward: Callable[..., Any] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Runs an op; returns its result, and its saved extras by name as constants."""
    values = tuple(op.filled(attributes).values())
    if not op.saved:
        return run_core(op, args, values, forward), {}
    outs, extras = run_core(op, args, values, forward, keep_saved=True)
    return outs, {name: wrap(value) if is_array(value) else value for name, value in extras.items()}


def _make_core(op: OpDef, args: Sequence[Any], keep_saved: bool, given_forward: bool) -> Any:
    if op.variadic:
        return list_call.make_list_core(op, given_forward)
    return call.make_core(op, kinds_of(args), keep_saved=keep_saved, given_forward=given_forward)


def kinds_of(args: Sequence[Any]) -> tuple[str, ...]:
    """Per argument: T tensor, N number, 0 None."""
    return tuple("T" if isinstance(a, Tensor) else "0" if a is None else "N" for a in args)


def shown(outs: Any, exempt: Sequence[Tensor]) -> Any:
    """Passes the node of the results to saved-tensor hooks, except for the tensors `exempt`, and to anomaly mode."""
    if MODES.bits & SAVING:
        several = outs if isinstance(outs, tuple) else (outs,)
        # What the nodes of a level hold are its tensors, which hooks could not read.
        node = next((t._fn for t in several if t._fn is not None and type(t) is Tensor), None)
        if node is not None:
            hand_over(node, exempt)
    return noted(outs)


def explained(op: OpDef, args: Sequence[Any], error: Exception) -> Exception:
    """Converts a NumPy error to the type that PyTorch raises, with the name of the op and the input shapes."""
    if isinstance(error, errors.ArgumentError):
        return error
    text = str(error).replace("axis", "dimension")
    if isinstance(error, (IndexError, TypeError)) and COMPLETE.match(text):
        return type(error)(text)
    shapes = [a.shape for a in args if isinstance(a, Tensor)]
    if REFUSED.search(text) and isinstance(error, ValueError):
        text = errors.sizes_differ(shapes) or text
    kind = next(k for e, k in ((ValueError, RuntimeError), (IndexError, IndexError), (TypeError, TypeError),
                               (OverflowError, RuntimeError)) if isinstance(error, e))
    return kind(f"{op.name}: {text} (input shapes: {', '.join(str(list(shape)) for shape in shapes)})")
