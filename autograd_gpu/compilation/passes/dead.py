"""dead: drops instructions that nobody needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..graph import Node, Value


def dead(nodes: Sequence[Node], needed: Iterable[Value]) -> list[Node]:
    """The nodes that have an effect, or that make what is `needed`, also by way of others."""
    live, kept = set(needed), []
    for node in reversed(nodes):
        if node.has_effect or any(v in live for v in node.made()):
            live.update(node.reads)
            kept.append(node)
    return kept[::-1]
