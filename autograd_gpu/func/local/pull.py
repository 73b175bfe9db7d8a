"""Pulls adjoints of all outputs back through the steps of a plan, and contracts them with the second derivatives.

    H[o, i, j] = sum over the calls with a second derivative of <a_o, D[t_i, t_j]>

1. Tangents t_i are pushed forward to those calls.
2. One sweep back has the adjoints a_o of all output elements in one batch; it ends at the first such call.
3. For a function of each element D[t_i, t_j] = f'' t_i t_j. That is never formed: one small product sums
   (a f'' t_i) t_j over the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...autograd.vectorized import basis
from ...core.declare.jvp_rules import added
from ...core.declare.op import RECORD
from ...core.declare.vjp_rules import pull_back
from ...core.interpret.batched import Batching, batched
from ...core.interpret.interpreters import below, entered
from ...core.interpret.tape import Place
from ...core.tensor import Tensor
from .plan import Form, Plan, Step
from .push import own_seconds, picked, shaped, summed
from .second_derivative import is_elementwise, push_batched, slopes

Tangents = dict[Place | None, Any]
# From the adjoints of a call's results, (o, *shape) or None, to <a_o, sum over each group of D[t_i, t_j]>, (o, groups).
Contraction = Callable[[list[Any]], Tensor | None]


def pull(
    plan: Plan, seeds: dict[Place, Tensor], form: Form, outs: Sequence[Tensor], places: Sequence[Place | None]
) -> tuple[Tensor | None, Tangents]:
    """The second derivatives of all output elements, (o, groups) or None for zero, and the tangents of all values."""
    tangents: Tangents = dict(seeds.items())
    contractions = [_push_tangents(step, tangents, plan, form) for step in plan.steps]
    total: Tensor | None = None
    with entered(Batching(sum([out.numel() for out in outs]))) as rows:
        adjoints: dict[Place | None, Any] = {}
        for out_rows, place in zip(basis(outs), places, strict=True):
            if place in plan.seconds:
                adjoints[place] = added(adjoints.get(place), batched(rows, out_rows))
        for step, contract in zip(reversed(plan.steps), reversed(contractions), strict=True):
            grads = [adjoints.pop(place, None) for place in step.outputs]
            if contract is not None:
                with below(rows):
                    total = added(total, contract([None if g is None else rows.whole(g) for g in grads]))
            need = [place in plan.seconds for place in step.inputs]
            if any(need):
                for place, g in zip(step.inputs, pull_back(RECORD, step.call, grads, need), strict=True):
                    adjoints[place] = added(adjoints.get(place), g)
    return total, tangents


def _push_tangents(step: Step, tangents: Tangents, plan: Plan, form: Form) -> Contraction | None:
    """Adds the tangents of a step's results, where they are needed; returns its contraction, None without any."""
    incoming: list[Any] = [tangents.get(place) for place in step.inputs]
    if all(t is None for t in incoming):
        return None
    needed = not plan.firsts.isdisjoint(step.outputs)
    if step.has_second_derivative and is_elementwise(step.call, step.live):
        pushed, contract = _elementwise(step, incoming[step.live[0]], needed, form)
    elif step.has_second_derivative or needed:
        pushed = push_batched(step.call, incoming, form.d)
        contract = _of_any(step, incoming, pushed, form) if step.has_second_derivative else None
    else:
        return None
    tangents.update(zip(step.outputs, pushed, strict=True))
    return contract


def _elementwise(step: Step, t: Tensor, needed: bool, form: Form) -> tuple[list[Any], Contraction | None]:
    first, second = slopes(step.call, step.live)
    pushed = [first * t if needed else None]
    if second is None:
        return pushed, None
    factors, flat = shaped(second, (-1,)), shaped(t, (form.d, -1))

    def contract(adjoints: list[Any]) -> Tensor | None:
        (a,) = adjoints
        return None if a is None else _of_groups(RECORD.local_terms(shaped(a, (a.shape[0], -1)), factors, flat), form)

    return pushed, contract


def _of_groups(terms: Tensor, form: Form) -> Tensor:
    """From all (o, d, d) terms the sums over the pairs of each group, (o, groups)."""
    flat = RECORD.reshape(terms, (terms.shape[0], -1))
    return summed(picked(flat, [i * form.d + j for i, j in form.pairs], -1), form, -1)


def _of_any(step: Step, tangents: Sequence[Any], pushed: Sequence[Any], form: Form) -> Contraction:
    own = own_seconds(step.call, tangents, pushed, form)

    def contract(adjoints: list[Any]) -> Tensor | None:
        total: Tensor | None = None
        for a, s in zip(adjoints, own, strict=True):
            if a is not None and s is not None:
                flat, rows = shaped(s, (s.shape[0], -1)), shaped(a, (a.shape[0], -1))
                total = added(total, RECORD.matmul(rows, RECORD.mT(flat)))
        return total

    return contract
