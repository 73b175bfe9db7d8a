"""Makes the node class of an op, with a slot per value that a rule reads."""

from __future__ import annotations

import functools
from typing import Any

from ...backend import is_array
from ..declare.op import OpDef
from ..graph.node import Node
from ..saved.saved_tensor import NOTHING, SavedOutput, SavedTensor, SavingNode, constant, handles, save_value
from .node_run import make_run
from .node_source import PREFIX, leading_back, readers, slot

READABLE = ("input", "out", "extra", "attribute")  # as `_saved_NAME`


def make_node_class(op: OpDef) -> type[OpNode]:
    """Makes the node class of an op, such as MulBackward0."""
    name = "".join(part.capitalize() for part in op.name.split("_")) + "Backward0"
    asked = readers(op)
    slots = {slot(kind, what) for kind, what in asked}
    if any(rule is None for rule in op.rules.values()):
        slots.add("zero_edges")
    body: dict[str, Any] = {"op": op, "input_names": op.inputs, "__module__": OpNode.__module__}
    if op.outputs == ("*",):
        slots.add("outputs")
    elif op.outputs is not None:
        body["outputs"] = len(leading_back(op))
    body["__slots__"] = tuple(sorted(slots))
    body["output_slots"] = tuple([slot(kind, what) for kind, what in asked if kind == "out"])
    body["keeps_output"] = bool(body["output_slots"])
    body["shows_memory"] = bool(op.view)
    body["adds"] = tuple([i for i, name in enumerate(op.inputs) if name in op.adders])
    body["shown"] = _shown(op, ("T",) * len(op.inputs))
    saved_slots = body["saved_slots"] = {what: slot(kind, what) for kind, what in asked if kind in READABLE}
    for called, slot_name in _readable(op, saved_slots).items():
        body[f"_saved_{called}"] = _saved_value(slot_name)
        body[f"_raw_saved_{called}"] = _saved_handles(slot_name, called)
    return type(name, (OpNode,), body)


def _readable(op: OpDef, saved_slots: dict[str, str]) -> dict[str, str]:
    """Maps NAME of `_saved_NAME` to a slot: PyTorch's self and result, the parameter names, the names in rules."""
    names = {**{called: what for what, called in op.parameter_names.items()}, "self": op.inputs[0], "result": "out"}
    return {**{name: saved_slots[what] for name, what in names.items() if what in saved_slots}, **saved_slots}


@functools.cache
def _saved_value(slot_name: str) -> property:
    """Makes the property `_saved_NAME`: the unpacked value, or a tuple of them for a list."""

    def value(node: OpNode) -> Any:
        node.keep_extras()
        kept = getattr(node, slot_name)
        return tuple(map(node._unpacked, kept)) if isinstance(kept, list) else node._unpacked(kept)

    return property(value)


@functools.cache
def _saved_handles(slot_name: str, name: str) -> property:
    """Makes the property `_raw_saved_NAME`: the handle of a saved tensor, or a tuple of them for a list."""

    def saved_value(node: OpNode) -> Any:
        node.keep_extras()
        if not node._takes_hooks(slot_name):
            raise AttributeError(f"'{node.name()}' object has no attribute '_raw_saved_{name}'")
        return handles(node, slot_name)

    return property(saved_value)


OpDef.make_node_class = staticmethod(make_node_class)


def node_class(op: OpDef, kinds: tuple[str, ...]) -> type[Node]:
    """The node class for calls with these argument kinds: the op's, or a subclass of it with other `shown` inputs."""
    shown = _shown(op, kinds)
    if not op.has_rules or shown == op.node.shown:
        return op.node
    name = op.node.__name__
    return type(name, (op.node,), {"__slots__": (), "__module__": OpNode.__module__, "shown": shown})


def _shown(op: OpDef, kinds: tuple[str, ...]) -> tuple[int, ...] | None:
    """Node.shown: the inputs with a derivative, without numbers in `scalars`; leading numbers move to the end."""
    if op.variadic:
        return None
    inputs = [(i, name, kind) for i, (name, kind) in enumerate(zip(op.inputs, kinds, strict=True))
             if (op.joint is not None or name in op.rules) and not (kind == "N" and name in op.scalars)]
    front = next((k for k, (_, _, kind) in enumerate(inputs) if kind == "T"), 0)
    order = [i for i, _, _ in (inputs if op.selects_only else [*inputs[front:], *inputs[:front]])]
    return None if order == list(range(len(op.inputs))) else tuple(order)


class OpNode(SavingNode):
    """The node of a declared op.

    Properties of the class read the saved values, not __getattr__: a __getattr__ disables Python's fast path for all
    attributes of a node, and each read in the engine takes 31 ns instead of 4.
    """

    __slots__ = ()
    op: OpDef
    output_slots: tuple[str, ...]  # those of saved_slots that hold outputs
    saved_slots: dict[str, str]

    def rules(self, need: int) -> list[str]:
        names = self.input_names * len(self.edges) if self.op.variadic else self.input_names
        return [f"{self.op.name}.grad_{name}" for i, name in enumerate(names) if need >> i & 1]

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        """Generates run_raw at the first run of an op's node and stores it on the class: this keeps imports fast."""
        cls: Any = self.op.node
        cls.run_raw = make_run(self.op, "run_raw")
        return cls.run_raw(self, g, need, release)

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        """Generates run_recorded in the same way."""
        cls: Any = self.op.node
        cls.run_recorded = make_run(self.op, "run_recorded")
        return cls.run_recorded(self, g, need, release)

    def run_adding(self, g: Any, need: int, release: bool, into: dict[int, Any]) -> tuple[Any, ...]:
        """Generates run_adding, which calls add_<input> instead of grad_<input> for the inputs in `into`."""
        cls: Any = self.op.node
        cls.run_adding = make_run(self.op, "run_adding")
        return cls.run_adding(self, g, need, release, into)

    def op_name(self) -> str:
        return self.op.name

    def saved_by_name(self) -> list[tuple[str, SavedTensor]]:
        """The tensors that this node saves: inputs, outputs, and after `keep_extras` also the extras of forward."""
        pairs: list[tuple[str, SavedTensor]] = []
        for name, slot_name in self.saved_slots.items():
            value = getattr(self, slot_name)
            kept = [s for s in (value if isinstance(value, list) else [value]) if isinstance(s, SavedTensor)]
            pairs += [(name, s) for s in kept if s.tensor is not None or hasattr(s, "packed")]
        return pairs

    def saved_outputs(self) -> list[SavedOutput]:
        outputs: list[SavedOutput] = []
        for slot_name in self.output_slots:
            value = getattr(self, slot_name)
            if isinstance(value, SavedOutput):
                outputs.append(value)
            elif isinstance(value, list):
                outputs += [s for s in value if isinstance(s, SavedOutput)]
        return outputs

    def keep_extras(self) -> None:
        """Turns the extra arrays of forward into saved tensors, which hooks can see."""
        for slot_name in self.saved_slots.values():
            if slot_name[0] == PREFIX["extra"] and is_array(array := getattr(self, slot_name)):
                setattr(self, slot_name, save_value(constant(array)))

    def __dir__(self) -> list[str]:
        """Lists one `_saved_NAME` for each saved value, and `_raw_saved_NAME` if the value accepts hooks."""
        others = [name for name in dir(type(self)) if not name.startswith(("_saved_", "_raw_saved_"))]
        op = self.op
        words = {**op.parameter_names, op.inputs[0]: "self", "out": "result"}
        named = {f"_saved_{words.get(what, what)}": where for what, where in self.saved_slots.items()}
        return [*others, *named, *(f"_raw{name}" for name, where in named.items() if self._takes_hooks(where))]

    def _takes_hooks(self, slot_name: str) -> bool:
        """Whether a slot holds tensors and not a number; `keep_extras` may not have run."""
        kept = getattr(self, slot_name)
        if slot_name[0] == PREFIX["attribute"]:
            return isinstance(kept, SavedTensor)
        return kept is None or isinstance(kept, (SavedTensor, list)) or is_array(kept)

    def _unpacked(self, kept: Any) -> Any:
        """Unpacks a saved value: None if no needed rule reads it; numbers are unchanged."""
        return None if kept is NOTHING else kept.unpack(self) if isinstance(kept, SavedTensor) else kept
