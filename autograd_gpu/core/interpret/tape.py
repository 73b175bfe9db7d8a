"""A tape: a function runs once, and the calls of ops that depend on its inputs are kept with what their rules may read.

`linearize` pushes tangents through the calls later. The Hessian by local terms (func/local/) sweeps over them in both
directions, each only as far as it is needed.

A tape may lie below levels of vmap. It then keeps what their batch rules run on all examples, and the sweeps need no
tensors of vmap.

A tensor that depends on the inputs carries its number in the slot `_tangents`, where under forward mode its tangent is.

A write to a tensor is kept as a call of the op out of place: the calls before it keep a copy of the old value, and the
tensor gets the number of the result. Its views, and what it is a view of, get the numbers of calls that move elements.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...backend.arrays import strides
from ...modes import GRAD_OFF, MODES
from ..declare.jvp_rules import push_forward
from ..declare.op import RECORD, OpDef
from ..declare.op_call import Call, differentiable_outputs, is_differentiable
from ..graph.storage import INFERENCE_STORAGE, version_of
from ..graph.tensor_base import Duals
from ..tensor import Tensor
from .batched import Batching
from .duals import share_with_saved_outputs
from .interpreters import Interpreter, Result, lower, replaced

Place = int  # the number of a tensor


class Untapeable(RuntimeError):
    """Raised for a call that a tape cannot keep; the text names it and the way out."""


def unlifted(levels: Sequence[Batching], x: Any) -> Any:
    """What x is below these levels of vmap, with all examples along its first dimensions; None if it is not in all."""
    for level in reversed(levels):
        if not level.holds(x):
            return None
        x = x._value
    return x


class TapedCall(NamedTuple):
    """A call, the numbers of its inputs and outputs, and the versions of what its rules may read.

    A tensor that does not depend on the inputs of the function has no number.
    """

    call: Call
    inputs: list[Place | None]
    outputs: list[Place | None]
    versions: list[tuple[Tensor, int]]


class Taping(Interpreter):
    """A level that keeps calls. `api` is the public function, `instead` the one that takes what a tape cannot.

    With `reverse` it stands for forward over reverse mode: what is computed in a `no_grad` block inside of the function
    is constant for one of them only, so it must not be used outside of the block. A block around the level hides the
    calls from what lies below. Inference mode must be off.

    `levels` are those of vmap that lie directly above it and in all of which the inputs differ between the examples.
    """

    def __init__(self, api: str, instead: str, reverse: bool = False, levels: tuple[Batching, ...] = ()) -> None:
        self.api, self.instead, self.levels = api, instead, levels
        self.lifted: set[Place] = set()  # the numbers of what all examples lie along the first dimensions of
        self.reverse, self.outer = reverse, MODES.bits & GRAD_OFF
        self.calls: list[TapedCall] = []
        self.leaves: set[Place] = set()  # the numbers of the arguments
        self.hidden: set[Place] = set()  # what depends on the inputs, but was computed in a no_grad block
        self.numbered: list[weakref.ref[Tensor]] = []
        self.views: list[tuple[Tensor, weakref.ref[Tensor]]] = []  # what view ops got, and their results
        self.before: dict[int, Tensor] = {}  # during a write, by id: what tensors of that memory were
        self.changing: list[Tensor] = []  # those tensors, whose ids must not be given to others
        self.kept = 0  # the number of calls that keep them

    def close(self) -> None:
        """Ends the level; the tensors lose their numbers, so that they do not keep what `calls` holds alive."""
        super().close()
        for ref in self.numbered:
            x = ref()
            if x is not None:
                x._tangents.pop(self, None)
        self.views = []

    def add(self, x: Tensor, number: Place | None = None) -> Place:
        """Gives x a number, by default a new one."""
        place = len(self.numbered) if number is None else number
        numbers = getattr(x, "_tangents", None)
        if numbers is None:
            x._tangents = {self: place}
            Duals.made = True
        else:
            numbers[self] = place
        self.numbered.append(weakref.ref(x))
        return place

    def place_of(self, x: Any) -> Place | None:
        """The number of x, or None if x does not depend on the inputs."""
        numbers = getattr(x, "_tangents", None)
        place: Place | None = None if numbers is None else numbers.get(self)
        return place

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any]) -> Result:
        seen = self._sees()
        outs, extras = lower(op, args, attributes)
        if op.view:
            self.views.extend([(args[0], weakref.ref(out)) for out in ((outs,) if op.single else outs)])
        places = self._places_of(args)
        if places is not None and op.has_rules:
            several = (outs,) if op.single else tuple(outs)
            self._number(Call(op, ([*args],) if op.variadic else args, attributes, several, extras), places, seen)
        return outs, extras

    def keep_lifted(self, call: Call, places: list[Place | None], versions: list[tuple[Tensor, int]]) -> None:
        """Keeps a call of a plain op (OpDef.is_plain) on all examples of the only level, which has run just now.

        One of its inputs depends on the inputs of the function; `places` and `versions` are those of its inputs.
        """
        (out,) = call.outs
        place = self.add(out)
        self._keep(call, places, [place], [*versions, (out, version_of(out))])
        self.lifted.add(place)
        if (node := out._fn) is not None and node.keeps_output:
            share_with_saved_outputs(call.outs)

    def _places_of(self, args: Sequence[Any]) -> list[Place | None] | None:
        """The numbers of the arguments; None if none of them depends on the inputs."""
        places: list[Place | None] = []
        moves = False
        for x in args:
            numbers = getattr(x, "_tangents", None)
            places.append(place := None if numbers is None else numbers.get(self))
            moves = moves or place is not None
        return places if moves else None

    def _number(self, call: Call, places: list[Place | None], seen: bool) -> None:
        """Gives the results of a call numbers, and keeps it if it is seen."""
        if not is_differentiable(call):
            return
        if call.op.single and not call.op.nondiff_outputs:
            numbers: list[Place | None] = [self.add(call.outs[0])]
        else:
            moving = zip(call.outs, differentiable_outputs(call), strict=True)
            numbers = [self.add(out) if moves else None for out, moves in moving]
        if seen:
            self._keep(call, places, numbers, self._versions(call))
        else:
            self.hidden.update([place for place in numbers if place is not None])
        share_with_saved_outputs(call.outs)

    def _keep(
        self, call: Call, places: list[Place | None], numbers: list[Place | None], versions: list[tuple[Tensor, int]]
    ) -> None:
        if self.hidden and not self.hidden.isdisjoint(places):
            raise Untapeable(f"{self.api}: {call.op.name} uses a value that was computed in a no_grad block, which is "
                             f"constant for reverse mode only; detach() it, or use {self.instead}")
        self.calls.append(tuple.__new__(TapedCall, (call, places, numbers, versions)))  # half the time of TapedCall()

    def _versions(self, call: Call) -> list[tuple[Tensor, int]]:
        """Those of tensors that may be written to: not of one from inference mode, where `reverse` cannot run."""
        return [(x, 0 if (storage := x._storage) is None else storage.version) for x in (*call.inputs, *call.outs)
                if isinstance(x, Tensor) and not (self.reverse and x._storage is INFERENCE_STORAGE)]

    def _sees(self) -> bool:
        """Whether calls are kept now. Sets the grad mode of what lies below, which the caller restores."""
        if not self.reverse:
            return True
        bits = MODES.bits
        MODES.bits = bits | self.outer
        return not bits & GRAD_OFF and not MODES.forward_off

    def note_lifted(self, outs: Sequence[Any]) -> None:
        """Notes which results of the innermost of `levels`, as what lies below sees them, lie so in all levels."""
        between = self.levels[:-1]
        for out in outs:
            value = unlifted(between, out) if between else out
            numbers = getattr(value, "_tangents", None)  # no method: this runs for every op
            if numbers is not None and (place := numbers.get(self)) is not None:
                self.lifted.add(place)

    def refuse_function(self, cls: Any) -> None:
        """Raises for a custom Function at one of `levels`: its `vmap` need not have the derivatives that it has."""
        if not MODES.bits & GRAD_OFF and not MODES.forward_off:
            raise self._no_function(cls)

    def _no_function(self, cls: Any) -> Untapeable:
        return Untapeable(f"{self.api} cannot keep a call of the custom Function {cls.__name__} for later; "
                          f"use {self.instead}")

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        if self._sees() and any(self.place_of(x) is not None for x in args):
            raise self._no_function(cls)
        return cls._call(args)

    def sharing(self, x: Tensor) -> list[Tensor]:
        """x, its views, and what it is a view of: the one that is no view of the others comes first."""
        pairs = [(source, view) for source, ref in self.views
                 if (view := ref()) is not None and view._storage is source._storage]
        sources = {id(view): source for source, view in pairs}

        def root_of(t: Tensor) -> Tensor:
            while id(t) in sources:
                t = sources[id(t)]
            return t

        root = root_of(x)
        return [root, *[view for _, view in pairs if root_of(view) is root]]

    def at_risk(self, x: Tensor) -> list[Tensor]:
        """The tensors besides x that a write to x changes and that calls may read, or that get another number."""
        others = {id(t): t for t in self.sharing(x)}
        if (storage := x._storage) is not None:
            tensors = [t for taped in self.calls for t in (*taped.call.inputs, *taped.call.outs)]
            others.update({id(t): t for t in tensors if isinstance(t, Tensor) and t._storage is storage})
        others.pop(id(x), None)
        return list(others.values())

    def keep(self, before: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Makes the calls so far keep, for each (x, old) in `before`, `old` in place of x, which will be changed."""
        if self.reverse and any(self.place_of(x) in self.leaves for x, _ in before):
            raise Untapeable(f"{self.api}: the function writes to an argument; clone() it first, or use {self.instead}")
        self.before, self.changing = {id(x): old for x, old in before}, [x for x, _ in before]
        for x, old in before:
            if (place := self.place_of(x)) is not None:
                self.add(old, place)
        self._put_before(0)

    def _put_before(self, start: int) -> None:
        """Replaces tensors by those in `before`, in the calls from `start` on."""
        for n in range(start, len(self.calls)):
            taped = self.calls[n]
            call = taped.call
            if any(id(x) in self.before for x in (*call.inputs, *call.outs)):
                inputs, outs = ([self.before.get(id(x), x) for x in values] for values in (call.inputs, call.outs))
                call = Call(call.op, (inputs,) if call.op.variadic else inputs, call.attributes, outs, call.extras)
                self.calls[n] = taped._replace(call=call, versions=self._versions_after(taped))
        self.kept = len(self.calls)

    def _versions_after(self, taped: TapedCall) -> list[tuple[Tensor, int]]:
        """The versions of a call for which `before` has other tensors, which nobody writes to."""
        known = [(self.before.get(id(x)), x, version) for x, version in taped.versions]
        return [(x, version) if old is None else (old, version_of(old)) for old, x, version in known]

    def written(self, x: Tensor, result: Tensor) -> None:
        """Numbers x and what shares its memory, after `result` was written into x."""
        if result._storage is x._storage:  # it is a view
            self.before[id(result)] = result
        self._put_before(self.kept)  # the op may have read views of x
        before, self.before, self.changing = self.before, {}, []
        root, *views = self.sharing(x)
        start = strides.address(root._layout())

        def place(t: Tensor) -> strides.StridedGeometry:
            if t.dtype != x.dtype:
                raise Untapeable(f"{self.api}: a tensor is written to that a view shows as {t.dtype}; clone() it "
                                 f"first, or use {self.instead}")
            return strides.geometry_of(t._layout(), start)

        with replaced(MODES.stack[: MODES.stack.index(self) + 1]):
            whole = result
            if x is not root:
                rest = RECORD.erase(before[id(root)], place(root), place(x))
                whole = RECORD.add(rest, RECORD.restride(result, place(x), place(root)))
            self.renumber(root, whole)
            for view in views:
                self.renumber(view, result if view is x else RECORD.restride(whole, place(root), place(view)))

    def renumber(self, x: Tensor, value: Tensor) -> None:
        """Gives x, which has the value of `value`, its number, or none."""
        number = self.place_of(value)
        if number is not None:
            self.add(x, number)
        elif hasattr(x, "_tangents"):
            x._tangents.pop(self, None)

    def check_detached(self, x: Tensor) -> None:
        """Raises for a detach_() that concerns reverse mode only."""
        if self.reverse and self.place_of(x) is not None:
            raise Untapeable(f"{self.api}: detach_() makes a constant of reverse mode only; use detach(), or "
                             f"{self.instead}")

    def check_versions(self, calls: Iterable[TapedCall]) -> None:
        """Raises if a tensor that one of the calls used has been written to since."""
        for taped in calls:
            for x, version in taped.versions:
                storage = x._storage
                if (0 if storage is None else storage.version) != version:
                    raise Untapeable(f"{self.api}: a tensor that {taped.call.op.name} used has been modified by an "
                                     "inplace operation since; clone it first")

    def push(self, tangents: dict[Place, Tensor], places: Sequence[Place | None]) -> list[Any]:
        """The tangents of the tensors at `places`, None for zero, from those of the inputs."""
        known: dict[Place | None, Any] = dict(tangents.items())
        for taped in self.calls:
            self.check_versions((taped,))
            pushed = push_forward(RECORD, taped.call, [known.get(place) for place in taped.inputs])
            known.update(zip(taped.outputs, pushed, strict=True))
        return [known.get(place) for place in places]
