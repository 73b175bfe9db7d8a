"""Tracer: makes a Trace of the notes that core/interpret/tracing.py takes while a call runs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import namespace
from ..backend.arrays.dropout_mask import Mask
from ..core.declare.op import RAW, OpDef
from ..core.graph import journals
from ..core.graph.leaf import AccumulateGrad
from ..core.graph.storage import INFERENCE_STORAGE, storage_of
from ..core.graph.tensor_base import TensorBase
from ..core.interpret.interpreters import below
from ..core.interpret.tracing import MODULE_CLASSES, Tracing
from ..core.tensor import Float8Tensor, Parameter, Tensor, wrap
from ..core.thread_state import THREAD
from ..modes import GRAD_OFF, MODES
from . import graph
from .graph import ARGUMENT, CAPTURED, CONSTANT, GRAD, RESULT, CompileError, Value
from .watching import Watch

PACKAGE = __name__.partition(".")[0]


def place_in_code() -> str:
    """File and line of the innermost frame outside of the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", PACKAGE).partition(".")[0] == PACKAGE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class GradJournal(journals.Journal):
    """Tells the tracer of each `.grad` that is set."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = weakref.ref(tracer)

    def entry(self, leaf: Any) -> None:
        """Takes down the `.grad` of a leaf at the first time."""
        super().note(leaf, False)

    def note(self, leaf: Any, adds: bool) -> None:
        self.entry(leaf)
        if (tracer := self._tracer()) is not None:
            tracer.grad_changes(leaf)


class Tracer(Tracing):
    """The interpreter of one traced call. `fullgraph`: what cannot be compiled raises."""

    def __init__(self, fullgraph: bool = False) -> None:
        self.values: dict[int, Value] = {}  # by the id of the array, which the value keeps alive
        self.nodes: list[graph.Node] = []
        self.journal = GradJournal(self)
        self.tensors: dict[int, tuple[Any, Any]] = {}
        self.places: dict[int, int] = {}  # by the id of an argument
        self.masks: dict[int, Value] = {}  # by the id of a `Mask`, which the value keeps alive
        self.refused: str | None = None
        self.fullgraph = fullgraph
        own = weakref.proxy(self)  # a cycle would keep what the call made until the collector comes
        self.dependencies = Watch(lambda cause, instead: own.refuse(cause, instead))
        self.settings: dict[int, Any] = {}
        self.phase: str | None = None
        self.tangents: list[tuple[int, Value]] = []
        self.gradients: list[tuple[Value, Value | None]] = []
        self.zeros: list[Value] = []
        self.freed = False
        self._names: dict[str, int] = {}
        self._pending: Any = None  # the leaf whose `.grad` is being set
        self._storages: dict[int, list[Any]] = {}  # by id: a storage, its version at first, the writes noted since
        self._unstored: list[weakref.ref[TensorBase]] = []

    # ---- values ------------------------------------------------------------------------------------

    def new(self, name: str, kind: str, array: Any, **more: Any) -> Value:
        """A value for an array that is met for the first time."""
        number = self._names.get(name, 0)
        self._names[name] = number + 1
        value = Value(name if number == 0 else f"{name}_{number}", kind, array, **more)
        self.values[id(array)] = value
        return value

    def argument(self, place: int, x: Tensor) -> Value:
        """Makes a leaf of the arguments a value; one that comes twice is one value."""
        self._watch(x)
        self.places.setdefault(id(x), place)
        known = self.values.get(id(x._array))
        return self.new("x", ARGUMENT, x._array, tensor=x, place=place, node=x._fn) if known is None else known

    def value(self, x: TensorBase) -> Value:
        """The value of a tensor; one that nothing noted has made comes from outside."""
        array = x._array
        if type(x) is Float8Tensor:
            self.refuse("a float8 tensor is used", "convert it outside of the function")
        known = self.values.get(id(array))
        if known is not None:
            if known.kind != RESULT and id(x) not in self.tensors:
                self.tensors[id(x)] = x, x._fn
                self._watch(x)
                self._adopt(known, x)
            return known
        self.tensors[id(x)] = x, x._fn
        self._watch(x)
        if _is_leaf(x):
            return self.new("param", CAPTURED, array, tensor=x, node=x._fn)
        owner = self._owner_of_grad(x)
        if owner is not None:
            if _has_history(x) and not MODES.bits & GRAD_OFF:
                self.refuse("a .grad that has a history is used", "detach() it")
            return self.new("grad", GRAD, array, tensor=owner)
        if _has_history(x):  # its gradient goes on outside
            return self.new("outside", CAPTURED, array, tensor=x, node=x._fn)
        return self.new("const", CONSTANT, array, tensor=x, content=array.copy("K"), node=x._fn, fixed=True)

    def _adopt(self, known: Value, x: TensorBase) -> None:
        """Makes x the tensor of a value from outside that was met by an alias first, if x gets gradients."""
        if _is_leaf(x) and known.kind in (CAPTURED, CONSTANT) and not _is_leaf(known.tensor):
            known.kind, known.content, known.tensor, known.node = CAPTURED, None, x, x._fn

    def _owner_of_grad(self, x: TensorBase) -> Any:
        """The tensor that had x as its `.grad` when it was first asked for that, or has it now."""
        for entry in self.journal.values():
            if entry.before is not None and entry.before._array is x._array:
                return entry.leaf
        for value in self.values.values():
            grad = getattr(value.tensor, "_grad", None)
            if grad is not None and grad._array is x._array:
                self.journal.entry(value.tensor)
                return value.tensor
        return None

    def _watch(self, x: TensorBase) -> None:
        """Notes the version of the memory, so that a write that nobody tells of is found at the end."""
        storage = x._storage
        if storage is None:
            self._unstored.append(weakref.ref(x))
        elif storage is not INFERENCE_STORAGE and id(storage) not in self._storages:
            new = any((t := ref()) is not None and t._storage is storage for ref in self._unstored)
            self._storages[id(storage)] = [storage, 0 if new else storage.version, 0]

    def unnoted_writes(self) -> bool:
        """Whether memory was written to beside the ops."""
        for ref in self._unstored:
            x = ref()
            storage = None if x is None else x._storage
            if storage is not None and storage is not INFERENCE_STORAGE:
                self._storages.setdefault(id(storage), [storage, 0, 0])
        return any(storage.version != version + noted for storage, version, noted in self._storages.values())

    def add(self, node: graph.Node) -> None:
        """Appends an instruction."""
        self.flush()
        node.phase = self.phase or ("forward" if THREAD.state.task is None else "backward")
        node.region, node.where = self.region, place_in_code()
        self.nodes.append(node)

    # ---- notes -------------------------------------------------------------------------------------

    def run(self, *given: Any) -> Any:
        with self.dependencies.paused():
            return super().run(*given)

    def arguments(self, args: list[Any]) -> list[Any]:
        self.flush()
        return [self.value(a) if isinstance(a, TensorBase) else a for a in args]

    def call(self, op: OpDef, args: list[Any], attributes: dict[str, Any], outs: Sequence[Any], extras: Any) -> None:
        by_value = op.sizes_by_value
        if by_value is True or (by_value and by_value(*args, **attributes)):
            self.refuse(f"the size of the result of {op.name} depends on values", "use where, or a product with a mask")
        if any(isinstance(x, TensorBase) for x in attributes.values()):
            self.refuse(f"{op.name} gets a tensor for a number", "pass a number")
        if not op.random and all(id(out._array) in self.values for out in outs):
            return  # it gave back its arguments
        attributes = {name: self.masks.get(id(x), x) for name, x in attributes.items()}
        fixed = not op.random and all(a.fixed for a in (*args, *attributes.values()) if isinstance(a, Value))
        made = [self._result(op.name, out, fixed) for out in outs]
        kept = {name: self._kept(name, x, outs[0]._array) for name, x in extras.items()}
        if any(isinstance(x, (float, np.generic)) for x in kept.values()):
            self.refuse(f"{op.name} keeps a number for its derivative", "leave the op out of the compiled function")
        self.add(graph.Call(made, op=op, args=args, attributes=attributes, extras=kept))

    def _kept(self, name: str, x: Any, out: Any) -> Any:
        """What an op keeps for its derivative: a value for a tensor, and for a mask that is no array."""
        if not isinstance(x, Mask):
            return self._result(name, x) if isinstance(x, TensorBase) else x
        mask = self.masks[id(x)] = self.new(name, RESULT, namespace(out).empty((), bool), content=x)
        return mask

    def _result(self, name: str, x: TensorBase, fixed: bool = False) -> Value:
        known = self.values.get(id(x._array))
        if known is not None:
            return known
        if x._base is not None:
            self._watch(x)
        return self.new(name, RESULT, x._array, fixed=fixed)

    def fused(self, op: str, rules: tuple[Any, Any], g: Any, need: tuple[bool, ...], *given: Any) -> Any:
        first = g if isinstance(g, TensorBase) else next(x for x in g if x is not None)
        rule = rules[0] if type(first._array) is np.ndarray else rules[1]
        if rule is None:
            return None
        asked = graph.mapped((g, need, *given), self.value, TensorBase)
        arrays = graph.mapped(asked, lambda value: value.array)
        with self.dependencies.paused(), below(self):
            grads = rule(RAW, *arrays)
        if grads is None:
            return None
        results = [None if x is None else wrap(np.asarray(x) if isinstance(x, np.generic) else x) for x in grads]
        made = [self._result(f"{op}_grad", x) for x in results if x is not None]
        gives = tuple([x is not None for x in results])
        self.add(graph.FusedRule(made, op=op, rule=rule, given=asked, gives=gives))
        return tuple(results)

    def copied(self, source: Any, copy: Any) -> None:
        known = self.values.get(id(source))
        if known is None:
            known = self.value(wrap(source))
        self.flush()
        self.add(graph.Copy([self.new("copy", RESULT, copy)], source=known))

    def wrote(self, x: TensorBase, source: TensorBase) -> None:
        known = id(storage_of(x)) in self._storages
        target, value = self.value(x), self.value(source)
        if target.kind in (CAPTURED, CONSTANT) and not _is_leaf(target.tensor):
            target.tensor, target.node = x, x._fn  # the op ran on an alias of it
        self.unfix(target)
        storage = storage_of(x)
        if storage is not INFERENCE_STORAGE:
            if not known:
                self._storages[id(storage)] = [storage, storage.version - 1, 0]
            self._storages[id(storage)][2] += 1
        self.add(graph.Write(target=target, source=value))

    def unfix(self, target: Value) -> None:
        """What shares the memory of a value that is written to is no constant any more."""
        root = target.root
        for value in self.values.values():
            if value.fixed and value.root == root:
                value.fixed = False

    def drew(self, draw: Callable[..., Any], shape: tuple[int, ...], value: TensorBase) -> None:
        self.add(graph.Draw([self.new("draw", RESULT, value._array)], draw=draw, shape=shape))

    def checked(self, test: Callable[..., None], x: TensorBase, *shown: TensorBase) -> None:
        values = [self.value(t) for t in (x, *shown)]
        self.add(graph.Check(test=test, value=values[0], shown=values[1:]))

    def routine(
        self, name: str, run: Callable[[], Any], reads: Sequence[Any], writes: Sequence[Any], owner: Any = None
    ) -> Any:
        self.flush()
        read, written = [self.value(x) for x in reads], [self.value(x) for x in writes]
        if owner is not None:
            self.notice(owner)
        before = {id(x): x._version for x in writes}
        with below(self):
            result = run()
        for x in writes:  # what it writes itself is noted
            storage = storage_of(x)
            if id(storage) in self._storages:
                self._storages[id(storage)][2] += x._version - before[id(x)]
            else:
                self._storages[id(storage)] = [storage, storage.version, 0]
        outs = [] if result is None else [self._result(name, result)]
        self.add(graph.Routine(outs, title=name, run=run, read=read, written=written, owner=owner))
        return result

    def notice(self, optimizer: Any) -> None:
        """Takes down the options of an optimizer; a call at whose end they are others is refused."""
        self.settings.setdefault(id(optimizer), (optimizer, options_of(optimizer)))

    # ---- `.grad` -----------------------------------------------------------------------------------

    def grad_changes(self, leaf: Any) -> None:
        """The `.grad` of a leaf is about to be set, or added to in place."""
        self.flush()
        self._pending = leaf, leaf._grad

    def asked_grad(self, x: TensorBase) -> None:
        self.flush()
        if self.value(x).kind != RESULT:
            self.journal.entry(x)

    def flush(self) -> None:
        """Notes the `.grad` that was set last."""
        if self._pending is None:
            return
        (leaf, before), self._pending = self._pending, None
        if leaf._grad is before:
            return
        value = None if leaf._grad is None else self.value(leaf._grad)
        self.value(leaf)
        node = graph.SetGrad(tensor=leaf, place=self.places.get(id(leaf), -1), value=value)
        node.phase = self.phase or "forward"
        self.nodes.append(node)

    # ---- refusals ----------------------------------------------------------------------------------

    def saves(self, pair: Any) -> None:
        if not all(getattr(hook, "_ag_inlineable", False) for hook in (pair.pack, pair.unpack)):
            self.refuse("saved-tensor hooks are set", "mark both with ag.compile.inlineable if they are made of "
                        "operations only, or set them outside of the function")

    def read(self, x: TensorBase) -> None:
        value = self.value(x)
        if value.fixed:
            self.add(graph.Look(value=value))
            return
        self.refuse("the values of a tensor are read", "compute with operations, or do it outside of the function")

    def relies_on(self, *modules: Any) -> None:
        for module in modules:
            reader = next((read for cls, read in MODULE_CLASSES.items() if isinstance(module, cls)), None)
            if reader is not None:  # else it is a function
                self.dependencies.module(module, reader)

    def refuse(self, cause: str, instead: str) -> None:
        if self.refused is None:
            self.refused = f"{cause} ({place_in_code()}); {instead}"
        if self.fullgraph:
            raise CompileError(f"ag.compile with fullgraph=True: {self.refused}")


def _is_leaf(x: TensorBase) -> bool:
    """Whether x is a parameter, or a leaf that requires grad."""
    return isinstance(x, Parameter) or type(x._fn) is AccumulateGrad


def _has_history(x: TensorBase) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def options_of(optimizer: Any) -> list[dict[str, Any]]:
    """The options of the groups of an optimizer, without the parameters."""
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
