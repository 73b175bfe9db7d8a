"""Pulls adjoints of all outputs back through the steps of a plan, and contracts them with the second derivatives.

    H[o, i, j] = sum over the calls with a second derivative of <a_o, D[t_i, t_j]>

1. Tangents t_i are pushed forward to those calls.
2. One sweep back has the adjoints a_o of all output elements, (o, *shape); it ends at the first such call.
3. For a function of each element D[t_i, t_j] = f'' t_i t_j. That is never formed: one small product sums
   (a f'' t_i) t_j over the elements.

Where the examples of vmap lie along the first dimensions of all values, the sums are those over the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.declare.jvp_rules import added
from ...core.declare.op import RECORD
from ...core.interpret.tape import Place
from ...core.tensor import Tensor
from .plan import Form, Plan, Step
from .push import elementwise_jet, mirrored, own_seconds, picked, summed
from .second_derivative import expanded, is_elementwise, pull_batched, push_batched, slopes

Tangents = dict[Place | None, Any]
# From the adjoints of a call's results, (o, *shape) or None, to <a_o, D[t_i, t_j]>, (*examples, o, d * d or groups).
Contraction = Callable[[list[Any]], Tensor | None]


class Backward(NamedTuple):
    """A step's part of the sweep back: from the adjoints of its results to its terms, and to those of its inputs."""

    terms: Contraction | None
    pull: Callable[[list[Any], Sequence[bool]], Sequence[Any]]


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
    for step, own in zip(reversed(plan.steps), reversed(backward), strict=True):
        grads = [adjoints.pop(place, None) for place in step.outputs]
        if all(g is None for g in grads):
            continue
        if own.terms is not None:
            total = added(total, own.terms(grads))
        need = [place in plan.seconds for place in step.inputs]
        if any(need):
            for place, g in zip(step.inputs, own.pull(grads, need), strict=True):
                adjoints[place] = added(adjoints.get(place), g)
    return total, tangents


def _push_tangents(step: Step, tangents: Tangents, plan: Plan, form: Form, examples: int) -> Backward:
    """Adds the tangents of a step's results, where they are needed; returns its part of the sweep back."""
    incoming: list[Any] = [tangents.get(place) for place in step.inputs]
    has_tangents = any(t is not None for t in incoming)
    needed = has_tangents and not plan.firsts.isdisjoint(step.outputs)
    curved = has_tangents and step.has_second_derivative
    if curved and is_elementwise(step.call, step.live):
        t = incoming[step.live[0]]
        if needed:
            tangents[step.outputs[0]] = elementwise_jet(step.call, step.live, t, form._replace(groups=()))
        return _elementwise(step, t, form, examples)
    if not (curved or needed):
        return Backward(None, functools.partial(pull_batched, step.call))
    pushed = push_batched(step.call, incoming, form.d)
    tangents.update(zip(step.outputs, pushed, strict=True))
    terms = _of_any(step, incoming, pushed, form, examples) if curved else None
    return Backward(terms, functools.partial(pull_batched, step.call))


def _elementwise(step: Step, t: Tensor, form: Form, examples: int) -> Backward:
    slope: list[Tensor] = []  # the first derivative, which both functions use

    def terms(adjoints: list[Any]) -> Tensor | None:
        first, second = slopes(step.call, step.live)
        slope.append(first)
        if second is None:
            return None
        a, factors = _by_example(adjoints[0], examples), _flat(second, examples)
        return _of_groups(RECORD.local_terms(a, factors, _by_example(t, examples)), form)

    def pull(adjoints: list[Any], need: Sequence[bool]) -> Sequence[Any]:
        own = adjoints[0] * slope.pop()
        return [own if needed else None for needed in need]

    return Backward(terms, pull)


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


def _of_any(step: Step, tangents: Sequence[Any], pushed: Sequence[Any], form: Form, examples: int) -> Contraction:
    whole = [expanded(t, x) for t, x in zip(tangents, step.call.inputs, strict=True)]
    own = own_seconds(step.call, whole, pushed, form)

    def contract(adjoints: list[Any]) -> Tensor | None:
        total: Tensor | None = None
        for a, s, out in zip(adjoints, own, step.call.outs, strict=True):
            if a is not None and s is not None:
                left, right = _by_example(expanded(a, out), examples), _by_example(s, examples)
                total = added(total, RECORD.matmul(left, RECORD.mT(right)))
        return total if total is None or form.name != "hessian" else picked(total, mirrored(form.d), -1)

    return contract
