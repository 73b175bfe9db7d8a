"""Calls that work by blocks of rows, put off until each block goes through all of them (backend/cpu/chains.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.arrays.dtypes import HALF
from .graph import Call, Group, Node

PUT_OFF = frozenset(("layer_jet", "layer_linear", "layer_terms"))


def end_of_chain(program: Any, first: int) -> int:
    """The number behind the last of the calls from `first` on that are put off together; `first` if there are no two.

    Between them other instructions run at once, in memory that these calls neither read nor write.
    """
    touched, written = set[int](), set[int]()
    end, count = first, 0
    for i, node in enumerate(program.nodes[first:], first):
        reads, made = ({program.plan.root_of(v) for v in values} for values in (node.reads, node.made()))
        if _is_put_off(node):
            end, count = i + 1, count + 1
            touched |= reads | made
            written |= made
        elif not count or reads & written or not _runs_at_once(program, i, touched):
            break
    return end if count > 1 else first


def _is_put_off(node: Node) -> bool:
    if not isinstance(node, Call) or node.op.name not in PUT_OFF:
        return False
    return all(type(v.array) is np.ndarray and v.dtype not in HALF for v in node.outs)


def _runs_at_once(program: Any, i: int, touched: set[int]) -> bool:
    """Whether instruction i writes to nothing but new memory, and memory that is not touched."""
    node, plan = program.nodes[i], program.plan
    if not isinstance(node, (Call, Group)) or any(slot.place >= 0 for slot in plan.scratch.get(i, ())):
        return False
    targets = [plan.over.get(v, v) for v in node.outs]  # in whose memory the results are put
    return all(plan.slot(v) is None and plan.root_of(v) not in touched for v in targets)
