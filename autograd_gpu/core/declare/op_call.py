"""One call of an op, as the derivative rules of its block see it: inputs, attributes, results and saved extras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .jvp_word import Tangents
from .op import OpDef


class Call:
    """One call of an op: its arguments as F takes them (a list input as a list), its results and its saved extras."""

    __slots__ = ("args", "attributes", "extras", "op", "outs")

    def __init__(
        self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any], outs: Sequence[Any],
        extras: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.op, self.args, self.outs, self.extras = op, tuple(args), tuple(outs), extras or {}
        self.attributes = attributes if len(attributes) == len(op.attributes) else op.filled(attributes)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The elements of a list input, otherwise the arguments."""
        return tuple(self.args[0]) if self.op.variadic else self.args

    def answers(self, rule: Callable[..., Any]) -> list[Any]:
        """The values of the parameters of `rule`."""
        return [self._answer(kind, name) for _, kind, name in self.op.asked(rule)]

    def _answer(self, kind: str, name: str) -> Any:
        if kind == "out" and self.op.lists:
            return list(self.outs)
        if kind == "out":
            return self.outs[0 if self.op.outputs is None else self.op.outputs.index(name)]
        if kind == "attribute":
            return self.attributes[name]
        if kind == "extra":
            return self.extras[name]
        value = self.args[self.op.inputs.index(name)]
        if kind == "input":
            return value
        return [getattr(x, kind) for x in value] if self.op.variadic else getattr(value, kind, None)

    def again(self, F: Any, inputs: Sequence[Any]) -> Tangents:
        """Runs the op again on other inputs; returns its outputs."""
        result = getattr(F, self.op.name)(*([inputs] if self.op.variadic else inputs), **self.attributes)
        return (result,) if self.op.single else tuple(result)


def is_differentiable(call: Call) -> bool:
    """Whether the call has a derivative with these attributes: a sum in int64 has none."""
    return call.op.differentiable is None or call.op.differentiable(*call.attributes.values())


def differentiable_outputs(call: Call) -> list[bool]:
    """Per output of the call, whether it has a derivative."""
    names = call.op.outputs or ("out",)
    if len(names) != len(call.outs):  # a list of outputs
        return [True] * len(call.outs)
    return [name not in call.op.nondiff_outputs for name in names]
