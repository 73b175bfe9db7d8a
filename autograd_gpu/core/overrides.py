"""`__torch_function__`: operands of other classes, which say themselves what an operation on them is.

Only calls that no tensor, number or array explains come here, so the protocol costs others nothing. An operand's class
gets (function, types, args, kwargs): the public function, the classes that have the protocol, and the arguments,
without those that have their defaults. Subclasses of Tensor are not asked: an operation on one gives a plain tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .declare.op import RECORD, OpDef
from .declare.public import NAMED


class Overridden(Exception):
    """The class of an operand has the protocol: leads from the check of an argument to the call's beginning."""


def overrides(value: Any) -> bool:
    """Whether the class of `value` has the protocol."""
    return hasattr(type(value), "__torch_function__")


def ask(op: OpDef, inputs: Sequence[Any], attributes: Sequence[Any]) -> Any:
    """The result of the first class that has one; TypeError if none has."""
    asked: list[type] = []
    for kind in [type(value) for value in inputs if overrides(value)]:
        if kind not in asked:  # a subclass goes before its bases
            place = next((i for i, other in enumerate(asked) if issubclass(kind, other)), len(asked))
            asked.insert(place, kind)
    function = public_function(op)
    args, kwargs = _arguments(op, function, inputs, attributes)
    for kind in asked:
        result = kind.__torch_function__(function, tuple(asked), args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in asked)
    raise TypeError(f"{op.name}(): __torch_function__ of {names} returned NotImplemented; pass tensors, or define "
                    f"{op.name} there")


def public_function(op: OpDef) -> Callable[..., Any]:
    """The public function that runs the op: its own, or the one of its name that is composed of it."""
    own: Callable[..., Any] = getattr(RECORD, op.name)
    paths = [f"{module}{op.name}" for module in ("", "linalg.", "special.", "nn.functional.")]
    named = [n.function for path in paths for n in NAMED if path in n.public]
    return own if own in named or not named else named[0]


def _arguments(
    op: OpDef, function: Callable[..., Any], inputs: Sequence[Any], attributes: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call of `function`: those without a default by place, others by name."""
    changed = {name: value for (name, default), value in zip(op.attributes.items(), attributes, strict=True)
             if value is not default and not (type(value) is type(default) and value == default)}  # fmt: skip
    args: list[Any] = [list(inputs)] if op.variadic else list(inputs)
    kwargs: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[len(args) :]:
        if parameter.name in changed:
            if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
                args.append(changed[parameter.name])
            else:
                kwargs[parameter.name] = changed[parameter.name]
    return tuple(args), kwargs
