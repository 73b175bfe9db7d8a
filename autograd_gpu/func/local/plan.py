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
from typing import Any, NamedTuple

from ...core.declare.op_call import Call
from ...core.interpret.tape import Place, Taping, Untapeable
from ...core.tensor import Tensor
from ...modes import MODES
from .second_derivative import Activation, activation_of, has_second_derivative, is_elementwise, takes_rows

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


class Facts:
    """What the structure of the calls says, whatever the values: calls of one function on the same shapes share it.

    firsts are the places that need tangents, seconds those that need second tangents and adjoints. `last` is the last
    step that reads a place, `readers` how many inputs of steps it is.
    """

    def __init__(self, tape: Taping, outs: Sequence[Place | None], jacobian: bool) -> None:
        # Number of the call, live inputs, has_second_derivative, and whether it is an activation.
        self.steps: list[tuple[int, list[int], bool, bool]] = []
        used = {place for place in outs if place is not None}
        self.firsts: set[Place] = set(used) if jacobian else set()
        for n in range(len(tape.calls) - 1, -1, -1):
            taped = tape.calls[n]
            if used.isdisjoint(taped.outputs):
                continue
            if taped.call.op.jvp is None:
                raise Untapeable(f"{tape.api}: {taped.call.op.name} has no jvp")
            live = [i for i, place in enumerate(taped.inputs) if place is not None]
            curved = has_second_derivative(taped.call, live)
            self.steps.append((n, live, curved, activation_of(taped.call, live) is not None))
            places = [taped.inputs[i] for i in live]
            used.update(places)  # type: ignore[arg-type]  # live inputs have places
            if curved or not self.firsts.isdisjoint(taped.outputs):
                self.firsts.update(places)  # type: ignore[arg-type]
        self.steps.reverse()
        self.seconds: set[Place] = set()
        self.last: dict[Place | None, int] = {}
        self.readers: dict[Place | None, int] = {}
        for number, (n, _, curved, _) in enumerate(self.steps):
            taped = tape.calls[n]
            for place in taped.inputs:
                self.last[place] = number
                self.readers[place] = self.readers.get(place, 0) + 1
            if curved or not self.seconds.isdisjoint(taped.inputs):
                self.seconds.update([place for place in taped.outputs if place is not None])
        # For each step whether its results need tangents, and second tangents; and the places that no later step reads.
        self.needs, self.dying = list[tuple[bool, bool]](), list[list[Place | None]]()
        for number, (n, *_) in enumerate(self.steps):
            taped = tape.calls[n]
            self.needs.append((not self.firsts.isdisjoint(taped.outputs), not self.seconds.isdisjoint(taped.outputs)))
            self.dying.append([p for p in dict.fromkeys(taped.inputs) if self.last[p] == number and p not in outs])
        # The steps that are a product with a weight: the one before an activation, and the one behind it, where nobody
        # else reads what is between.
        self.layers, self.joins = set[int](), set[int]()
        for number in range(len(self.steps) - 1):
            if self._is_read_by_next(number, tape, outs):
                if self._is_product(number, tape) and self._is_layered(number + 1, tape):
                    self.layers.add(number)
                if self._is_layered(number, tape) and self._is_product(number + 1, tape):
                    self.joins.add(number + 1)
        # The number of elements of the largest value that depends on x.
        self.widest = max([x.numel() for n, *_ in self.steps for x in tape.calls[n].call.outs], default=0)
        self.costs: dict[Any, Any] = {}  # of cost.py
        # The results of steps with a second derivative.
        self.bent = {place for n, _, curved, _ in self.steps if curved for place in tape.calls[n].outputs} - {None}

    def _is_product(self, number: int, tape: Taping) -> bool:
        n, live, _, _ = self.steps[number]
        call = tape.calls[n].call
        return takes_rows(call, live) and call.inputs[1].ndim == 2

    def _is_read_by_next(self, number: int, tape: Taping, outs: Sequence[Place | None]) -> bool:
        """Whether the result of a step is the input 0 of the next one, and nobody else's."""
        (n, *_), (after, *_) = self.steps[number : number + 2]
        place = tape.calls[n].outputs[0]
        return tape.calls[after].inputs[0] == place and self.readers.get(place) == 1 and place not in outs

    def _is_layered(self, number: int, tape: Taping) -> bool:
        """Whether a step is an activation with a second derivative, which saves a value of the result's shape."""
        n, live, curved, activates = self.steps[number]
        call = tape.calls[n].call
        activation = activation_of(call, live) if curved and activates else None
        return activation is not None and activation.saved.shape == call.outs[0].shape


_KNOWN: dict[Any, Facts] = {}  # by structure
MOST = 256  # entries of _KNOWN


def _facts_of(tape: Taping, outs: Sequence[Place | None], jacobian: bool) -> Facts:
    """The facts about a tape, known from the last one of this structure."""
    if any(level.is_trace for level in MODES.stack):  # it hears what they depend on
        return Facts(tape, outs, jacobian)
    structure: list[Any] = [jacobian, *outs]  # what facts and costs may depend on
    for call, inputs, outputs, _ in tape.calls:
        shapes = [x._array.shape if isinstance(x, Tensor) else x for x in (*call.inputs, *call.outs)]
        structure.append((call.op.name, *inputs, *outputs, *call.attributes.items(), *shapes))
    key = tuple(structure)
    try:
        facts = _KNOWN.get(key)
    except TypeError:  # an attribute has no hash
        return Facts(tape, outs, jacobian)
    if facts is None:
        facts = Facts(tape, outs, jacobian)
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        _KNOWN[key] = facts
    return facts


class Plan:
    """The steps of a tape towards `outs`, and the facts about them."""

    def __init__(self, tape: Taping, outs: Sequence[Place | None], jacobian: bool) -> None:
        facts = _facts_of(tape, outs, jacobian)
        self.firsts, self.seconds, self.last, self.readers = facts.firsts, facts.seconds, facts.last, facts.readers
        self.layers, self.joins, self.widest, self.costs = facts.layers, facts.joins, facts.widest, facts.costs
        self.needs, self.dying, self.bent = facts.needs, facts.dying, facts.bent
        tape.check_versions([tape.calls[step[0]] for step in facts.steps])
        self.steps: list[Step] = []
        for n, live, curved, activates in facts.steps:
            call, inputs, outputs, _ = tape.calls[n]
            activation = activation_of(call, live) if activates else None
            # Half the time of Step().
            self.steps.append(tuple.__new__(Step, (call, inputs, outputs, live, curved, activation)))

    @property
    def has_second_derivative(self) -> bool:
        return bool(self.seconds)

    def shows_examples(self, lifted: set[Place]) -> bool:
        """Whether the examples of vmap lie along the first dimensions of each result that has second derivatives."""
        return self.bent <= lifted
