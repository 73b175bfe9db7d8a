"""Formulas of sizes in a record: what differs between calls with other sizes, as it follows from the sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.interpret.sized import Polynomial, plain
from . import graph
from .graph import CAPTURED, CONSTANT, GRAD, Trace, Value
from .same import alike, same_content, values_of
from .sized_program import Filled, filled
from .sizes import UNEXPLAINED, Sizes, Told, solved, solved_array


class Unexplained(Exception):
    """Why calls with other sizes cannot share a program."""


class Explaining:
    """Writes formulas of the sizes into a trace, by comparison with `others`, those of other sizes.

    points: the sizes of `others` and of the trace. numbers: by place and dimension of an argument, that of a size.
    """

    def __init__(
        self, trace: Trace, others: Sequence[Trace], points: Sequence[Sizes], told: Told,
        numbers: Mapping[tuple[int, int], int],
    ) -> None:  # fmt: skip
        self._trace, self._others, self._points, self._told, self._numbers = trace, others, points, told, numbers
        self._same: dict[Value, list[Value]] = {}  # by value: what it is in the other traces

    def run(self) -> list[Value]:
        """Does it; returns the values that count."""
        traces = [self._trace, *self._others]
        for nodes in zip(*(t.nodes for t in traces), strict=True):
            self._pair([values_of(node) for node in nodes])
        self._pair([t.arguments for t in traces])
        self._pair([[v for _, v in t.tangents] for t in traces])
        self._pair([[o.value for o in t.outputs if o.value is not None] for t in traces])
        self._pair([[v for pair in t.gradients for v in pair if v is not None] for t in traces])
        for v in self._trace.values:
            if v in self._same:
                self._layout(v)
        for node, *rest in zip(*(t.nodes for t in traces), strict=True):
            self._options(node, rest)
        made = [n for v in self._trace.values if v.kind == CONSTANT and v in self._same
                if (n := self._constant(v)) is not None]  # fmt: skip
        self._trace.nodes = [*made, *self._trace.nodes]
        looked = [n.value for n in self._trace.nodes if isinstance(n, graph.Look)]
        if any(v.kind != CONSTANT for v in looked):
            raise Unexplained(f"the values of {looked[0].described()} are read, which may depend on a size")
        return [*self._same]

    def _pair(self, lists: Sequence[Sequence[Value]]) -> None:
        for v, *others in zip(*lists, strict=True):
            self._same.setdefault(v, others)

    def _layout(self, v: Value) -> None:
        """Shape and strides."""
        others = self._same[v]
        shapes, steps = ([*(getattr(o.array, name) for o in others), getattr(v.array, name)]
                         for name in ("shape", "strides"))  # fmt: skip
        if all(s == shapes[0] for s in shapes) and all(s == steps[0] for s in steps):
            return
        if v.kind in (CAPTURED, GRAD):
            raise Unexplained(f"the size of {v.described()}, a tensor from outside, differs")
        what = f"the shape of {v.described()}"
        shape = tuple([self._number(column, what) for column in zip(*shapes, strict=True)])
        step = tuple([v.array.strides[d] if shape[d] == 1 else self._number(column, what)
                      for d, column in enumerate(zip(*steps, strict=True))])  # fmt: skip
        if v.kind == graph.ARGUMENT:
            shape = tuple([n if (s := self._numbers.get((v.place, d))) is None else Polynomial.size(s)
                           for d, n in enumerate(v.shape)])
        v.layout = shape, step

    def _number(self, values: Sequence[Any], what: str) -> Any:
        result = solved(values, self._points, self._told)
        if result is UNEXPLAINED:
            raise Unexplained(f"{what} does not follow from the sizes: {', '.join(map(str, values))}")
        return result

    def _options(self, node: graph.Node, others: Sequence[Any]) -> None:
        name = f"an option of {node.name}"
        if isinstance(node, graph.Call):
            node.args = self._merged(node.args, [o.args for o in others], name)
            node.attributes = self._merged(node.attributes, [o.attributes for o in others], name)
        elif isinstance(node, graph.FusedRule):
            node.given = self._merged(node.given, [o.given for o in others], name)
        elif isinstance(node, graph.Draw):
            node.shape = self._merged(node.shape, [o.shape for o in others], name)
            if any(not alike(node.word()[1:], o.word()[1:]) for o in others):
                raise Unexplained("random numbers are drawn in another way")
        elif isinstance(node, graph.Check):
            known = [[plain(x) for x in _held(n.test)] for n in (node, *others)]
            if any(type(x) in (int, float, tuple) and x != y for o in known for x, y in zip(known[0], o, strict=True)):
                raise Unexplained("a check of values depends on a size")

    def _merged(self, x: Any, others: Sequence[Any], what: str) -> Any:
        """A structure with formulas in place of numbers that differ."""
        if isinstance(x, Value):
            return x
        if isinstance(x, slice):
            ends = self._merged((x.start, x.stop, x.step), [(o.start, o.stop, o.step) for o in others], what)
            return slice(*ends)
        if isinstance(x, (tuple, list)):
            parts = [self._merged(part, other, what) for part, *other in zip(x, *others, strict=True)]
            return x if all(p is q for p, q in zip(parts, x, strict=True)) else (
                parts if isinstance(x, list) else tuple(parts))
        if type(x) is dict:
            return {key: self._merged(part, [o[key] for o in others], what) for key, part in x.items()}
        if type(x) in (int, float):
            return self._number([*others, x], what)
        return x

    def _constant(self, v: Value) -> Filled | None:
        """What makes a constant whose size or number differs; None for one that is the same in all calls."""
        contents = [*(o.content for o in self._same[v]), v.content]
        if v.layout is None and all(same_content(o, v) for o in self._same[v]):
            return None
        cause = f"the values of {v.described()} do not follow from the sizes; make them with operations"
        host = all(type(c) is np.ndarray and c.flags.c_contiguous and c.size for c in contents)
        if not host or not v.is_whole or any(u is not v and u.root == v.root and u.kind == CONSTANT
                                             for u in self._trace.values):
            raise Unexplained(cause)
        start: Any = solved_array([c.reshape(-1)[:1].reshape(()) for c in contents], self._points, self._told)
        step: Any = None
        if any(c.tobytes() != c.reshape(-1)[:1].tobytes() * c.size for c in contents):
            ends = v.content[:2].reshape(-1)
            step = (ends[1] - ends[0]).item() if v.content.ndim == 1 else UNEXPLAINED
        if UNEXPLAINED in (start, step) or any(
            filled(c.shape, start.at(s) if hasattr(start, "at") else start, step, c.dtype).tobytes() != c.tobytes()
            for c, s in zip(contents, self._points, strict=True)
        ):
            raise Unexplained(cause)
        v.layout = v.layout or (v.shape, v.array.strides)
        v.kind, v.fixed = graph.RESULT, False
        return Filled([v], start=start, step=step)


def _held(test: Any) -> list[Any]:
    """What a function has besides its arguments."""
    if isinstance(test, functools.partial):
        return [*test.args, *test.keywords.values(), *_held(test.func)]
    return [cell.cell_contents for cell in getattr(test, "__closure__", None) or ()]
