"""algebra: drops copies and products by one, which change no bit."""

from __future__ import annotations

from ..graph import CONSTANT, RESULT, Call, Copy, Node, Trace, Value
from .facts import Facts, aged, substitute

CLONES = frozenset(("clone", "contiguous_copy"))


def algebra(trace: Trace) -> list[Node]:
    """The nodes without copies of what nobody else sees, and without products by one."""
    facts, kept = Facts(trace), []
    to: dict[Value, Value] = {}
    for node in trace.nodes:
        node.replace(lambda v: to.get(v, v))
        source = _same_as(node, facts)
        if source is None:
            kept.append(node)
            continue
        made = node.outs[0]
        to[made] = source
        count = facts.escaping.pop(made.root, 0)
        facts.escaping[source.root] += count
    return _without_copies(trace, substitute(trace, kept, to))


def _same_as(node: Node, facts: Facts) -> Value | None:
    """The argument that has the values of the result of `node`, and may take its place."""
    if not isinstance(node, Call) or len(node.outs) != 1 or node.outs[0].kind != RESULT:
        return None
    made, args = node.outs[0], node.args
    if node.op.name in CLONES:
        source = args[0]
    elif node.op.name == "mul" and len(node.reads) == 2:
        one = next((i for i, v in enumerate(args) if _is_one(v)), -1)
        source = None if one < 0 or args[one].root in facts.written else args[1 - one]
    else:
        source = None
    if not isinstance(source, Value) or not facts.is_private(source) or made.root in facts.written:
        return None
    alike = source.shape == made.shape and source.dtype == made.dtype and source.array.strides == made.array.strides
    if not alike:
        return None
    if facts.escaping[made.root]:  # the source is shown in its place, which must not be a part of other memory
        return source if (source.is_whole or not source.is_view) and source.root not in facts.saved else None
    return source


def _is_one(v: Value) -> bool:
    return v.kind == CONSTANT and bool(v.content.size) and bool((v.content == 1).all())


def _without_copies(trace: Trace, nodes: list[Node]) -> list[Node]:
    """The nodes without copies of what is written to, where they are read before the write only."""
    born: dict[Value, int] = {}
    late: set[Value] = set()
    copies: dict[Value, Value] = {}
    shown = {v.root for v in [o.value for o in trace.outputs if o.value is not None]}
    for node, ages in aged(nodes):
        for v in node.reads:
            if v in copies and (ages.get(copies[v].root, 0) != born[v] or any(
                out.root == v.root for out in node.made()
            ) or v in node.writes):  # fmt: skip
                late.add(v)
        if isinstance(node, Copy):
            made = node.outs[0]
            born[made], copies[made] = ages.get(node.source.root, 0), node.source
            if made.root in shown or node.source.array.strides != made.array.strides:
                late.add(made)
    to = {made: source for made, source in copies.items() if made not in late}
    return substitute(trace, [n for n in nodes if not (isinstance(n, Copy) and n.outs[0] in to)], to)
