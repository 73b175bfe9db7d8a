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

from ...backend.cpu.chains import Chain, chained
from ...core.declare.jvp_rules import added
from ...core.declare.op import RECORD
from ...core.interpret.tape import Place
from ...core.tensor import Tensor
from .plan import Form, Plan, Step
from .push import (
    Layer,
    elementwise_jet,
    is_layered,
    layer_of,
    mirrored,
    own_seconds,
    picked,
    puts_off,
    summed,
    through,
)
from .second_derivative import (
    expanded,
    pull_batched,
    push_batched,
    slopes,
    takes_rows,
)

Tangents = dict[Place | None, Any]
# From the adjoints of a call's results, (o, *shape) or None, to <a_o, D[t_i, t_j]>, (*examples, o, d * d or groups).
Contraction = Callable[[list[Any]], Tensor | None]


class Backward(NamedTuple):
    """A step's part of the sweep back: from the adjoints of its results to its terms, and to those of its inputs.

    Of an activation on the CPU `join` is both, and the product behind it: from the adjoints of that and its weight.
    """

    terms: Contraction | None
    pull: Callable[[list[Any], Sequence[bool]], Sequence[Any]]
    join: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None


def pull(
    plan: Plan, seeds: dict[Place, Tensor], form: Form, out_seeds: Sequence[Tensor], places: Sequence[Place | None],
    examples: int,
) -> tuple[Tensor | None, Tangents]:  # fmt: skip
    """The second derivatives of all output elements, and the tangents of all values.

    The former are (*examples, o, d * d) of a Hessian, (*examples, o, groups) of another form, or None for zero.
    examples: how many first dimensions of each value are examples. out_seeds: the adjoints of the outputs.
    """
    with chained(puts_off()) as chain:
        sweep = _Sweep(plan, dict(seeds.items()), form, places, examples, chain)
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

    def __init__(
        self, plan: Plan, tangents: Tangents, form: Form, places: Sequence[Place | None], examples: int, chain: Chain
    ) -> None:
        self.plan, self.tangents, self.form, self.places = plan, tangents, form, places
        self.examples, self.chain = examples, chain
        self.layers: dict[Place | None, Layer] = {}  # by the place of the product, whose tangents are not there yet
        # Terms of the result: of layers, of all pairs, which are computed when the chain has run; and of other steps.
        self.local: list[Tensor] = []
        self.terms: list[Tensor | None] = []

    def forward(self, n: int) -> Backward:
        """Adds the tangents of a step's results, where they are needed; returns its part of the sweep back."""
        plan, form, tangents, step = self.plan, self.form, self.tangents, self.plan.steps[n]
        if (layer := self.layers.pop(step.inputs[0], None)) is not None:
            tangents[step.inputs[0]], tangents[step.outputs[0]] = through(layer, form._replace(groups=()))
            return _elementwise(step, tangents[step.inputs[0]], form, self.examples)
        incoming: list[Any] = [tangents.get(place) for place in step.inputs]
        has_tangents = any(t is not None for t in incoming)
        needed = has_tangents and not plan.firsts.isdisjoint(step.outputs)
        curved = has_tangents and step.has_second_derivative
        if not (curved or needed):
            return Backward(None, functools.partial(pull_batched, step.call))
        layer = None if curved else layer_of(plan, n, incoming[0])
        if layer is not None and not plan.firsts.isdisjoint(plan.steps[n + 1].outputs):
            self.layers[step.outputs[0]] = layer
            return Backward(None, functools.partial(pull_batched, step.call))
        if curved and step.is_elementwise:
            t = incoming[step.live[0]]
            if needed:
                self.chain.run()
                tangents[step.outputs[0]] = elementwise_jet(step, t, form._replace(groups=()))
            return _elementwise(step, t, form, self.examples)
        if layer is not None:  # only the activation behind it needs the tangents, on the way back
            tangents[step.outputs[0]] = RECORD.layer_linear(layer.stream, layer.weight)
            return Backward(None, functools.partial(pull_batched, step.call))
        self.chain.run()
        pushed = push_batched(step.call, incoming, form.d)
        tangents.update(zip(step.outputs, pushed, strict=True))
        terms = _of_any(step, incoming, pushed, form, self.examples) if curved else None
        return Backward(terms, functools.partial(pull_batched, step.call))

    def back(self, n: int, backward: Sequence[Backward], adjoints: dict[Place | None, Any]) -> None:
        """Pulls the adjoints of a step's results back to its inputs, or, of a product, of the activation before it."""
        plan, step, own = self.plan, self.plan.steps[n], backward[n]
        grads = [adjoints.pop(place, None) for place in step.outputs]
        if all(g is None for g in grads):
            return
        if self._joins(n) and (join := backward[n - 1].join) is not None:
            pulled, terms = join(grads[0], step.call.inputs[1])
            self.local.append(terms)
            if (place := plan.steps[n - 1].inputs[0]) in plan.seconds:
                if place in adjoints:
                    self.chain.run()
                adjoints[place] = added(adjoints.get(place), pulled)
            return
        self.chain.run()
        if own.terms is not None:
            self.terms.append(own.terms(grads))
        need = [place in plan.seconds for place in step.inputs]
        if any(need):
            for place, g in zip(step.inputs, own.pull(grads, need), strict=True):
                adjoints[place] = added(adjoints.get(place), g)

    def _joins(self, n: int) -> bool:
        """Whether step n is a product with a weight, and the only reader of the result of the step before."""
        step = self.plan.steps[n]
        if not n or not takes_rows(step.call, step.live) or step.call.inputs[1].ndim != 2:
            return False
        place = step.inputs[0]
        alone = self.plan.readers[place] == 1 and place not in self.places
        return alone and self.plan.steps[n - 1].outputs[0] == place


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

    activation, out = step.activation, step.call.outs[0]
    if activation is None or not is_layered(activation, out) or out.ndim != 1 + examples:
        return Backward(terms, pull)

    def join(adjoint: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        joined = RECORD.layer_terms(adjoint, weight, activation.saved, t, activation.bias, activation=activation.name,
                                    parameters=activation.parameters)
        return joined.left, joined.terms

    return Backward(terms, pull, join)


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
