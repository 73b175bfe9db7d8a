"""Emitters: texts for ops on NumPy arrays that are shorter than a call of their forward, with the same bits.

An elementwise op that is one ufunc is written as that, into the memory of an operand that dies there. tests/compilation
compares each of them with its forward. An op whose forward looks at values, or splits its work among threads, has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend.arrays.dtypes import FULL_FLOATS
from ..backend.cpu.pool import SMALLEST as LARGE
from ..backend.cpu.pool import owns
from .graph import RESULT, Call, Group, Node, SetGrad, Value

# By op: its ufunc, for arrays in float32 and float64 of one dtype, and numbers.
UFUNCS = {
    "abs": "absolute", "add": "add", "ceil": "ceil", "cos": "cos", "div": "true_divide", "exp": "exp",
    "expm1": "expm1", "floor": "floor", "log": "log", "log1p": "log1p", "maximum": "maximum", "minimum": "minimum",
    "mul": "multiply", "neg": "negative", "sin": "sin", "sqrt": "sqrt", "square": "square", "sub": "subtract",
    "tanh": "tanh",
}  # fmt: skip
# Ops whose results are new memory, which nobody else knows.
FRESH = frozenset((*UFUNCS, "gemm", "linear", "tanh_grad"))


class Memory:
    """Which operands die where, so that a result may take their memory."""

    def __init__(self, nodes: Sequence[Node], returns: Sequence[Value], fixed: set[int]) -> None:
        self._fixed = fixed  # the roots of memory that is from outside, or written to
        self._fresh = {v for n in nodes if (isinstance(n, Call) and n.op.name in FRESH) or isinstance(n, Group)
                       for v in n.outs}
        self._last: dict[int, int] = {}  # by root: the last instruction that touches the memory
        for i, node in enumerate(nodes):
            for v in (*node.reads, *node.made()):
                self._last[v.root] = i
        kept = [n.value for n in nodes if isinstance(n, SetGrad) and n.value is not None]
        for v in (*returns, *kept):
            self._last[v.root] = len(nodes)

    def over(self, i: int, node: Node) -> list[Value | None]:
        """For each result of instruction i an operand in whose memory it may be put, or None.

        Not if a view of that memory is read, too: a large array is computed in parts.
        """
        free = [v for v in node.reads if v in self._fresh and v.root not in self._fixed and self._last[v.root] == i
                and (v.root == id(v.array) or owns(v.array)) and all(w is v or w.root != v.root for w in node.reads)]
        places: list[Value | None] = []
        for out in node.outs:
            place = next((v for v in free if v.shape == out.shape and v.dtype == out.dtype
                          and v.array.strides == out.array.strides), None)
            free = [v for v in free if v is not place]
            places.append(place)
        return places


def emitted(
    i: int, node: Call, memory: Memory, text: Callable[[Any], str], bind: Callable[[Any, str], str]
) -> str | None:
    """The right-hand side for instruction i, or None if its forward has to run."""
    name = UFUNCS.get(node.op.name)
    if name is None or node.attributes.get("alpha", 1) != 1 or node.attributes.get("rounding_mode") is not None:
        return None
    out = node.outs[0]
    if out.kind != RESULT or out.dtype not in FULL_FLOATS or not out.shape or out.array.nbytes >= LARGE:
        return None
    for a in node.args:
        if isinstance(a, Value):
            if type(a.array) is not np.ndarray or a.dtype != out.dtype:
                return None
        elif type(a) not in (int, float):
            return None
    (operand,) = memory.over(i, node)
    args = [*map(text, node.args), *([] if operand is None else [f"out={text(operand)}"])]
    return f"{bind(getattr(np, name), name)}({', '.join(args)})"


def grouped(i: int, node: Group, memory: Memory, text: Callable[[Any], str], bind: Callable[[Any, str], str]) -> str:
    """The right-hand side for a group, with the memory of its results where that is not what a ufunc would make."""
    args = [*map(text, node.args)]
    on_host = type(node.outs[0].array) is np.ndarray
    if not on_host or all(v.array.flags.c_contiguous for v in node.args):
        places = memory.over(i, node)
        outs = ["None" if v is None else text(v) for v in places] if any(places) else []
    else:
        outs = [f"{bind(np.empty, 'empty')}({v.shape!r}, {bind(v.dtype, 'dtype')})" for v in node.outs]
    if outs:
        args.append(f"out=({', '.join(outs)}, )")
    return f"{bind(node.code, 'group')}({', '.join(args)})"
