"""Which calls of a tape have a second derivative, and how far tangents, second tangents and adjoints are needed.

1. Only calls on the way from the inputs to the outputs count.
2. A call counts as having a second derivative unless that is zero by the rules (second_derivative.py).
3. A value needs tangents if a consumer has a second derivative, or results that need them.
4. A value has second tangents, and needs adjoints, if a call with a second derivative lies between it and the inputs.

So a network of ReLU layers runs its forward only.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from ...core.declare.op_call import Call
from ...core.interpret.tape import Place, TapedCall, Taping, Untapeable
from ...ops.nn.linear_activation import ACTIVATIONS
from .second_derivative import Activation, activation_of, has_second_derivative, is_elementwise

Pair = tuple[int, int]


@functools.lru_cache(256)
def form_of(name: str, d: int) -> Form:
    """The "hessian" (each pair i <= j), its "diagonal", or the "laplacian"."""
    if name == "hessian":
        return Form(name, d, tuple([((i, j),) for i in range(d) for j in range(i, d)]))
    diagonal = tuple([((i, i),) for i in range(d)])
    return Form(name, d, diagonal if name == "diagonal" else (tuple([pair for (pair,) in diagonal]),))


class Form(NamedTuple):
    """The second derivatives wanted, of d inputs: one per group, the sum over its pairs (i, j)."""

    name: str
    d: int
    groups: tuple[tuple[Pair, ...], ...]

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of all groups, one group after the other."""
        return [pair for group in self.groups for pair in group]


class Step(NamedTuple):
    """A call on the way to the outputs, and the places of its inputs that depend on x, the live ones."""

    call: Call
    inputs: list[Place | None]
    outputs: list[Place | None]
    live: list[int]
    has_second_derivative: bool
    activation: Activation | None  # that the call computes of its only live input

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of the result depends on x by the same element of one input only."""
        return self.activation is not None or is_elementwise(self.call, self.live)


class Plan:
    """The steps of a tape towards `outs`, and the places that need tangents (firsts), and seconds and adjoints."""

    def __init__(self, tape: Taping, outs: Sequence[Place | None], jacobian: bool) -> None:
        self.steps: list[Step] = []
        used = {place for place in outs if place is not None}
        self.firsts: set[Place] = set(used) if jacobian else set()
        for taped in reversed(tape.calls):
            if used.isdisjoint(taped.outputs):
                continue
            tape.check_versions(taped)
            step = _step(taped, tape)
            self.steps.append(step)
            places = [step.inputs[i] for i in step.live]
            used.update(places)  # type: ignore[arg-type]  # live inputs have places
            if step.has_second_derivative or not self.firsts.isdisjoint(step.outputs):
                self.firsts.update(places)  # type: ignore[arg-type]
        self.steps.reverse()
        self.seconds: set[Place] = set()
        self.last: dict[Place | None, int] = {}  # the last step that reads a place
        self.readers: dict[Place | None, int] = {}  # how many inputs of steps a place is
        for n, step in enumerate(self.steps):
            for place in step.inputs:
                self.last[place] = n
                self.readers[place] = self.readers.get(place, 0) + 1
            if step.has_second_derivative or not self.seconds.isdisjoint(step.inputs):
                self.seconds.update([place for place in step.outputs if place is not None])

    @property
    def has_second_derivative(self) -> bool:
        return bool(self.seconds)

    def shows_examples(self, lifted: set[Place]) -> bool:
        """Whether the examples of vmap lie along the first dimensions of each result that has second derivatives."""
        curved = [step for step in self.steps if step.has_second_derivative]
        return all(place is None or place in lifted for step in curved for place in step.outputs)

    @property
    def widest(self) -> int:
        """The number of elements of the largest value that depends on x."""
        return max([x.numel() for step in self.steps for x in step.call.outs], default=0)


def _step(taped: TapedCall, tape: Taping) -> Step:
    call = taped.call
    if call.op.jvp is None:
        raise Untapeable(f"{tape.api}: {call.op.name} has no jvp")
    live = [i for i, place in enumerate(taped.inputs) if place is not None]
    activation = activation_of(call, live)
    curved = has_second_derivative(call, live) if activation is None else ACTIVATIONS[activation.name].bends
    return Step(call, taped.inputs, taped.outputs, live, curved, activation)
