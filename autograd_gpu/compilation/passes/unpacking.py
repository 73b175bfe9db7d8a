"""unpacking: what a saved-tensor hook has packed is unpacked again for a use that lies apart from the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...backend import namespace
from ..graph import RESULT, Call, Node, Trace, Value
from .facts import Facts

UNPACKS, VIEWS = "unpacked", "packed_view"  # ops of hooks/packing_ops.py


def unpacking(trace: Trace) -> list[Node]:
    """The nodes with further ones that unpack: nothing stays unpacked while something else is unpacked and used.

    Eager code unpacks an array again unless the last use still holds it. A trace holds all arrays, so it has each array
    unpacked once, as if a network with long connections kept its activations uncompressed to the end of the backward.
    """
    written, kept = Facts(trace).written, list[Node]()
    known: dict[Value, _Unpacked] = {}  # by what a call unpacks, and by the views of that
    turn, used = 0, False
    for node in trace.nodes:
        source = known.get(node.reads[0]) if node.reads else None
        if isinstance(node, Call) and node.name == UNPACKS and node.outs[0].root not in written:
            turn, used = turn + used, False
            known[node.outs[0]] = _Unpacked(node, turn)
        elif isinstance(node, Call) and node.name == VIEWS and source is not None:
            known[node.outs[0]] = source
            source.views[node.outs[0]] = node
        for unpacked in {id(known[v]): known[v] for v in node.reads if v in known}.values():
            if unpacked.turn != turn:
                turn, used = turn + used, False
                unpacked.again(trace, kept)
                unpacked.turn = turn
            used = used or node.name != VIEWS
        node.replace(lambda v: known[v].now(v, trace, kept) if v in known else v)
        kept.append(node)
    return kept


@dataclass(eq=False)
class _Unpacked:
    """A call that unpacks, the calls that make views of its result, and what stands in their place now."""

    call: Call
    turn: int  # of the last use

    def __post_init__(self) -> None:
        self.views: dict[Value, Call] = {}
        self._now: dict[Value, Value] = {}
        self._repeated = False

    def again(self, trace: Trace, nodes: list[Node]) -> None:
        """Unpacks anew, for what reads `now` from here on."""
        self._now, self._repeated = {}, True
        array = self.call.outs[0].array
        self._add(self.call, self.call.args, namespace(array).empty(array.shape, array.dtype), trace, nodes)

    def now(self, v: Value, trace: Trace, nodes: list[Node]) -> Value:
        """What stands in the place of the result, or of a view of it."""
        if not self._repeated or v in self._now:
            return self._now.get(v, v)
        call, whole = self.views[v], self._now[self.call.outs[0]]
        array = call.op.forward(namespace(whole.array), whole.array, **call.attributes)
        return self._add(call, [whole], array, trace, nodes)

    def _add(self, call: Call, args: list[Any], array: Any, trace: Trace, nodes: list[Node]) -> Value:
        old = call.outs[0]
        made = self._now[old] = Value(f"{old.name}_again_{len(trace.values)}", RESULT, array)
        trace.values.append(made)
        nodes.append(Call([made], call.phase, call.region, call.where, call.op, list(args), call.attributes))
        return made
