"""Writes the functions of an op with a list input, `*tensors`: straight-line code except for one loop over the list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...modes import RECORDING_MASK
from ..declare.op import EACH, FLOAT, OpDef
from .node_source import readers, slot, write_node
from .source import Source, chosen_forward, write_outputs, write_refresh, write_result


def write_list_call(w: Source, op: OpDef, call_general: str, attributes: str) -> None:
    """Writes the fast path of the public function: NumPy arrays of one dtype, no mode on. Other calls use `general`.

    With types = EACH any arrays take it.
    """
    tensors = op.inputs[0]
    if op.types == EACH:
        w("mode = MODES.bits")
        w(f"if mode <= {RECORDING_MASK} and {tensors} and set(map(type, {tensors})) <= ORDINARY:")
        w.depth += 1
        _write_collect(w, op)
        w(f"try: outs = forward(None, *_arrays{attributes})")
        w(f"except (ValueError, IndexError, TypeError, OverflowError): return {call_general}")
        _write_result(w, op)
        w.depth -= 1
    elif op.types != FLOAT:
        w("mode = MODES.bits")
        w(f"if mode <= {RECORDING_MASK} and (type({tensors}) is list or type({tensors}) is tuple) and {tensors}:")
        w.depth += 1
        _write_pair(w, op)
        w("else:")
        w.depth += 1
        _write_walk(w, op, [
            "if type(_x) is Tensor or type(_x) is Parameter: _array = _x._array",
            "else: _array = None",
            "if type(_array) is not ndarray or (_arrays and _array.dtype is not _arrays[0].dtype):",
            "    _arrays = None",
            "    break",
        ])
        w.depth -= 1
        w("if _arrays:")
        w.depth += 1
        w("xp = numpy")
        direct = f"in_numpy({', '.join(['_arrays', *op.attributes])})"
        w(f"try: _out = {direct if op.in_numpy else f'forward(xp, *_arrays{attributes})'}")
        w(f"except (ValueError, IndexError, TypeError, OverflowError): return {call_general}")
        _write_result(w, op)
        w.depth -= 2
    w(f"return {call_general}")


def make_list_core(op: OpDef, given_forward: bool = False) -> Callable[..., Any]:
    """Makes the function without checks, for tensors that the general path has prepared.

    Its signature is core(tensors, *attributes), or core(forward, tensors, *attributes).
    """
    w = Source()
    w(f"def {op.name}({', '.join([*(['forward'] if given_forward else []), *op.inputs, *op.attributes])}):")
    w.depth = 1
    w(f"mode = MODES.bits & {RECORDING_MASK}")
    if op.types == EACH:
        _write_collect(w, op)
    else:
        _write_walk(w, op, ["_array = _x._array"])
    w("xp = namespace(*_arrays)")
    attributes = "".join(f", {name}={name}" for name in op.attributes)
    forward = "forward" if given_forward else chosen_forward(op)
    w(f"{'_out' if op.single else 'outs'} = {forward}(xp, *_arrays{attributes})")
    _write_result(w, op)
    return w.compile(op.name, {"forward": op.forward, "cuda": op.cuda, "reads": op.reads, "NodeClass": op.node})


def _write_pair(w: Source, op: OpDef) -> None:
    """Writes the case of two tensors, the most frequent, without a loop: two thirds of the time of `_write_walk`."""
    w(f"if len({op.inputs[0]}) == 2:")
    w.depth += 1
    w(f"_a, _b = {op.inputs[0]}")
    w("_arrays = None")
    fits = [f"(type({name}) is Tensor or type({name}) is Parameter)" for name in ("_a", "_b")]
    w(f"if {' and '.join(fits)}:")
    w.depth += 1
    w("_x, _y = _a._array, _b._array")
    w("if type(_x) is ndarray and type(_y) is ndarray and _x.dtype is _y.dtype: _arrays = [_x, _y]")
    if asks_shapes(op):
        w("_shapes = [_x.shape, _y.shape]")
    if op.has_rules:
        for name in ("_a", "_b"):
            write_refresh(w, name)
        w("_nodes = _n, _m = _a._fn, _b._fn")
        w("_live, _depth, _later = 0, -1, _a._nr | _b._nr")
        for n in ("_n", "_m"):
            w(f"if {n} is not None:")
            w("_live += 1", 1)
            w(f"if {n}.topological_nr > _depth: _depth = {n}.topological_nr", 1)
    w.depth -= 2


def asks_shapes(op: OpDef) -> bool:
    return bool(op.broadcasts) or any(kind == "shape" for kind, _ in readers(op))


def _write_walk(w: Source, op: OpDef, checks: list[str]) -> None:
    """Writes the loop over the tensors that collects their arrays, nodes and shapes."""
    w("_arrays, _shapes = [], []")
    if op.has_rules:
        w("_nodes, _live, _depth, _later = [], 0, -1, 0")
    w(f"for _x in {op.inputs[0]}:")
    w.depth += 1
    for line in checks:
        w(line)
    w("_arrays.append(_array)")
    if asks_shapes(op):
        w("_shapes.append(_array.shape)")
    if op.has_rules:
        write_refresh(w, "_x")
        w("_n = _x._fn")
        w("_nodes.append(_n)")
        w("if _n is not None:")
        w("_live += 1", 1)
        w("_later |= _x._nr", 1)
        w("if _n.topological_nr > _depth: _depth = _n.topological_nr", 1)
    w.depth -= 1


def _write_collect(w: Source, op: OpDef) -> None:
    """Writes what collects arrays and nodes of an op with types = EACH, whose calls have hundreds of tensors."""
    tensors = op.inputs[0]
    w(f"_arrays = [x._array for x in {tensors}]")
    w("if mode == 0:")
    w.depth += 1
    w(f"for _x in [x for x in {tensors} if x._base is not None]:")
    w("if _x._seen != _x._storage.version: refresh(_x)", 1)
    w(f"_nodes = [x._fn for x in {tensors}]")
    w("_live = len(_nodes) - _nodes.count(None)")
    w.depth -= 1
    w("else: _live = 0")


def write_list_facts(w: Source, op: OpDef) -> None:
    """Writes what the edges of a node need to know of its inputs."""
    w(f"_later = [x for x in {op.inputs[0]} if x._nr]")
    w("_depth = max([n.topological_nr for n in _nodes if n is not None])")
    if asks_shapes(op):
        w("_shapes = [x.shape for x in _arrays]")


def _write_result(w: Source, op: OpDef) -> None:
    """Writes the creation of the result, and of its node if this thread records."""
    tensors = op.inputs[0]
    w(f"_x = {tensors}[0]")
    if op.single:
        write_result(w, op, "_x")
    else:
        write_outputs(w, op, "_x")
    if op.has_rules:
        w("if _live and mode == 0:")
        w.depth += 1
        if op.types == EACH:
            write_list_facts(w, op)
        write_node(w, op, lambda: write_list_edges(w, op), lambda: write_list_saved(w, op))
        w.depth -= 1
    w("return t" if op.single else "return ts")


def write_list_edges(w: Source, op: OpDef) -> None:
    """Writes the edges of the node of a call with a list."""
    w("node.edges = tuple(_nodes)")
    w(f"node.nrs = tuple([x._nr for x in {op.inputs[0]}]) if _later else None")
    w("node.mask = (1 << _live) - 1 if _live == len(_nodes) else mask_of([n is not None for n in _nodes])")
    w("node.topological_nr = _depth + 1")
    if not op.broadcasts:
        w("node.shapes = None")
        return
    shapes = "[t._array.shape for t in ts] * (len(_shapes) // len(ts))"  # of the outputs, for each list of inputs
    w(f"node.shapes = None if _shapes == {shapes} else tuple(_shapes)")


def write_list_saved(w: Source, op: OpDef, inputs: str | None = None, output: str = "save_output({}, node)") -> None:
    """Writes what the node of a call with a list saves; `inputs` names the list of the tensors to save.

    output: the format of the expression for a saved output.
    """
    inputs = inputs or op.inputs[0]
    values = {
        "input": f"[save_value(x) for x in {inputs}]", "out": output.format("t"), "shape": "_shapes",
        "dtype": "[x.dtype for x in _arrays]",
    }  # fmt: skip
    if op.lists:
        values["out"] = f"[{output.format('t')} for t in ts]"
    if op.reads is not None:
        w("_need = bits_of(node.mask, len(_nodes))")
        attrs = "".join(f", {name}" for name in op.attributes)
        kept = f"zip({{}}, reads({{!r}}, _need{attrs}), strict=True)"
        if any(kind == "input" for kind, _ in readers(op)):
            _write_saved_inputs(w, kept.format(inputs, op.inputs[0]))
        values["input"] = "_saved"
        values["out"] = f"[{output.format('t')} if kept else NOTHING for t, kept in {kept.format('ts', 'out')}]"
    for kind, what in readers(op):
        w(f"node.{slot(kind, what)} = {values.get(kind, what)}")
    if op.types == EACH:  # a result is a constant if its own inputs are
        w("if None in _nodes[: len(ts)]:")
        w("for i, t in enumerate(ts):", 1)
        w("if _nodes[i :: len(ts)].count(None) * len(ts) == len(_nodes): t._fn, t._nr = None, 0", 2)


def _write_saved_inputs(w: Source, pairs: str) -> None:
    """Writes the list of what is saved of inputs, without calls; `pairs` yields tensors, and whether to save them."""
    w("_saved = []")
    w(f"for x, kept in {pairs}:")
    w("if not kept:", 1)
    w("_saved.append(NOTHING)", 2)
    w("continue", 2)
    w("s = SavedTensor()", 1)
    w("s.tensor = x if x._base is None else plain(x)", 1)
    w("s.version = 0 if x._storage is None else x._storage.version", 1)
    w("_saved.append(s)", 1)
