"""Reverse mode above another transform: a graph of its own, whose nodes hold tensors of what lies below.

Above nothing but arrays, reverse mode is the plain graph. Inside of vmap or forward mode a level of reverse mode must
see its own operations only, so it records them itself, with the same node classes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...backend import may_share_memory
from ...config import GRAD_OFF, MODES
from ..codegen.level_record import make_level_record
from ..declare.op import RECORD, OpDef
from ..graph.leaf import AccumulateGrad
from ..graph.node import Node
from ..graph.storage import INFERENCE_STORAGE
from ..tensor import Tensor, alias
from .cores import kinds_of
from .interpreters import Interpreter, Result, lower
from .lifted import Lifted, Outline, belongs, lift


class Recorded(Lifted):
    """A tensor with a history at its level: `_fn` is a node of the level's graph."""

    __slots__ = ("_shown", "_views")

    _level: Recording
    _shown: Recorded | None  # of a view: what it is a view of
    _views: list[weakref.ref[Recorded]]

    @property
    def array(self) -> Any:
        return self._value.array

    def _layout(self) -> Any:
        return self._value._layout()

    def _alias(self) -> Tensor:
        return alias(self._value)

    def is_linked(self, besides: Any = None) -> bool:
        """Whether this is a view, or has views other than `besides`, at its level: a write changes their history."""
        views = [ref() for ref in self._views]
        return self._shown is not None or any(view is not None and view is not besides for view in views)

    def copied(self) -> Tensor:
        return recorded(self._level, RECORD.clone(self._value), self._fn, self._nr)

    def replace(self, value: Tensor) -> None:
        self._value = value
        self._array = Outline(value._array.shape, value)

    def item(self) -> Any:
        return self._value.item()

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return self._described("Recorded")


class Recording(Interpreter):
    """A level of reverse mode. `no_grad` hides a call from all levels inside of which it is, as on the plain graph.

    What lies below records in a call if the thread records, and did so when the level was made.
    """

    def __init__(self) -> None:
        self.outer = MODES.bits & GRAD_OFF

    def lift(self, value: Tensor) -> Recorded:
        """Makes a leaf of this level."""
        x = recorded(self, savable(value))
        x._fn = AccumulateGrad(x)
        return x

    def value(self, x: Any) -> Any:
        """What x is below this level."""
        return x._value if belongs(x, self) else x

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any]) -> Result:
        recording = self.enter_outer_grad_mode()
        mine = [type(x) is Recorded and x._level is self for x in args]
        if True not in mine:
            return lower(op, args, attributes)
        values = [x._value if flag else x for x, flag in zip(args, mine, strict=True)]
        outs, extras = lower(op, values, attributes)
        if not recording or not op.has_rules:
            return outs, extras
        values = list(map(savable, values))
        given = (args, values) if op.variadic else (*args, *values)
        made = record_of(op, args)(self, outs, extras, *given, *attributes.values())
        if made is None:
            return outs, extras
        if op.view:
            _note_views(args[0], (made,) if op.single else made)
        return made, extras

    def enter_outer_grad_mode(self) -> bool:
        """Sets the grad mode of what lies below; returns whether this level records. The caller restores the modes."""
        bits = MODES.bits
        MODES.bits = bits | self.outer
        return not bits & GRAD_OFF

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        recording = self.enter_outer_grad_mode()
        if not any(belongs(x, self) for x in args):
            return cls._call(args)
        return cls._call_recorded(self, args, recording)


def savable(x: Any) -> Any:
    """x, or a copy of a tensor from inference mode, whose writes nobody would notice."""
    return RECORD.clone(x) if isinstance(x, Tensor) and x._storage is INFERENCE_STORAGE else x


def record_of(op: OpDef, args: Sequence[Any]) -> Callable[..., Any]:
    """The function that records calls of the op with arguments of these types (core/codegen/level_record.py)."""
    types = ("*",) if op.variadic else tuple(map(type, args))
    found = op.level_records.get(types)
    if found is None:
        kinds = ("*",) if op.variadic else kinds_of(args)
        found = op.level_records[types] = make_level_record(op, kinds, Recorded, recorded)
    return found


def _note_views(x: Any, views: Sequence[Tensor]) -> None:
    """Links x and those of the results that share its memory."""
    for view in views:
        if isinstance(view, Recorded) and belongs(x, view._level) and may_share_memory(x._layout(), view._layout()):
            view._shown = x if x._shown is None else x._shown
            view._shown._views.append(weakref.ref(view))


def holds_recorded(x: Any) -> bool:
    """Whether x is a tensor of a level of reverse mode, or stands for one."""
    while isinstance(x, Lifted):
        if isinstance(x, Recorded):
            return True
        x = x._value
    return False


def recorded(level: Recording, value: Tensor, node: Node | None = None, nr: int = 0) -> Recorded:
    """Makes the tensor of `level` that stands for `value`: output `nr` (as Tensor._nr) of `node`."""
    x: Recorded = lift(Recorded, level, value, value._array.shape)
    x._fn, x._nr = node, nr
    x._shown, x._views = None, []
    return x
