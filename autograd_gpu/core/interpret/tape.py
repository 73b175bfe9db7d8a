"""A tape: a function runs once, and the calls of ops that depend on its inputs are kept with what their rules may read.

`linearize` pushes tangents through the calls later. The Hessian by local terms (func/local/) sweeps over them in both
directions, each only as far as it is needed.

A tensor that depends on the inputs carries its number in the slot `_tangents`, where under forward mode its tangent is.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...config import GRAD_OFF, MODES
from ..declare.jvp_rules import push_forward
from ..declare.op import RECORD, OpDef
from ..declare.op_call import Call, differentiable_outputs, is_differentiable
from ..graph.storage import INFERENCE_STORAGE, version_of
from ..graph.tensor_base import Duals
from ..tensor import Tensor
from .duals import share_with_saved_outputs
from .interpreters import Interpreter, Result, lower

Place = int  # the number of a tensor


class Untapeable(RuntimeError):
    """Raised for a call that a tape cannot keep; the text names it and the way out."""


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
    """

    def __init__(self, api: str, instead: str, reverse: bool = False) -> None:
        self.api, self.instead = api, instead
        self.reverse, self.outer = reverse, MODES.bits & GRAD_OFF
        self.calls: list[TapedCall] = []
        self.hidden: set[Place] = set()  # what depends on the inputs, but was computed in a no_grad block
        self.numbered: list[weakref.ref[Tensor]] = []

    def close(self) -> None:
        """Ends the level; the tensors lose their numbers, so that they do not keep what `calls` holds alive."""
        super().close()
        for ref in self.numbered:
            x = ref()
            if x is not None:
                x._tangents.pop(self, None)

    def add(self, x: Tensor) -> Place:
        """Gives x a number."""
        if not hasattr(x, "_tangents"):
            x._tangents = {}
            Duals.made = True
        place = x._tangents[self] = len(self.numbered)
        self.numbered.append(weakref.ref(x))
        return place

    def place_of(self, x: Any) -> Place | None:
        """The number of x, or None if x does not depend on the inputs."""
        found: Place | None = getattr(x, "_tangents", {}).get(self)
        return found

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any]) -> Result:
        seen = self._sees()
        outs, extras = lower(op, args, attributes)
        places = [self.place_of(x) for x in args]
        if not op.has_rules or all(place is None for place in places):
            return outs, extras
        several = (outs,) if op.single else tuple(outs)
        call = Call(op, ([*args],) if op.variadic else args, attributes, several, extras)
        if is_differentiable(call):
            moving = zip(several, differentiable_outputs(call), strict=True)
            numbers = [self.add(out) if moves else None for out, moves in moving]
            if seen:
                self._keep(call, places, numbers)
            else:
                self.hidden.update([place for place in numbers if place is not None])
            share_with_saved_outputs(several)
        return outs, extras

    def _keep(self, call: Call, places: list[Place | None], numbers: list[Place | None]) -> None:
        if not self.hidden.isdisjoint(places):
            raise Untapeable(f"{self.api}: {call.op.name} uses a value that was computed in a no_grad block, which is "
                             f"constant for reverse mode only; detach() it, or use {self.instead}")
        versions = [(x, version_of(x)) for x in (*call.inputs, *call.outs) if self._may_be_written(x)]
        self.calls.append(TapedCall(call, places, numbers, versions))

    def _may_be_written(self, x: Any) -> bool:
        """Whether x has a version. A tensor from inference mode has none; `reverse` runs where it cannot be written."""
        return isinstance(x, Tensor) and not (self.reverse and x._storage is INFERENCE_STORAGE)

    def _sees(self) -> bool:
        """Whether calls are kept now. Sets the grad mode of what lies below, which the caller restores."""
        if not self.reverse:
            return True
        bits = MODES.bits
        MODES.bits = bits | self.outer
        return not bits & GRAD_OFF and not MODES.forward_off

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        if self._sees() and any(self.place_of(x) is not None for x in args):
            raise Untapeable(f"{self.api} cannot keep a call of the custom Function {cls.__name__} for later; "
                             f"use {self.instead}")
        return cls._call(args)

    def refuse_write(self, name: str) -> None:
        """Raises for an in-place operation on a tensor that depends on the inputs."""
        raise Untapeable(f"{name}: {self.api} does not support in-place operations on tensors that depend on its "
                         f"inputs; use an out-of-place operation, or {self.instead}")

    def check_versions(self, taped: TapedCall) -> None:
        """Raises if a tensor that a call used has been written to since."""
        for x, version in taped.versions:
            if version_of(x) != version:
                raise Untapeable(f"{self.api}: a tensor that {taped.call.op.name} used has been modified by an inplace "
                                 "operation since; clone it first")

    def push(self, tangents: dict[Place, Tensor], wanted: Sequence[Place | None]) -> list[Any]:
        """The tangents of the tensors `wanted`, None for zero, from those of the inputs."""
        known: dict[Place | None, Any] = dict(tangents.items())
        for taped in self.calls:
            self.check_versions(taped)
            pushed = push_forward(RECORD, taped.call, [known.get(place) for place in taped.inputs])
            known.update(zip(taped.outputs, pushed, strict=True))
        return [known.get(place) for place in wanted]
