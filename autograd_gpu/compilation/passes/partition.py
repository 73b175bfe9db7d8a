"""partition: what the backward outside of a call computes anew, so that the call need not hold it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...core.declare.op import OpDef
from ..graph import CONSTANT, GRAD, Call, Node, Value
from .facts import is_pure


def recomputed(forward: Sequence[Node], reads: Collection[Value], held: Collection[Value]) -> list[Node]:
    """The elementwise instructions of the forward that the backward runs again, in order.

    reads: what the backward reads. held: of that, what stays alive in any case. An instruction comes again if the
    backward reads its result, and has all that it needs; memory that is written to is left alone. No bit changes.
    """
    written = {v.root for node in forward for v in node.writes}
    again: list[Node] = []
    for node in forward:
        if not isinstance(node, Call) or not is_pure(node) or not _is_elementwise(node.op) or len(node.made()) != 1:
            continue
        (out,) = node.made()
        if out not in reads or out in held or out.root in written or out.is_view:
            continue
        if all((v in reads or v.kind == CONSTANT) and v.kind != GRAD and v.root not in written for v in node.reads):
            again.append(node)
    return again


def _is_elementwise(op: OpDef) -> bool:
    return not op.view and (str(op.batch) == "BROADCASTING" or str(op.jvp) == "ELEMENTWISE")
