"""Reverse mode on one call of an op: the gradients of its inputs from those of its outputs, by the rules of its block.

The engine runs nodes, which hold what the rules read (core/codegen/). These functions run the rules of a call whose
inputs and results are at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .op_call import Call, is_differentiable


def apply_rules(F: Any, call: Call, g: Any, need: Sequence[bool]) -> tuple[Any, ...]:
    """What the rules return for the inputs that `need` marks; None for the others, and for zero.

    g: the gradient of the result, or a tuple of those of several results, in which None means zero.
    """
    op = call.op
    if op.joint is not None:
        grads = op.joint(F, g, tuple(need), *call.answers(op.joint))
        return tuple([x if needed else None for x, needed in zip(grads, need, strict=True)])
    rules = [op.rules.get(name) if needed else None for name, needed in zip(op.inputs, need, strict=True)]
    return tuple([None if rule is None else rule(F, g, *call.answers(rule)) for rule in rules])


def pull_back(F: Any, call: Call, grads: Sequence[Any], need: Sequence[bool]) -> tuple[Any, ...]:
    """Computes the gradients of the inputs that `need` marks from those of all outputs; None means zero for both."""
    if not is_differentiable(call) or all(g is None for g in grads):
        return (None,) * len(call.inputs)
    pulled = apply_rules(F, call, grads[0] if call.op.single else tuple(grads), need)
    return tuple([
        g if g is None or g.shape == x.shape else F.sum_to(g, x.shape) for g, x in zip(pulled, call.inputs, strict=True)
    ])
