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

from ...backend.cpu.chains import Chain, chained
from ...core.declare.jvp_rules import added
from ...core.declare.op import RECORD
from ...core.interpret.tape import Place
from ...core.tensor import Tensor
from .plan import Form, Plan, Step
from .push import (
    begins_layer,
    elementwise_jet,
    mirrored,
    own_seconds,
    picked,
    puts_off,
    summed,
    takes_layers,
    through,
)
from .second_derivative import (
    expanded,
    pull_batched,
    push_batched,
    slopes,
)

Tangents = dict[Place | None, Any]
# From the adjoints of a call's results, (o, *shape) or None, to <a_o, D[t_i, t_j]>, (*examples, o, d * d or groups).
Contraction = Callable[[list[Any]], Tensor | None]


def pull(
    plan: Plan, seeds: dict[Place, Tensor], form: Form, out_seeds: Sequence[Tensor], places: Sequence[Place | None],
    examples: int,
) -> tuple[Tensor | None, Tangents]:  # fmt: skip
    """The second derivatives of all output elements, and the tangents of all values.

    The former are (*examples, o, d * d) of a Hessian, (*examples, o, groups) of another form, or None for zero.
    examples: how many first dimensions of each value are examples. out_seeds: the adjoints of the outputs.
    """
    with chained(puts_off()) as chain:
        sweep = _Sweep(plan, dict(seeds.items()), form, examples, chain)
        backward = [sweep.forward(n) for n in range(len(plan.steps))]
        adjoints: dict[Place | None, Any] = {}
        for seed, place in zip(out_seeds, places, strict=True):
            if place in plan.seconds:
                adjoints[place] = added(adjoints.get(place), seed)
        for n in range(len(plan.steps) - 1, -1, -1):
            sweep.back(n, backward, adjoints)
    total: Tensor | None = None
    for term in sweep.local:
        total = added(total, term)
    if total is not None:
        total = _of_groups(total, form)
    for own in sweep.terms:
        total = added(total, own)
    return total, sweep.tangents


class _Sweep:
    """The steps of `pull`, and what they share."""

    def __init__(self, plan: Plan, tangents: Tangents, form: Form, examples: int, chain: Chain) -> None:
        self.plan, self.tangents, self.form, self.firsts = plan, tangents, form, form._replace(groups=())
        self.examples, self.chain = examples, chain
        self.takes_layers = takes_layers(tangents.values())
        self.begun: Tensor | None = None  # the tangents of the input of a layer, whose product was the step before
        # Terms of the result: of layers, of all pairs, which are computed when the chain has run; and of other steps.
        self.local: list[Tensor] = []
        self.terms: list[Tensor | None] = []

    def forward(self, n: int) -> Bent | Contraction | None:
        """Adds the tangents of a step's results, where they are needed; returns what it adds on the way back."""
        plan, tangents, step = self.plan, self.tangents, self.plan.steps[n]
        if (t := self.begun) is not None:
            self.begun = None
            tangents[step.inputs[0]], tangents[step.outputs[0]] = through(plan, n - 1, t, self.firsts)
            return Bent(step, tangents[step.inputs[0]], self.form, self.examples)
        incoming: list[Any] = [tangents.get(place) for place in step.inputs]
        needed, curved = plan.needs[n][0], step.has_second_derivative
        if not (needed or curved) or all(t is None for t in incoming):
            return None
        if curved and step.is_elementwise:
            t = incoming[step.live[0]]
            if needed:
                self.chain.run()
                tangents[step.outputs[0]] = elementwise_jet(step, t, self.firsts)
            return Bent(step, t, self.form, self.examples)
        if self.takes_layers and n in plan.layers and begins_layer(plan, n, incoming[0]):
            if plan.needs[n + 1][0]:
                self.begun = incoming[0]
            else:  # only the activation behind it needs the tangents, on the way back
                tangents[step.outputs[0]] = RECORD.layer_linear(incoming[0], step.call.args[1])
            return None
        self.chain.run()
        pushed = push_batched(step.call, incoming, self.form.d)
        tangents.update(zip(step.outputs, pushed, strict=True))
        return _of_any(step, incoming, pushed, self.form, self.examples) if curved else None

    def back(
        self, n: int, backward: Sequence[Bent | Contraction | None], adjoints: dict[Place | None, Any]
    ) -> None:  # fmt: skip
        """Pulls the adjoints of a step's results back to its inputs, or, of a product, of the activation before it."""
        plan, step, own = self.plan, self.plan.steps[n], backward[n]
        grads = [adjoints.pop(place, None) for place in step.outputs]
        if all(g is None for g in grads):
            return
        if self.takes_layers and n in plan.joins:
            before = backward[n - 1]
            if isinstance(before, Bent) and before.is_layered():
                self._join(before, grads[0], step.call.inputs[1], adjoints)
                return
        self.chain.run()
        if own is not None:
            self.terms.append(own.terms(grads) if isinstance(own, Bent) else own(grads))
        need = [place in plan.seconds for place in step.inputs]
        if True in need:
            pulled = own.pull(grads, need) if isinstance(own, Bent) else pull_batched(step.call, grads, need)
            for place, g in zip(step.inputs, pulled, strict=True):
                adjoints[place] = added(adjoints.get(place), g)

    def _join(self, bent: Bent, adjoint: Tensor, weight: Tensor, adjoints: dict[Place | None, Any]) -> None:
        """Pulls adjoints through a product and the activation before it."""
        pulled, terms = bent.join(adjoint, weight)
        self.local.append(terms)
        if (place := bent.step.inputs[0]) in self.plan.seconds:
            if place in adjoints:
                self.chain.run()
            adjoints[place] = added(adjoints.get(place), pulled)


class Bent:
    """A step that is a function of each element with a second derivative, on the way back; t: tangents of its input."""

    def __init__(self, step: Step, t: Tensor, form: Form, examples: int) -> None:
        self.step, self.t, self.form, self.examples = step, t, form, examples
        self.slope: Tensor | None = None  # the first derivative, which `terms` finds and `pull` uses

    def terms(self, adjoints: list[Any]) -> Tensor | None:
        self.slope, second = slopes(self.step.call, self.step.live)
        if second is None:
            return None
        a, factors = _by_example(adjoints[0], self.examples), _flat(second, self.examples)
        return _of_groups(RECORD.local_terms(a, factors, _by_example(self.t, self.examples)), self.form)

    def pull(self, adjoints: list[Any], need: Sequence[bool]) -> Sequence[Any]:
        """The adjoints of its inputs, after `terms`."""
        own, self.slope = adjoints[0] * self.slope, None
        return [own if needed else None for needed in need]

    def is_layered(self) -> bool:
        """Whether its results are vectors, one for each example."""
        return bool(self.step.call.outs[0].ndim == 1 + self.examples)

    def join(self, adjoint: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The adjoints of its input and its terms, from the adjoints of the product behind it."""
        act: Any = self.step.activation
        joined = RECORD.layer_terms(adjoint, weight, act.saved, self.t, act.bias, activation=act.name,
                                    parameters=act.parameters)
        return joined.left, joined.terms


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
