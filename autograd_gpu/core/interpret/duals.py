"""Forward mode: a tensor carries its tangents, one per level, in the slot `_tangents`.

A dual tensor is an ordinary tensor as far as everything below its level is concerned. So a write makes an ordinary
tensor dual, saved tensors carry tangents into backward (forward over reverse), and a dual is an ordinary tensor again
when its level ends.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...backend import may_share_memory
from ...backend.arrays import strides
from ...modes import MODES
from ..declare.jvp_rules import push_forward
from ..declare.op import RECORD, OpDef
from ..declare.op_call import Call
from ..graph.node import Node
from ..graph.tensor_base import Duals
from ..saved.saved_tensor import SavingNode
from ..tensor import Tensor
from .interpreters import Interpreter, Result, below, lower
from .level_tensor import LevelTensor


class Forward(Interpreter):
    """A level of forward mode."""

    def __init__(self, is_transform: bool = True) -> None:
        self.is_transform = is_transform
        self.duals: list[weakref.ref[Tensor]] = []
        self.next_sweep = 1024  # the length of that list at which the dead references are removed
        self.viewed: Any = weakref.WeakValueDictionary()  # by id: tensors of which views were made at this level

    def close(self) -> None:
        super().close()
        for ref in self.duals:
            x = ref()
            if x is not None and hasattr(x, "_tangents"):
                x._tangents.pop(self, None)
        self.duals = []

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any]) -> Result:
        if not op.has_rules or MODES.forward_off:
            return lower(op, args, attributes)
        tangents = [tangent_of(x, self) if isinstance(x, Tensor) else None for x in args]
        outs, extras = lower(op, args, attributes)
        if any(t is not None for t in tangents):
            several = (outs,) if op.single else tuple(outs)
            call = Call(op, ([*args],) if op.variadic else args, attributes, several, extras)
            for out, t in zip(several, push_forward(RECORD, call, tangents), strict=True):
                if t is not None:
                    attach(out, self, t)
            share_with_saved_outputs(several)
        if op.view:
            self._note_views(op, args, attributes, (outs,) if op.single else tuple(outs))
        return outs, extras

    def _note_views(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any], outs: Sequence[Tensor]) -> None:
        """Notes how lifted views were made: a tangent that their base gets by a later write must reach them."""
        x = args[0]
        for i, out in enumerate(outs):
            if may_share_memory(out._layout(), x._layout()):
                home = home_of(x)
                self.viewed[id(home)] = home
                if isinstance(out, LevelTensor) and isinstance(x, LevelTensor):
                    out._source = ViewSource(op, x, tuple(args[1:]), attributes, i)

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        tangents = [None if MODES.forward_off or not isinstance(x, Tensor) else tangent_of(x, self) for x in args]
        return cls._call(args) if all(t is None for t in tangents) else cls._call_forward(self, args, tangents)


def tangent_of(x: Tensor, level: Forward) -> Any:
    """The tangent of x at a level, or None. A view of a tensor that became dual later gets its part of the tangent."""
    tangents = getattr(x, "_tangents", None)
    if tangents is not None and level in tangents:
        return tangents[level]
    part = None
    if isinstance(x, LevelTensor):
        if x._source is not None and (whole := tangent_of(x._source.x, level)) is not None:
            with below(level):
                part = x._source.again(whole)
            attach(x, level, part)
    elif x._base is not None and (whole := tangent_of(x._base, level)) is not None:
        start = strides.address(x._base._array)
        place, origin = strides.geometry_of(x._array, start), strides.geometry_of(x._base._array, start)[1:]
        with below(level):
            part = RECORD.strided_view(whole, place, origin)  # shares memory: a write to the view's tangent reaches it
        attach(x, level, part)
    return part


class ViewSource(NamedTuple):
    """The call that made a lifted view: output `place` of `op`."""

    op: OpDef
    x: Tensor
    rest: tuple[Any, ...]
    attributes: dict[str, Any]
    place: int

    def again(self, x: Tensor) -> Tensor:
        """The same view of another tensor."""
        result = getattr(RECORD, self.op.name)(x, *self.rest, **self.attributes)
        view: Tensor = result if self.op.single else result[self.place]
        return view


def home_of(x: Tensor) -> Tensor:
    """The tensor that x is a view of, or x itself."""
    while isinstance(x, LevelTensor) and x._source is not None:
        x = x._source.x
    return x if x._base is None else x._base


def attach(x: Tensor, level: Forward, tangent: Any) -> None:
    """Makes `tangent` the tangent of x at a level, until the level ends."""
    tangents = getattr(x, "_tangents", None)
    if tangents is None:
        tangents = x._tangents = {}
        Duals.made = True
    tangents[level] = tangent
    level.duals.append(weakref.ref(x))
    if len(level.duals) > level.next_sweep:
        level.duals = [ref for ref in level.duals if ref() is not None]
        level.next_sweep = 2 * len(level.duals) + 1024


def share_with_saved_outputs(outs: tuple[Any, ...]) -> None:
    """Gives the outputs that their node saved, which are aliases, the tangents of the outputs."""
    node: Node | None = None
    for out in outs:
        if isinstance(out, Tensor) and out._fn is not None:
            node = out._fn
            break
    if node is None or not isinstance(node, SavingNode) or not node.keeps_output:
        return
    for kept in node.saved_outputs():
        if hasattr(out := outs[max(kept.nr - 1, 0)], "_tangents"):
            if kept.tensor is None:  # a hook packed it
                kept.tangents = out._tangents
            else:
                kept.tensor._tangents = out._tangents
