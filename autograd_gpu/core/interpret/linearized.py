"""Forward mode in two steps: a level notes the calls of ops, and pushes tangents through them later.

A tensor that depends on the inputs carries its number in the slot `_tangents`, where under forward mode its tangent is.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..declare.jvp_rules import Call, push_forward
from ..declare.op import RECORD, OpDef
from ..graph.storage import version_of
from ..graph.tensor_base import Duals
from ..tensor import Tensor
from .interpreters import Interpreter, Result, lower

Place = int  # the number of a tensor


class Noted(NamedTuple):
    """A call, the numbers of its inputs and of its outputs, and the versions of what its rule may read."""

    call: Call
    inputs: list[Place | None]
    outputs: list[Place]
    versions: list[tuple[Tensor, int]]


class Linearizing(Interpreter):
    """A level of `linearize`."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self.numbered: list[weakref.ref[Tensor]] = []

    def close(self) -> None:
        """Ends the level; the tensors lose their numbers, so that they do not keep what `noted` holds alive."""
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
        outs, extras = lower(op, args, attributes)
        places = [self.place_of(x) for x in args]
        if op.has_rules and any(place is not None for place in places):
            several = (outs,) if op.single else tuple(outs)
            call = Call(op, ([*args],) if op.variadic else args, attributes, several, extras)
            versions = [(x, version_of(x)) for x in (*args, *several) if isinstance(x, Tensor)]
            self.noted.append(Noted(call, places, [self.add(out) for out in several], versions))
        return outs, extras

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        if any(self.place_of(x) is not None for x in args):
            raise RuntimeError(f"linearize: the custom Function {cls.__name__} cannot be linearized; use ag.func.jvp")
        return cls._call(args)

    def push(self, tangents: dict[Place, Tensor], wanted: Sequence[Place | None]) -> list[Any]:
        """The tangents of the tensors `wanted`, None for zero, from those of the inputs."""
        known: dict[Place | None, Any] = dict(tangents.items())
        for call, inputs, outputs, versions in self.noted:
            for x, version in versions:
                if version_of(x) != version:
                    raise RuntimeError(f"linearize: a tensor that {call.op.name} used has been modified by an inplace "
                                       "operation since; clone it first")
            pushed = push_forward(RECORD, call, [known.get(place) for place in inputs])
            known.update(zip(outputs, pushed, strict=True))
        return [known.get(place) for place in wanted]
