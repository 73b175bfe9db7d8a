"""Which rules of a node run, and why the others do not."""

from __future__ import annotations

from typing import Any

from ..core.codegen.node_class import OpNode
from ..core.graph.node import Node

UNNEEDED = "nothing that this call asks for lies behind it"
NO_GRADIENT = "no gradient arrived: the rules above it gave none"
CONSTANT = "the input requires no gradient"
NOT_ASKED = "this call asks for no gradient behind the input"
ZERO = "the derivative is zero everywhere"
PRODUCTS = {"matmul", "mm", "bmm", "dot", "gemm", "linear"}

Skipped = list[tuple[str, dict[str, Any]]]
_KNOWN: dict[Any, tuple[dict[str, Any], Skipped]] = {}
_MOST = 10_000  # entries of _KNOWN, which are as many as there are kinds of nodes in the programs


def rules_of(node: Node, need: int) -> tuple[dict[str, Any], Skipped]:
    """{"rules": those that a run with `need` calls}, and those that it skips, with reasons."""
    zeros = node.zero_edges
    key = (type(node), len(node.edges), node.mask, need, tuple([i for i, _, _ in zeros]) if zeros else ())
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        known = _KNOWN[key] = {"rules": node.rules(need)}, _skipped(node, need, {i for i, _, _ in zeros})
    return known


def _skipped(node: Node, need: int, zeros: set[int]) -> Skipped:
    skipped: Skipped = []
    for i in range(len(node.edges)):
        if need >> i & 1 or not _has_rule(node, i, zeros):
            continue
        reason = ZERO if i in zeros else NOT_ASKED if node.mask >> i & 1 else CONSTANT
        facts: dict[str, Any] = {"reason": reason}
        if _multiplies(node, i):
            facts["product"] = True
        skipped.append((node.rules(1 << i)[0], facts))
    return skipped


def _has_rule(node: Node, i: int, zeros: set[int]) -> bool:
    if i in zeros:
        return True
    if not isinstance(node, OpNode):
        return bool(node.mask >> i & 1)
    return node.op.rule_of(_input(node, i)) is not None


def _multiplies(node: Node, i: int) -> bool:
    """Whether the rule of input `i` is a matrix product, or calls one."""
    rule = node.op.rule_of(_input(node, i)) if isinstance(node, OpNode) else None
    code = getattr(rule, "__code__", None)
    return code is not None and not PRODUCTS.isdisjoint(code.co_names)


def _input(node: OpNode, i: int) -> str:
    return node.op.inputs[0] if node.op.variadic else node.op.inputs[i]
