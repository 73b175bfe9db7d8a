"""What passes ask about the memory of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.interpret.sized import Formula, Polynomial
from ..graph import OUTSIDE, RESULT, Call, Node, SetGrad, Trace, Value


class Facts:
    """Facts about a trace.

    written     the roots of memory that an instruction writes to: passes leave what lies there as it is
    outside     the roots of what the call has not made itself
    escaping    the roots of results and of `.grad`s, to which the caller may write later
    """

    def __init__(self, trace: Trace) -> None:
        nodes = trace.nodes
        self.written = {v.root for node in nodes for v in node.writes}
        self.outside = {v.root for v in trace.values if v.kind != RESULT}
        shown = [o.value for o in trace.outputs if o.value is not None]
        shown += [n.value for n in nodes if isinstance(n, SetGrad) and not n.inside and n.value is not None]
        shown += [g for _, g in trace.gradients if g is not None]
        self.escaping = Counter(v.root for v in shown)
        self.saved = {v.root for n in nodes if n.phase == OUTSIDE for v in n.reads}

    def is_private(self, v: Value) -> bool:
        """Whether the call has made the memory of v, writes it once, and shows it to nobody."""
        root = v.root
        return v.kind == RESULT and root not in self.written and root not in self.outside and not self.escaping[root]


def aged(nodes: Sequence[Node]) -> Iterator[tuple[Node, dict[int, int]]]:
    """Each node with the number of writes to each root of memory before it."""
    ages: dict[int, int] = {}
    for node in nodes:
        yield node, ages
        for v in node.writes:
            ages[v.root] = ages.get(v.root, 0) + 1


def substitute(trace: Trace, nodes: Sequence[Node], to: dict[Value, Value]) -> list[Node]:
    """Replaces values in nodes, results and gradients; returns the nodes."""

    def of(v: Any) -> Any:
        while v in to:
            v = to[v]
        return v

    if to:
        for node in nodes:
            node.replace(of)
        for output in trace.outputs:
            output.value = None if output.value is None else of(output.value)
        trace.gradients = [(leaf, None if g is None else of(g)) for leaf, g in trace.gradients]
    return list(nodes)


def is_pure(node: Node) -> bool:
    """Whether a node is a call of an op whose result depends on its arguments only."""
    return isinstance(node, Call) and not node.op.random


def is_sized(x: Any) -> bool:
    """Whether something depends on sizes: a formula, a structure with one, or a call that gets or makes such things."""
    if isinstance(x, (Polynomial, Formula)):
        return True
    if isinstance(x, Call):
        return any(v.layout is not None for v in x.made()) or is_sized(x.args) or is_sized(x.attributes)
    if isinstance(x, slice):
        return is_sized((x.start, x.stop, x.step))
    parts = x.values() if type(x) is dict else x if isinstance(x, (tuple, list)) else ()
    return any(map(is_sized, parts))


def last_uses(nodes: Sequence[Node], returns: Sequence[Value]) -> dict[int, list[Value]]:
    """By number of the instruction: the results that it makes or reads last, but for those that are returned."""
    last: dict[Value, int] = {}
    for i, node in enumerate(nodes):
        last.update(dict.fromkeys([v for v in (*node.reads, *node.made()) if v.kind == RESULT], i))
    for v in returns:
        last.pop(v, None)
    at: dict[int, list[Value]] = {}
    for v, i in last.items():
        at.setdefault(i, []).append(v)
    return at
