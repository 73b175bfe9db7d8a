"""Forward mode: propagates tangents through an op, as the spec `jvp` of its block declares.

* ELEMENTWISE: an element of the result depends only on the same element of each input. The Jacobian is diagonal, so
  the gradient rules compute the jvp if they get a tangent in place of `g`.
* LINEAR in all differentiable inputs together: runs the op on the tangents, with zeros for missing ones.
* MULTILINEAR, linear in each differentiable input: sums the op over the inputs, each in turn replaced by its tangent.
* a function `jvp(F, t, parameters...)`. `t` is the tangent of the input; with several inputs it is a tuple, in which
  None means zero. The function may have the same parameters as gradient rules. It returns the tangent of the result,
  or a tuple for several outputs; None means zero.

An op without derivative rules has no `jvp`: its results are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import MissingRuleError
from .jvp_word import JvpWord, Tangents
from .op import OpDef


class Call:
    """One call of an op: its arguments as F takes them (a list input as a list), its results and its saved extras."""

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
        found = getattr(F, self.op.name)(*([inputs] if self.op.variadic else inputs), **self.attributes)
        return (found,) if self.op.single else tuple(found)


def push_forward(F: Any, call: Call, tangents: Sequence[Any]) -> Tangents:
    """Computes the tangents of a call's outputs from those of its inputs; None means zero for both.

    MissingRuleError if the op has derivatives but its block has no `jvp`.
    """
    op = call.op
    if op.without_rule:
        tangents = [None if name in op.without_rule else t for name, t in zip(op.inputs, tangents, strict=False)]
    if not op.has_rules or all(t is None for t in tangents) or not is_differentiable(call):
        return (None,) * len(call.outs)
    if op.jvp is None:
        raise MissingRuleError(f"Trying to use forward AD with {op.name} that does not support it because its block "
                               "has no jvp; give it one, or use reverse mode (ag.func.vjp, grad, jacrev)")
    if isinstance(op.jvp, JvpWord):
        found = op.jvp.push(F, call, tuple(tangents))
    else:
        several = op.variadic or len(op.inputs) > 1
        found = op.jvp(F, tuple(tangents) if several else tangents[0], *call.answers(op.jvp))
        found = (found,) if op.single else found if found is not None else (None,) * len(call.outs)
    names = op.outputs or ("out",)
    dead = [name in op.nondiff_outputs for name in names] if len(names) == len(call.outs) else [False] * len(call.outs)
    return tuple(
        None if t is None or gone else t if tuple(t.shape) == tuple(out.shape) else F.expand(t, out.shape)
        for t, out, gone in zip(found, call.outs, dead, strict=True)
    )


def is_differentiable(call: Call) -> bool:
    """Whether the call has a derivative with these attributes: a sum in int64 has none."""
    return call.op.differentiable is None or call.op.differentiable(*call.attributes.values())


# ---- the named rules --------------------------------------------------------------------------------


def _by_rules(F: Any, call: Call, tangents: Tangents) -> Tangents:
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            total = added(total, _rule_on(F, call, i, t))
    return (total,)


def _rule_on(F: Any, call: Call, i: int, t: Any) -> Any:
    op = call.op
    if op.joint is not None:
        need = tuple(j == i for j in range(len(tuple(call.inputs))))
        return op.joint(F, t, need, *call.answers(op.joint))[i]
    rule = op.rules.get(op.inputs[i])
    return rule(F, t, *call.answers(rule)) if rule is not None else None


def _by_op(F: Any, call: Call, tangents: Tangents) -> Tangents:
    op = call.op
    names = op.inputs * len(tangents) if op.variadic else op.inputs
    inputs = []
    for name, x, t in zip(names, call.inputs, tangents, strict=True):
        if t is not None or x is None or not (name in op.rules or op.joint):
            inputs.append(t if t is not None else x)
        else:
            inputs.append(F.constant_like(x, 0.0) if hasattr(x, "shape") else 0.0)
    return call.again(F, inputs)


def _by_turns(F: Any, call: Call, tangents: Tangents) -> Tangents:
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            total = added(total, call.again(F, [*call.inputs[:i], t, *call.inputs[i + 1 :]])[0])
    return (total,)


def added(total: Any, term: Any) -> Any:
    """The sum of two tangents; None means zero."""
    return term if total is None else total if term is None else total + term


ELEMENTWISE = JvpWord("ELEMENTWISE", _by_rules)
LINEAR = JvpWord("LINEAR", _by_op, several_outputs=True)
MULTILINEAR = JvpWord("MULTILINEAR", _by_turns)
