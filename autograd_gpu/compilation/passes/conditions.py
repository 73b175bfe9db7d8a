"""Conditions: a comparison that only chooses becomes a part of the choice, since groups have no arrays of bools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...backend.formulas.expression import Expression, equal, make, select
from ..graph import Call, Node, Value

COMPARISONS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "eq"}
JUNCTIONS = {"logical_and": "and", "logical_or": "or", "bitwise_and": "and", "bitwise_or": "or"}
NEGATIONS = ("logical_not", "bitwise_not")
MOST = 8  # comparisons of a condition, which each of its choices repeats
Tree = tuple[Any, ...]  # (op, *arguments), which are trees, or the places of operands


class Conditions:
    """The conditions that nodes compute, as far as nobody writes to what they compare."""

    def __init__(self, nodes: Sequence[Node], written: set[int]) -> None:
        names = {*COMPARISONS, *JUNCTIONS, *NEGATIONS}
        self.made = {n.outs[0]: n for n in nodes if isinstance(n, Call) and n.op.name in names
                     and written.isdisjoint(v.root for v in (*n.reads, *n.outs))}  # fmt: skip

    def choice(self, node: Node) -> tuple[Callable[..., Expression], list[Any], dict[str, Any]] | None:
        """The formula and the operands of a choice by a condition that is computed from floats; None for others."""
        if not isinstance(node, Call) or node.op.name not in ("where", "masked_fill"):
            return None
        if node.op.name == "where":
            condition, yes, no = node.args
        else:
            no, condition, yes = node.args
        operands: list[Any] = []
        tree = self._tree(condition, operands)
        if tree is None or len(operands) > 2 * MOST:
            return None
        return lambda *args: select(_built(tree, args), *args[-2:]), [*operands, yes, no], {}

    def without_unread(self, nodes: Sequence[Node], parts: dict[Node, Any], returns: Sequence[Value]) -> list[Node]:
        """The nodes without the conditions of choices that nothing else reads."""
        kept, read = list[Node](), set(returns)
        for node in reversed(nodes):
            if len(node.outs) == 1 and node.outs[0] in self.made and node.outs[0] not in read:
                continue
            read.update(parts[node].reads if node in parts else node.reads)
            kept.append(node)
        return kept[::-1]

    def _tree(self, v: Any, operands: list[Any]) -> Tree | None:
        """The condition v as a tree; the operands of its comparisons are appended to `operands`."""
        node = self.made.get(v) if isinstance(v, Value) else None
        if node is None:
            return None
        name = node.op.name
        if name in COMPARISONS:
            operands += node.args
            tree: Tree = (COMPARISONS[name], len(operands) - 2, len(operands) - 1)
            return ("not", tree) if name == "ne" else tree
        arguments = [self._tree(a, operands) for a in node.args]
        return None if None in arguments else (JUNCTIONS.get(name, "not"), *arguments)


def _built(tree: Tree, args: Sequence[Expression]) -> Expression:
    """The condition of a tree. The language has no negation, so one is the comparison of a choice."""
    op, *arguments = tree
    if op == "not":
        return equal(select(_built(arguments[0], args), 1, 0), 0)
    return make(op, *[_built(a, args) if isinstance(a, tuple) else args[a] for a in arguments])
