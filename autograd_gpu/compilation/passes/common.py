"""common: what is computed twice is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import CONSTANT, OUTSIDE, Call, Node, Trace, Value
from .facts import Facts, aged, is_pure, substitute


def common(trace: Trace) -> list[Node]:
    """The nodes without calls that repeat another one: same op, options and arguments, no write in between.

    Not across the border of a backward that comes after the call, which would save the result, nor out of a
    recomputation of a checkpoint, which is there to save nothing. Results that the caller can write to stay apart.
    """
    facts, kept = Facts(trace), []
    to: dict[Value, Value] = {}
    first: dict[Any, Call] = {}
    for node, ages in aged(trace.nodes):
        node.replace(lambda v: to.get(v, v))
        if not isinstance(node, Call) or not is_pure(node):
            kept.append(node)
            continue
        fixed = any(v.root in facts.written or facts.escaping[v.root] for v in node.made())
        try:
            key = None if fixed else _key(node, ages)
            known = first.setdefault(key, node) if key is not None else node
        except TypeError:  # an option cannot be hashed
            known = node
        if known is node:
            kept.append(node)
        else:
            to.update(zip(node.made(), known.made(), strict=True))
    return substitute(trace, kept, to)


def _key(node: Call, ages: dict[int, int]) -> Any:
    args = [(_identity(a), ages.get(a.root, 0)) if isinstance(a, Value) else (type(a), repr(a)) for a in node.args]
    named = {name: id(x) if isinstance(x, Value) else x for name, x in node.attributes.items()}
    options = tuple([(name, type(x), x if x.__hash__ else repr(x)) for name, x in named.items()])
    key = (node.op.name, tuple(args), repr(options), options, node.phase == OUTSIDE, node.region)
    hash(key)
    return key


def _identity(v: Value) -> Any:
    """Equal for constants of equal content."""
    if v.kind != CONSTANT or v.array.nbytes > 64 or type(v.content) is not np.ndarray:
        return id(v)
    return v.shape, v.dtype.str, v.array.strides, v.content.tobytes()
