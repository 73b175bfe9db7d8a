"""Generates the function that records a call at a level of reverse mode above other interpreters.

The call itself has run below the level. The function makes the results tensors of the level, with a node of the op's
class that saves tensors of what lies below; the engine runs its generated `run_recorded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..declare.op import OpDef
from .list_call import write_list_edges, write_list_facts, write_list_saved
from .node_class import node_class
from .node_source import leading_back, write_edges, write_node, write_refusal, write_saved
from .source import Source


def make_level_record(op: OpDef, kinds: tuple[str, ...], level_type: type, lift: Callable[..., Any]) -> Any:
    """Makes record(level, outs, extras, *inputs, *values, *attributes) for one combination of argument kinds.

    It returns the results as tensors of the level, or None if no input with a rule is in its graph. `inputs` are the
    arguments of the call, `values` what they are below the level; a list input is one argument. level_type: the type of
    the level's tensors; lift(level, value) makes one.
    """
    w = Source()
    values = [f"v_{name}" for name in op.inputs]
    w(f"def {op.name}(level, outs, extras, {', '.join([*op.inputs, *values, *op.attributes])}):")
    w.depth = 1
    if op.differentiable:
        w(f"if not differentiable({', '.join(op.attributes)}): return None")
    if op.variadic:
        _write_list(w, op)
    else:
        _write_inputs(w, op, kinds)
    w(f"return {'t' if op.single else 'ts' if op.result is None else 'new_tuple(RESULT, ts)'}")
    return w.compile(op.name, {
        "NodeClass": node_class(op, kinds), "differentiable": op.differentiable, "RESULT": op.result, "reads": op.reads,
        "LevelTensor": level_type, "lift": lift,
    })  # fmt: skip


def _write_inputs(w: Source, op: OpDef, kinds: tuple[str, ...]) -> None:
    live = [name for name, kind in zip(op.inputs, kinds, strict=True) if kind == "T"]
    linked = [name for name in live if op.joint is not None or name in op.rules]
    for n in live:
        if n in op.nondiff:
            write_refusal(w, op, n, f"type({n}) is LevelTensor and {n}._level is level and {n}._fn is not None")
    for n in linked:
        w(f"n_{n} = {n}._fn if type({n}) is LevelTensor and {n}._level is level else None")
    missing = " and ".join(f"n_{n} is None" for n in linked)
    w(f"if {missing or 'True'}: return None")
    for n in live:
        w(f"x_{n} = {n}._array")
    _write_outputs(w, op)
    write_node(
        w, op, lambda: write_edges(w, op, linked, live),
        lambda: write_saved(w, op, kinds, linked, value="v_{}", output="save_value({}._value)"),
    )  # fmt: skip


def _write_list(w: Source, op: OpDef) -> None:
    tensors = op.inputs[0]
    w(f"_nodes = [x._fn if type(x) is LevelTensor and x._level is level else None for x in {tensors}]")
    w("_live = len(_nodes) - _nodes.count(None)")
    w("if not _live: return None")
    w(f"_arrays = [x._array for x in {tensors}]")
    write_list_facts(w, op)
    _write_outputs(w, op)
    write_node(
        w, op, lambda: write_list_edges(w, op), lambda: write_list_saved(w, op, f"v_{tensors}", "save_value({}._value)")
    )


def _write_outputs(w: Source, op: OpDef) -> None:
    """Writes the results as tensors of the level; those without a derivative stay what they are."""
    if op.single:
        w("_out = outs._array")
        w("t = lift(level, outs)")
    elif op.outputs == ("*",):
        w("_out = outs[0]._array")
        w("ts = tuple([lift(level, out) for out in outs])")
    else:
        leading, count = leading_back(op), len(op.outputs or ())
        for i in range(count):
            w(f"t{i} = lift(level, outs[{i}])" if i in leading else f"t{i} = outs[{i}]")
        w(f"ts = ({''.join(f't{i}, ' for i in range(count))})")
