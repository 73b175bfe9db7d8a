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

from collections.abc import Sequence
from typing import Any

from ...errors import MissingRuleError, UnknownDerivativeError, no_derivative
from .jvp_word import JvpWord, Tangents
from .op import OpDef
from .op_call import Call, differentiable_outputs, is_differentiable
from .vjp_rules import apply_rules


def push_forward(F: Any, call: Call, tangents: Sequence[Any]) -> Tangents:
    """Computes the tangents of a call's outputs from those of its inputs; None means zero for both.

    MissingRuleError if the op has derivatives but its block has no `jvp`, or none for an input that has a tangent;
    NotImplementedError if the derivative is not implemented.
    """
    op = call.op
    if op.without_rule and op.has_rules:
        tangents = [_checked(op, name, t) for name, t in zip(op.inputs, tangents, strict=False)]
    if not op.has_rules or all(t is None for t in tangents) or not is_differentiable(call):
        return (None,) * len(call.outs)
    if op.jvp is None:
        raise MissingRuleError(f"Trying to use forward AD with {op.name} that does not support it because its block "
                               "has no jvp; give it one, or use reverse mode (ag.func.vjp, grad, jacrev)")
    try:
        pushed = _by_declared(F, op.jvp, call, tuple(tangents))
    except UnknownDerivativeError as unknown:
        reason = f"Trying to use forward AD with {op.name} that does not support it because {unknown}"
        raise NotImplementedError(reason) from None
    return tuple(
        None if t is None or not moves else t if tuple(t.shape) == tuple(out.shape) else F.expand(t, out.shape)
        for t, out, moves in zip(pushed, call.outs, differentiable_outputs(call), strict=True)
    )


def _by_declared(F: Any, jvp: Any, call: Call, tangents: Tangents) -> Tangents:
    """The tangents of the outputs by what the block declares: a word, or a function of its own."""
    if isinstance(jvp, JvpWord):
        return jvp.push(F, call, tangents)
    several = call.op.variadic or len(call.op.inputs) > 1
    pushed = jvp(F, tangents if several else tangents[0], *call.answers(jvp))
    if call.op.single:
        return (pushed,)
    return (None,) * len(call.outs) if pushed is None else pushed


def _checked(op: OpDef, name: str, t: Any) -> Any:
    """The tangent t of an input; None if the derivative by that input is ZERO, an error if there is none."""
    if t is not None and name not in op.without_rule:
        return t
    if t is not None and name not in op.rules:
        raise no_derivative(op.name, op.parameter_names[name])
    return None


# ---- the named rules --------------------------------------------------------------------------------


def _by_rules(F: Any, call: Call, tangents: Tangents) -> Tangents:
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            need = tuple(j == i for j in range(len(tangents)))
            total = added(total, apply_rules(F, call, t, need)[i])
    return (total,)


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
