"""Writes the creation of a call's node: its edges, and the values that its rules read.

A node has one slot per value that a rule reads; the prefix of its name tells the kind (`slot`). A call saves an input
only if a rule that reads it belongs to an input that requires grad; the generated code tests the mask for this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..declare.op import OpDef
from .source import Source, write_refresh

PREFIX = {"input": "s", "out": "s", "attribute": "k", "shape": "h", "dtype": "d", "extra": "e"}


def write_record(w: Source, op: OpDef, kinds: tuple[str, ...], live: list[str]) -> None:
    """Writes the creation of a call's node: its edges, the values that the needed rules read, its numbers."""
    for n in live:
        if n in op.nondiff:
            write_refresh(w, n)
            write_refusal(w, op, n, f"mode == 0 and {n}._fn is not None")
    linked = [n for n in live if op.joint is not None or n in op.rules]
    if not linked:
        return
    for n in linked:
        write_refresh(w, n)
        w(f"n_{n} = {n}._fn")
    condition = " or ".join(f"n_{n} is not None" for n in linked)
    w(f"if mode == 0 and ({condition}){' and ' + _differentiable(op) if op.differentiable else ''}:")
    w.depth += 1

    write_node(w, op, lambda: write_edges(w, op, linked, live), lambda: write_saved(w, op, kinds, linked))
    w.depth -= 1


def write_refusal(w: Source, op: OpDef, name: str, condition: str) -> None:
    """Writes the error for an input in `nondiff` that requires grad; other ops, and calls without it, pay nothing."""
    w(f"if {condition}: raise no_derivative({op.name!r}, {op.parameter_names[name]!r})")


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


def write_edges(w: Source, op: OpDef, linked: list[str], live: list[str]) -> None:
    """Writes the edges of a node, and the shapes of its inputs."""
    _edges(w, op, linked)
    _shapes(w, op, live)


def _edges(w: Source, op: OpDef, linked: list[str]) -> None:
    """Writes live edges and ZERO edges, the mask of inputs that require grad, and the topological number."""
    ruled = [n for n in linked if op.rule_of(n) is not None]
    zeros = [n for n in linked if op.rule_of(n) is None]
    w(f"node.edges = ({''.join(f'n_{n}, ' if n in ruled else 'None, ' for n in op.inputs)})")
    if len(linked) == 1:  # this input requires grad, otherwise no node would be made
        w(f"node.mask = _mask = {1 << op.inputs.index(linked[0]) if ruled else 0}")
        w(f"node.topological_nr = n_{linked[0]}.topological_nr + 1")
    else:
        w("_mask, _depth = 0, -1")
        for n in linked:
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
    w("t._fn = node; t._nr = nr", 1)
    w("if len(ts) == 1: node.shape, node.dtype, t._nr = _out.shape, _out.dtype, 0")


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
    masks: dict[tuple[str, str], int] = {}
    for bit, name in enumerate(op.inputs):
        rule = op.rule_of(name)
        for _, kind, asked in op.asked(rule) if rule is not None else []:
            masks[kind, asked] = masks.get((kind, asked), 0) | 1 << bit
    return masks


def slot(kind: str, name: str) -> str:
    return f"{PREFIX[kind]}_{name}"


def write_saved(
    w: Source, op: OpDef, kinds: tuple[str, ...], linked: list[str], value: str = "{}",
    output: str = "save_output({}, node)",
) -> None:
    """Writes the saving of what the rules of this call read; for a single wanted input the mask is a constant.

    value, output: formats of the expressions for an input, from its name, and for a saved output.
    """
    only = 1 << op.inputs.index(linked[0]) if len(linked) == 1 and op.rule_of(linked[0]) is not None else 0
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
