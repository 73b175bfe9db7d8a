"""constants: results of constants are constants, and arrays of one number that an option says."""

from __future__ import annotations

from ..graph import CONSTANT, RESULT, Call, Node, Trace
from .facts import Facts, is_pure, is_sized

HELD = 1 << 20  # bytes: larger arrays of one number are made at each call


def constants(trace: Trace) -> list[Node]:
    """The nodes without calls whose arguments are constants; what they gave in the trace are constants, too."""
    facts, kept = Facts(trace), []
    for node in trace.nodes:
        if isinstance(node, Call) and is_pure(node) and not is_sized(node) and (_is_filled(node) or all(
            v.kind == CONSTANT and v.root not in facts.written for v in node.reads
        )) and not any(v.root in facts.written or (node.op.view and facts.escaping[v.root]) for v in node.made()):
            for v in node.made():
                if v.kind == RESULT:
                    v.kind, v.content = CONSTANT, v.array
        else:
            kept.append(node)
    return kept


def _is_filled(node: Call) -> bool:
    """Whether a call reads nothing but the shape of its argument."""
    return node.op.name == "constant_like" and node.outs[0].array.nbytes <= HELD
