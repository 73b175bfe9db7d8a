"""Pulls adjoints of all outputs back through the steps of a plan, and contracts them with the second derivatives.

    H[o, i, j] = sum over the calls with a second derivative of <a_o, D[t_i, t_j]>

1. Tangents t_i are pushed forward to those calls.
2. One sweep back has the adjoints a_o of all output elements, (o, *shape); it ends at the first such call.
3. For a function of each element D[t_i, t_j] = f'' t_i t_j. That is never formed: one small product sums
   (a f'' t_i) t_j over the elements.

Where the examples of vmap lie along the first dimensions of all values, the sums are those over the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.declare.jvp_rules import added
from ...core.declare.op import RECORD
from ...core.interpret.tape import Place
from ...core.tensor import Tensor
from .plan import Form, Plan, Step
from .push import mirrored, own_seconds, picked, shaped, summed
from .second_derivative import activation_of, expanded, is_elementwise, pull_batched, push_batched, slopes

Tangents = dict[Place | None, Any]
# From the adjoints of a call's results, (o, *shape) or None, to <a_o, D[t_i, t_j]>, (*examples, o, d * d or groups).
Contraction = Callable[[list[Any]], Tensor | None]


class Adjoints:
    """A step's part of the sweep back: its contraction, if it has any, and the first derivative of an activation."""

    def __init__(self, contract: Contraction | None = None, first: Tensor | None = None) -> None:
        self.contract, self.first = contract, first

    def pulled(self, step: Step, grads: list[Any], need: Sequence[bool], o: int) -> Sequence[Any]:
        """The adjoints of the inputs that `need` marks."""
        if self.first is not None:
            (g,) = grads
            own = None if g is None else g * self.first
            return [own if i == step.live[0] else None for i in range(len(need))]
        return pull_batched(step.call, grads, need, o)


def pull(
    plan: Plan, seeds: dict[Place, Tensor], form: Form, out_seeds: Sequence[Tensor], places: Sequence[Place | None],
    examples: int,
) -> tuple[Tensor | None, Tangents]:  # fmt: skip
    """The second derivatives of all output elements, and the tangents of all values.

    The former are (*examples, o, d * d) of a Hessian, (*examples, o, groups) of another form, or None for zero.
    examples: how many first dimensions of each value are examples. out_seeds: the adjoints of the outputs.
    """
    tangents: Tangents = dict(seeds.items())
    backward = [_push_tangents(step, tangents, plan, form, examples) for step in plan.steps]
    total: Tensor | None = None
    adjoints: dict[Place | None, Any] = {}
    for seed, place in zip(out_seeds, places, strict=True):
        if place in plan.seconds:
            adjoints[place] = added(adjoints.get(place), seed)
    o = out_seeds[0].shape[0]
    for step, own in zip(reversed(plan.steps), reversed(backward), strict=True):
        grads = [adjoints.pop(place, None) for place in step.outputs]
        if all(g is None for g in grads):
            continue
        if own.contract is not None:
            total = added(total, own.contract(grads))
        need = [place in plan.seconds for place in step.inputs]
        if any(need):
            for place, g in zip(step.inputs, own.pulled(step, grads, need, o), strict=True):
                adjoints[place] = added(adjoints.get(place), g)
    return total, tangents


def _push_tangents(step: Step, tangents: Tangents, plan: Plan, form: Form, examples: int) -> Adjoints:
    """Adds the tangents of a step's results, where they are needed; returns its part of the sweep back."""
    incoming: list[Any] = [tangents.get(place) for place in step.inputs]
    has_tangents = any(t is not None for t in incoming)
    needed = has_tangents and not plan.firsts.isdisjoint(step.outputs)
    curved = has_tangents and step.has_second_derivative
    if curved and is_elementwise(step.call, step.live):
        pushed, own = _elementwise(step, incoming[step.live[0]], needed, form, examples)
    elif curved or needed:
        pushed = push_batched(step.call, incoming, form.d)
        own = Adjoints(_of_any(step, incoming, pushed, form, examples) if curved else None)
    else:
        return Adjoints()
    tangents.update(zip(step.outputs, pushed, strict=True))
    return own


def _elementwise(step: Step, t: Tensor, needed: bool, form: Form, examples: int) -> tuple[list[Any], Adjoints]:
    first, second = slopes(step.call, step.live)
    pushed = [t * first if needed else None]
    if second is None:
        return pushed, Adjoints(None, first)
    factors, rows = _flat(second, examples), _by_example(t, examples)

    def contract(adjoints: list[Any]) -> Tensor:
        return _of_groups(RECORD.local_terms(_by_example(adjoints[0], examples), factors, rows), form)

    return pushed, Adjoints(contract, first)


def _flat(x: Tensor, lead: int) -> Tensor:
    """x with all dimensions after the first `lead` as one."""
    return x if x.ndim == lead + 1 else RECORD.reshape(x, (*x.shape[:lead], math.prod(x.shape[lead:])))


def _by_example(rows: Tensor, examples: int) -> Tensor:
    """(n, *examples, *shape) as (*examples, n, elements)."""
    rows = _flat(rows, 1 + examples)
    return RECORD.permute(rows, (*range(1, 1 + examples), 0, 1 + examples)) if examples else rows


def _of_groups(terms: Tensor, form: Form) -> Tensor:
    """From all (..., o, d, d) terms those of a Hessian, or the sums over the pairs of each group."""
    flat = RECORD.reshape(terms, (*terms.shape[:-2], form.d * form.d))
    if form.name == "hessian":
        return flat
    return summed(picked(flat, [i * form.d + j for i, j in form.pairs], -1), form, -1)


def _of_any(step: Step, given: Sequence[Any], pushed: Sequence[Any], form: Form, examples: int) -> Contraction:
    whole = [expanded(t, x) for t, x in zip(given, step.call.inputs, strict=True)]
    own = own_seconds(step.call, whole, pushed, form)

    def contract(adjoints: list[Any]) -> Tensor | None:
        total: Tensor | None = None
        for a, s, out in zip(adjoints, own, step.call.outs, strict=True):
            if a is not None and s is not None:
                left, right = _by_example(expanded(a, out), examples), _by_example(s, examples)
                total = added(total, RECORD.matmul(left, RECORD.mT(right)))
        return total if total is None or form.name != "hessian" else picked(total, mirrored(form.d), -1)

    return contract
