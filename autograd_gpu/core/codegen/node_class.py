"""Generates the node class of an op: the code that creates a node at the call, and `run_raw` and `run_recorded`.

A node has one slot per value that a rule reads; the prefix of its name tells the kind (`slot`). A call saves an input
only if a rule that reads it belongs to an input that requires grad; the generated code tests the mask for this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...backend import is_array
from ..declare.op import OpDef
from ..graph.node import Node
from ..saved.saved_tensor import NOTHING, SavedTensor, SavingNode, constant, handles, saved
from .source import Source, write_refresh

PREFIX = {"input": "s", "out": "s", "attribute": "k", "shape": "h", "dtype": "d", "extra": "e"}
READABLE = ("input", "out", "extra", "attribute")  # as `_saved_NAME`


def write_record(w: Source, op: OpDef, kinds: tuple[str, ...], live: list[str]) -> None:
    """Writes the creation of a call's node: its edges, the values that the needed rules read, its numbers."""
    wanted = [n for n in live if op.joint is not None or n in op.rules]
    if not wanted:
        return
    for n in wanted:
        write_refresh(w, n)
        w(f"n_{n} = {n}._fn")
    condition = " or ".join(f"n_{n} is not None" for n in wanted)
    w(f"if mode == 0 and ({condition}){' and ' + _differentiable(op) if op.differentiable else ''}:")
    w.depth += 1

    write_node(w, op, lambda: write_edges(w, op, wanted, live), lambda: write_saved(w, op, kinds, wanted))
    w.depth -= 1


def write_node(w: Source, op: OpDef, add_edges: Callable[[], None], add_saved: Callable[[], None]) -> None:
    """Writes a node in the required order: edges, outputs, saved values, sequence number (core/graph/node.py)."""
    w("node = new(NodeClass)")
    add_edges()
    w("node.extra = None")
    if op.single:
        w("node.shape = _out.shape")
        w("node.dtype = _out.dtype")
        w("t._fn = node")
    else:
        _outputs(w, op)
    add_saved()
    w("node.sequence_nr = next_sequence_nr()")


def write_edges(w: Source, op: OpDef, wanted: list[str], live: list[str]) -> None:
    """Writes the edges of a node, and the shapes of its inputs."""
    _edges(w, op, wanted)
    _shapes(w, op, live)


def _edges(w: Source, op: OpDef, wanted: list[str]) -> None:
    """Writes live edges and ZERO edges, the mask of inputs that require grad, and the topological number."""
    ruled = [n for n in wanted if op.rule_of(n) is not None]
    zeros = [n for n in wanted if op.rule_of(n) is None]
    w(f"node.edges = ({''.join(f'n_{n}, ' if n in ruled else 'None, ' for n in op.inputs)})")
    if len(wanted) == 1:  # this input requires grad, otherwise no node would be made
        w(f"node.mask = _mask = {1 << op.inputs.index(wanted[0]) if ruled else 0}")
        w(f"node.topological_nr = n_{wanted[0]}.topological_nr + 1")
    else:
        w("_mask, _depth = 0, -1")
        for n in wanted:
            w(f"if n_{n} is not None:")
            if n in ruled:
                w(f"_mask |= {1 << op.inputs.index(n)}", 1)
            w(f"if n_{n}.topological_nr > _depth: _depth = n_{n}.topological_nr", 1)
        w("node.mask = _mask")
        w("node.topological_nr = _depth + 1")
    numbers = "".join(f"{n}._nr, " if n in ruled else "0, " for n in op.inputs)
    several = " or ".join(f"{n}._nr" for n in ruled)
    w(f"node.nrs = ({numbers}) if {several} else None" if ruled else "node.nrs = None")
    if any(rule is None for rule in op.rules.values()):  # () if that input is a number
        parts = [f"((({op.inputs.index(n)}, n_{n}, {n}._nr),) if n_{n} is not None else ())" for n in zeros]
        w(f"node.zero_edges = {' + '.join(parts) or '()'}")


def _outputs(w: Source, op: OpDef) -> None:
    """Writes several outputs: shapes and dtypes of the differentiable ones, and their `_nr`."""
    leading = leading_back(op)
    if op.outputs != ("*",):
        for what in ("shape", "dtype"):
            values = [f"t{i}._array.{what}" for i in leading]
            w(f"node.{what} = {values[0] if len(leading) == 1 else '(' + ', '.join(values) + ')'}")
        for nr, i in enumerate(leading, 1):
            w(f"t{i}._fn = node")
            if len(leading) > 1:
                w(f"t{i}._nr = {nr}")
        return
    w("node.shape = tuple([t._array.shape for t in ts])")
    w("node.dtype = tuple([t._array.dtype for t in ts])")
    w("node.outputs = len(ts)")
    w("for nr, t in enumerate(ts, 1):")
    w("t._fn = node; t._nr = nr if len(ts) > 1 else 0", 1)
    w("if len(ts) == 1: node.shape, node.dtype = _out.shape, _out.dtype")


def leading_back(op: OpDef) -> list[int]:
    """The indices of the differentiable outputs: the node and its hooks see only these."""
    return [i for i, name in enumerate(op.outputs or ()) if name not in op.nondiff_outputs]


def _differentiable(op: OpDef) -> str:
    return f"differentiable({', '.join(op.attributes)})"


def _shapes(w: Source, op: OpDef, live: list[str]) -> None:
    """Writes the shapes of broadcasting inputs, or None if all are equal to the shape of the output."""
    if not op.broadcasts or len(live) == 1 == len(op.inputs):
        w("node.shapes = None")
        return
    shapes = "".join(f"x_{n}.shape, " if n in live else "None, " for n in op.inputs)
    if len(live) == 1:
        w(f"node.shapes = None if _out.shape == x_{live[0]}.shape else ({shapes})")
        return
    equal = " and ".join(f"x_{live[0]}.shape == x_{n}.shape" for n in live[1:])
    w(f"node.shapes = None if {equal} else ({shapes})" if op.broadcasts is True else f"node.shapes = ({shapes})")


@functools.cache
def readers(op: OpDef) -> dict[tuple[str, str], int]:
    """Maps each (kind, name) that the rules read to a mask of the inputs whose rules read it."""
    found: dict[tuple[str, str], int] = {}
    for bit, name in enumerate(op.inputs):
        rule = op.rule_of(name)
        for _, kind, asked in op.asked(rule) if rule is not None else []:
            found[kind, asked] = found.get((kind, asked), 0) | 1 << bit
    return found


def slot(kind: str, name: str) -> str:
    return f"{PREFIX[kind]}_{name}"


def write_saved(
    w: Source, op: OpDef, kinds: tuple[str, ...], wanted: list[str], value: str = "{}",
    output: str = "save_output({}, node)",
) -> None:
    """Writes the saving of what the rules of this call read; for a single wanted input the mask is a constant.

    value, output: formats of the expressions for an input, from its name, and for a saved output.
    """
    only = 1 << op.inputs.index(wanted[0]) if len(wanted) == 1 and op.rule_of(wanted[0]) is not None else 0
    by_name = dict(zip(op.inputs, kinds, strict=True))
    for (kind, name), bits in readers(op).items():
        target = f"node.{slot(kind, name)}"
        if kind == "attribute":
            w(f"{target} = {name}")
        elif kind == "extra":
            w(f"{target} = extras[{name!r}]")
        elif kind in ("shape", "dtype"):
            w(f"{target} = x_{name}.{kind}" if by_name[name] == "T" else f"{target} = None")
        elif kind == "out" and name not in op.nondiff_outputs:
            which = "t" if op.single else f"ts[{(op.outputs or ()).index(name)}]"
            condition = "" if only & bits else f" if _mask & {bits} else NOTHING"
            w(f"{target} = {output.format(which)}{condition}")
        elif kind == "input" and by_name[name] != "T":
            w(f"{target} = {name}")
        else:  # an input, or a non-differentiable output
            which = value.format(name) if kind == "input" else f"ts[{(op.outputs or ()).index(name)}]"
            indent = 0 if only & bits else 1
            if indent:
                w(f"if not _mask & {bits}: {target} = NOTHING")
                w("else:")
            w(f"{target} = s = SavedTensor()", indent)
            w(f"s.tensor = {which} if {which}._base is None else plain({which})", indent)
            w(f"s.version = 0 if {which}._storage is None else {which}._storage.version", indent)


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
    body["keeps_output"] = any(kind == "out" for kind, _ in asked)
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
    names = {**{called: what for what, called in op.called.items()}, "self": op.inputs[0], "result": "out"}
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

    def found(node: OpNode) -> Any:
        node.keep_extras()
        if not node._takes_hooks(slot_name):
            raise AttributeError(f"'{node.name()}' object has no attribute '_raw_saved_{name}'")
        return handles(node, slot_name)

    return property(found)


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
    given = [(i, name, kind) for i, (name, kind) in enumerate(zip(op.inputs, kinds, strict=True))
             if (op.joint is not None or name in op.rules) and not (kind == "N" and name in op.scalars)]
    front = next((k for k, (_, _, kind) in enumerate(given) if kind == "T"), 0)
    order = [i for i, _, _ in (given if op.chooses else [*given[front:], *given[:front]])]
    return None if order == list(range(len(op.inputs))) else tuple(order)


class OpNode(SavingNode):
    """The node of a declared op.

    Properties of the class read the saved values, not __getattr__: a __getattr__ disables Python's fast path for all
    attributes of a node, and each read in the engine takes 31 ns instead of 4.
    """

    __slots__ = ()
    op: OpDef
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
        found: list[tuple[str, SavedTensor]] = []
        for name, slot_name in self.saved_slots.items():
            value = getattr(self, slot_name)
            kept = [s for s in (value if isinstance(value, list) else [value]) if isinstance(s, SavedTensor)]
            found += [(name, s) for s in kept if s.tensor is not None or hasattr(s, "packed")]
        return found

    def keep_extras(self) -> None:
        """Turns the extra arrays of forward into saved tensors, which hooks can see."""
        for slot_name in self.saved_slots.values():
            if slot_name[0] == PREFIX["extra"] and is_array(array := getattr(self, slot_name)):
                setattr(self, slot_name, saved(constant(array)))

    def __dir__(self) -> list[str]:
        """Lists one `_saved_NAME` for each saved value, and `_raw_saved_NAME` if the value accepts hooks."""
        others = [name for name in dir(type(self)) if not name.startswith(("_saved_", "_raw_saved_"))]
        op = self.op
        words = {**op.called, op.inputs[0]: "self", "out": "result"}
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


def make_run(op: OpDef, name: str) -> Any:
    """Makes run_raw, run_recorded or run_adding: unpacks what is needed, calls the rules, frees the buffers."""
    w = Source()
    recorded = name == "run_recorded"
    w(f"def {name}(self, g, need, release{', into' if name == 'run_adding' else ''}):")
    w.depth = 1
    if op.outputs == ("*",):
        w("if self.outputs == 1: g = (g,)  # a list of one is stored bare")
    elif op.nondiff_outputs:
        w(f"g = {_for_all_outputs(op)}")
    released, scalars = [], []
    for (kind, what), bits in readers(op).items():
        if kind in ("input", "out"):
            w(f"{what} = None")
        _load(w, op, kind, what, bits, recorded)
        if kind == "input" and what in op.scalars:
            scalars.append(f"self.{slot(kind, what)}")
        elif kind in ("input", "out", "extra"):
            released.append(f"self.{slot(kind, what)}")
    scope: dict[str, Any] = {}
    if op.joint is not None:
        _call_joint(w, op, recorded, scope)
    else:
        _call_rules(w, op, name, scope)
    if released or scalars:
        w("if release:")
        if released:
            w(f"{' = '.join(released)} = FREED", 1)
        for kept in scalars:
            w(f"if isinstance({kept}, SavedTensor): {kept} = FREED", 1)
    w("return grads")
    return w.compile(name, scope)


def _for_all_outputs(op: OpDef) -> str:
    """The gradients that rules get, as text, from those that the node gets: None for non-differentiable outputs."""
    leading = leading_back(op)
    given = {i: "g" if len(leading) == 1 else f"g[{k}]" for k, i in enumerate(leading)}
    return f"({''.join(given.get(i, 'None') + ', ' for i in range(len(op.outputs or ())))})"


def _local(kind: str, what: str) -> str:
    return f"{what}_{kind}" if kind in ("shape", "dtype") else what


def _load(w: Source, op: OpDef, kind: str, what: str, bits: int, recorded: bool) -> None:
    source = f"self.{slot(kind, what)}"
    local = _local(kind, what)
    if kind == "extra":
        w(f"{local} = {source}")
        w(f"if isinstance({local}, SavedTensor): {local} = {local}.unpack(self)._array  # freed, or behind a hook")
        if recorded:
            w(f"if is_array({local}): {local} = wrap({local})")
    elif kind not in ("input", "out"):
        w(f"{local} = {source}")
    elif op.variadic and kind == "input":
        w(f"s = {source}")
        w("if s is FREED: s.unpack(self)")
        w(f"{local} = [k.unpack(self) for k in s]" if recorded else f"{local} = [k.unpack(self)._array for k in s]")
    else:
        w(f"if need & {bits}:" if not op.variadic else "if need:")
        w.depth += 1
        w(f"s = {source}")
        if kind == "input" and (op.numbers or what in op.optional):
            w(f"if type(s) is not SavedTensor: {local} = s")
            w("else:")
            w.depth += 1
            _unpack(w, local, recorded)
            w.depth -= 1
        else:
            _unpack(w, local, recorded)
        w.depth -= 1


def _unpack(w: Source, local: str, recorded: bool) -> None:
    if recorded:
        w(f"{local} = s.unpack(self)")
        return
    w(f"{local} = s.tensor")
    w(f"if {local} is None or {local}._storage is not None and {local}._storage.version != s.version:")
    w(f"{local} = s.unpack(self)  # raises, or a hook answers", 1)
    w(f"{local} = {local}._array")


def _arguments(op: OpDef, rule: Any) -> str:
    return "".join(f", {_local(kind, what)}" for _, kind, what in op.asked(rule))


def _call_rules(w: Source, op: OpDef, run: str, scope: dict[str, Any]) -> None:
    space = "RECORD" if run == "run_recorded" else "RAW"
    parts = []
    for bit, name in enumerate(op.inputs):
        rule = op.rules.get(name)
        if rule is None:
            parts.append("None")
            continue
        scope[f"grad_{name}"] = rule
        call = f"grad_{name}({space}, g{_arguments(op, rule)})"
        adder = op.adders.get(name) if run == "run_adding" else None
        if adder is not None:
            scope[f"add_{name}"] = adder
            call = f"add_{name}({space}, into[{bit}], g{_arguments(op, adder)}) if {bit} in into else {call}"
        parts.append(f"({call}) if need & {1 << bit} else None")
    if run == "run_raw":
        _call_fused(w, op, scope)
    w(f"grads = ({', '.join(parts)},)")
    w.depth = 1


def _call_joint(w: Source, op: OpDef, recorded: bool, scope: dict[str, Any]) -> None:
    scope["joint"] = op.joint
    if not recorded:
        _call_fused(w, op, scope)
    w(f"grads = joint({'RECORD' if recorded else 'RAW'}, g, {_needs(op)}{_arguments(op, op.joint)})")
    w.depth = 1


def _call_fused(w: Source, op: OpDef, scope: dict[str, Any]) -> None:
    """Calls the fused rule, if there is one; what follows runs if it returns None."""
    if op.fused is not None:
        scope["fused"] = op.fused
        w(f"grads = fused(RAW, g, {_needs(op)}{_arguments(op, op.fused)})")
        w("if grads is None:")
        w.depth += 1


def _needs(op: OpDef) -> str:
    """The `need` that a joint or fused rule gets, as text."""
    if op.variadic:
        return "bits_of(need, len(self.edges))"
    return f"({''.join(f'need & {1 << bit} != 0, ' for bit in range(len(op.inputs)))})"
