"""Reverse mode above another transform: a graph of its own, whose nodes hold tensors of what lies below.

Above nothing but arrays, reverse mode is the plain graph. Inside of vmap or forward mode a level of reverse mode must
see its own operations only, so it records them itself, with the same node classes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...backend import may_share_memory
from ...backend.arrays.dtypes import FLOATS
from ...modes import GRAD_OFF, MODES
from ..codegen.level_record import make_level_record
from ..declare.op import RECORD, OpDef
from ..graph.leaf import AccumulateGrad
from ..graph.node import Node
from ..graph.storage import INFERENCE_STORAGE, NO_GRAD, ONE_OF_SEVERAL
from ..history.rebase import AsStridedBackward0, BaseHistory, CopySlices, Edge, check_inplace, inplace_error, leaf_error
from ..tensor import Tensor, alias
from .implementation import kinds_of
from .interpreters import Interpreter, Result, ended, lower
from .level_tensor import LevelTensor, Outline, belongs, lift


class Recorded(LevelTensor):
    """A tensor of a level of reverse mode: `_fn` is a node of the level's graph, or None for a constant."""

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
        value = alias(self._value)
        return recorded(self._level, value) if self._level in MODES.stack else value

    def check_writable(self, name: str, others: Iterable[Any]) -> None:
        """RuntimeError if a write of values that depend on `others` to this tensor cannot be recorded."""
        check_inplace(name, self)
        base = self._shown
        if base is None:
            return
        if self._made and any(isinstance(x, Tensor) and x.requires_grad for x in (base, *others)):
            raise inplace_error(self, "is being")
        if type(base._fn) is AccumulateGrad:
            raise leaf_error(name, "a view of a leaf Variable")

    def relink(self, edge: Edge) -> None:
        """Makes `edge` the history of this tensor, after a write; its base and all views of that get a new one, too."""
        base = self if self._shown is None else self._shown
        if base is not self and (edge[0] is not None or base._fn is not None):
            edge = CopySlices(base, self._layout(), edge), 0
        base._fn, base._nr = edge
        views = [(ref, view) for ref in base._views if (view := ref()) is not None]
        base._views = [ref for ref, _ in views]
        history = BaseHistory(base)
        for _, view in views:
            view._fn, view._nr = None if edge[0] is None else AsStridedBackward0(history, view._layout()), 0

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
            outs, extras = lower(op, args, attributes)
            return self.adopt(op, args, outs), extras
        values = [x._value if flag else x for x, flag in zip(args, mine, strict=True)]
        outs, extras = lower(op, values, attributes)
        if recording and op.has_rules:
            values = list(map(savable, values))
            operands = (args, values) if op.variadic else (*args, *values)
            made = record_of(op, args)(self, outs, extras, *operands, *attributes.values())
            outs = outs if made is None else made
        outs = self.adopt(op, args, outs)
        if op.view:
            _note_views(args[0], (outs,) if op.single else outs, not recording)
        return outs, extras

    def adopt(self, op: OpDef, args: Sequence[Any], outs: Any) -> Any:
        """The results of a call as tensors of this level, so that what it computes can be written into them.

        Constants of other dtypes, and views of tensors from outside, stay what they are.
        """
        if op.single:
            return outs if type(outs) is Recorded and outs._level is self else self._adopted(op, args, outs)
        adopted = [self._adopted(op, args, out) for out in outs]
        return tuple(adopted) if type(outs) is tuple else type(outs)._make(adopted)

    def _adopted(self, op: OpDef, args: Sequence[Any], out: Any) -> Any:
        if belongs(out, self) or not isinstance(out, Tensor) or out._array.dtype not in FLOATS:
            return out
        outside = op.view and not belongs(args[0], self) and may_share_memory(args[0]._layout(), out._layout())
        return out if outside else recorded(self, out)

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


def outlived(x: LevelTensor) -> Tensor:
    """What x, whose level is not on the stack, is now: a constant that a level of reverse mode made stays one."""
    value: Tensor = x
    while type(value) is Recorded and value._fn is None and not value._level.alive:
        value = value._value
    if isinstance(value, LevelTensor) and value._level not in MODES.stack:
        ended(value._level)
    return value


def savable(x: Any) -> Any:
    """x, or a copy of a tensor from inference mode, whose writes nobody would notice."""
    return RECORD.clone(x) if isinstance(x, Tensor) and x._storage is INFERENCE_STORAGE else x


def record_of(op: OpDef, args: Sequence[Any]) -> Callable[..., Any]:
    """The function that records calls of the op with arguments of these types (core/codegen/level_record.py)."""
    types = ("*",) if op.variadic else tuple(map(type, args))
    record = op.level_records.get(types)
    if record is None:
        kinds = ("*",) if op.variadic else kinds_of(args)
        record = op.level_records[types] = make_level_record(op, kinds, Recorded, recorded)
    return record


def _note_views(x: Any, views: Sequence[Tensor], hidden: bool) -> None:
    """Links x and those of the results that share its memory; `hidden`: they were made in a no_grad block."""
    for view in views:
        if isinstance(view, Recorded) and belongs(x, view._level) and may_share_memory(x._layout(), view._layout()):
            view._made = NO_GRAD if hidden else ONE_OF_SEVERAL if len(views) > 1 else 0
            view._shown = x if x._shown is None else x._shown
            view._shown._views.append(weakref.ref(view))


def holds_recorded(x: Any) -> bool:
    """Whether x is a tensor of a level of reverse mode, or stands for one."""
    while isinstance(x, LevelTensor):
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
