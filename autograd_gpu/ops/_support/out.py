"""`out=`: the result is written into the caller's tensor, as an in-place operation that is not recorded.

The result is computed as without `out`, and copied. So `out` may be one of the inputs, and does not change if the op
fails. Generated functions hand a call with `out` to `to_out`; functions made of ops get a wrapper by `taking_out`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ... import errors
from ...backend.arrays import dtypes
from ...backend.cuda import exact
from ...core.extend import (
    RECORD,
    OpDef,
    Source,
    Tensor,
    bump_version,
    concerns_level,
    deferred,
    materialize,
    set_data,
    wrap,
)
from ...modes import GRAD_OFF, INFERENCE, MODES, TRANSFORMED
from ..inplace.record import check_writable, refuse_storage
from ..inplace.write import copy_

RESIZED = (
    "An output with one or more elements was resized since it had shape {}, which does not match the required output "
    "shape {}. This behavior is deprecated, and in a future release outputs will not be resized unless they have zero "
    "elements. You can explicitly reuse an out tensor by passing one of zero elements."
)


def to_out(op: OpDef, more: Any, out: Any, general: Any, inputs: Any, attributes: tuple[Any, ...]) -> Any:
    """Calls the generated function of `op` with `out`; `more`: whether there was a positional argument too many."""
    if more is not None:
        count = len(op.inputs) + len(op.attributes)
        raise TypeError(f"{op.name}() takes {count} positional arguments but more were given; `out` goes by name")
    return written(op.name, out, (inputs, attributes), general, op, inputs, attributes)


def written(name: str, out: Any, arguments: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs) written into `out`, a tensor or a tuple of tensors, which is returned. `arguments` are
    the caller's, whose tensors must not require grad."""
    several = isinstance(out, (tuple, list))
    outs = tuple(out) if several else (out,)
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(o).__name__}")
    if not MODES.bits & (GRAD_OFF | INFERENCE) and (_requires_grad(arguments) or _requires_grad(outs)):
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
                           "one of the arguments requires grad.")
    result = function(*args, **kwargs)
    results = result if isinstance(result, tuple) else (result,)
    if isinstance(result, tuple) != several or len(results) != len(outs):
        expected = f"tuple of {len(results)} elements" if isinstance(result, tuple) else "a Tensor"
        raise TypeError(f"{name}(): argument 'out': expected {expected} but got "
                        f"{f'{len(outs)}' if several else 'a Tensor'}")
    for o, r in zip(outs, results, strict=True):
        _check(name, o, r)
    for o, r in zip(outs, results, strict=True):
        _write(o, r)
    if not several:
        return out
    return type(result)(*outs) if hasattr(result, "_fields") else outs


def filled(function: Callable[..., Any], out: Any, *args: Any, **kwargs: Any) -> Any:
    """`out` with a factory's numbers in its dtype; resized without a warning."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{function.__name__}(): argument 'out' must be Tensor, not {type(out).__name__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return written(function.__name__, out, (), function, *args, dtype=out.dtype, device=out.device, **kwargs)


RECORD.to_out, RECORD.written, RECORD.filled = to_out, written, filled  # for modules imported before this one


def _requires_grad(value: Any) -> bool:
    """Whether a tensor in a nested structure requires grad."""
    if isinstance(value, Tensor):
        return value.requires_grad
    return isinstance(value, (tuple, list)) and any(map(_requires_grad, value))


def _check(name: str, out: Tensor, result: Tensor) -> None:
    refuse_storage(name, out)
    if out.device != result.device:
        raise errors.mixed_devices(name, [str(result.device), str(out.device)])
    if dtypes.category(result.dtype) > dtypes.category(out.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {out.dtype}")
    check_writable(name, out)


def _write(out: Tensor, result: Tensor) -> None:
    if MODES.bits & TRANSFORMED and concerns_level(out, (result,)):
        if out.shape != result.shape:
            raise RuntimeError(f"inside of a function transform `out` of shape {list(out.shape)} cannot be resized to "
                               f"{list(result.shape)}; pass one of that shape, or leave it out")
        copy_(out, result)
        return
    array = result._array
    bump_version(out)
    if out._array.shape == array.shape:
        out._array[...] = exact.assignable(array, out._array)
        return
    if out._array.size:
        errors.warn_user(RESIZED.format(list(out.shape), list(array.shape)))
    set_data(out, wrap(array.astype(out.dtype)))


def taking_out(function: Any, name: str, module: str) -> Any:
    """`function` as `name` of `module` with a keyword `out`; calls without `out` cost one Python call more."""

    def write(w: Source) -> dict[str, Any]:
        parameters = _parameters(materialize(function))
        keywords = any(p.kind is p.KEYWORD_ONLY or p.kind is p.VAR_POSITIONAL for p in parameters)
        bare = [p.replace(annotation=p.empty, default=p.default if p.default is p.empty else Default(p.name))
                for p in parameters]
        listed = str(inspect.Signature(bare))[1:-1]
        passed = ", ".join(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else
                           f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in parameters)
        named = ", ".join(p.name for p in parameters)
        w(f"def {name}({listed}{'' if keywords else ', *'}, out=None):")
        w(f"if out is None: return function({passed})", 1)
        w(f"return written({name!r}, out, ({named},), function, {passed})", 1)
        defaults = {f"default_{p.name}": p.default for p in parameters if p.default is not p.empty}
        return {"function": function, "written": written, **defaults}

    result = deferred(name, write)
    shown = inspect.signature(function)
    last = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    result.__signature__ = shown.replace(parameters=[*shown.parameters.values(), last])
    result.__doc__, result.__module__ = function.__doc__, module
    return result


def _parameters(function: Any) -> list[inspect.Parameter]:
    """The parameters of the code, including NumPy's keywords, which help() does not show."""
    bare = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__,
                        function.__closure__)  # fmt: skip
    bare.__kwdefaults__ = function.__kwdefaults__
    return list(inspect.signature(bare).parameters.values())


class Default:
    """The name of a default in the generated source."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"default_{self.name}"
