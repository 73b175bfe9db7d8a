"""Compares two traces of a function: what differs between them is not compiled."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat, zip_longest
from typing import Any

import numpy as np

from ..core.graph.tensor_base import TensorBase
from . import graph
from .graph import CAPTURED, CONSTANT, GRAD, Trace, Value
from .items import equal


def resolve(a: Trace, b: Trace) -> None:
    """Tells captured tensors from constants: the same array in both traces is one from outside, read at each call."""
    first = {id(v.array) for v in a.values if v.kind in (CONSTANT, CAPTURED)}
    known = {id(v.array) for v in b.values if v.kind in (CONSTANT, CAPTURED)} & first
    b.outside = [b.tensors[key] for key in b.tensors.keys() & a.tensors.keys()]
    for trace in (a, b):
        for v in trace.values:
            if v.kind == CONSTANT and id(v.array) in known:
                v.kind, v.content = CAPTURED, None


def difference(a: Trace, b: Trace, sized: bool = False) -> str | None:
    """What differs between two traces, or None. `sized`: but for lengths, numbers, and the values of constants."""
    resolve(a, b)
    if any(x._fn is not node for x, node in b.outside):
        return "a tensor from outside gets another history, or another requires_grad; write to a clone() of it"
    numbers: tuple[dict[Value, int], dict[Value, int]] = ({}, {})
    for i, (x, y) in enumerate(zip_longest(a.nodes, b.nodes)):
        if x is None or y is None:
            return f"one call took {len(a.nodes)} operations, and the next one {len(b.nodes)}"
        where = f"operation {i}, {y.name}"
        if type(x) is not type(y) or x.name != y.name:
            return f"operation {i} is {x.name} in one call, and {y.name} in the next one"
        if isinstance(x, graph.SetGrad) and isinstance(y, graph.SetGrad):
            y.inside = y.place < 0 and x.tensor is not y.tensor
            other = y.inside and x.tensor.array is not y.tensor.array and any(
                v.kind == CAPTURED and v.tensor is y.tensor for v in b.values)
            if x.place != y.place or (x.value is None) != (y.value is None) or other:
                return "the .grad of another tensor is set in the next call"
        if x.phase != y.phase or not alike(x.word(), y.word(), sized):
            return f"{where}, got other options in the next call: {_shown(x)} and {_shown(y)}"
        if isinstance(y, graph.Look) and _is_captured(y.value, b):
            return f"the values of {y.value.described()}, a tensor from outside, are read"
        text = _different(values_of(x), values_of(y), numbers, sized)
        if text:
            return f"{where}, {text}"
    if len(a.outputs) != len(b.outputs) or a.spec != b.spec:
        return "the structure of the result differs between two calls"
    for p, q in zip(a.outputs, b.outputs, strict=True):
        if (p.value is None) != (q.value is None) or (p.value is None and not alike(p.constant, q.constant)):
            return f"a result that is no tensor differs between two calls: {p.constant!r} and {q.constant!r}"
        if p.requires_grad != q.requires_grad:
            return "whether a result requires grad differs between two calls"
    if a.freed != b.freed or [g is None for _, g in a.gradients] != [g is None for _, g in b.gradients]:
        return "another tensor has a gradient in the next call"
    gradients = [[*trace.zeros, *(v for pair in trace.gradients for v in pair if v is not None)] for trace in (a, b)]
    if _different(gradients[0], gradients[1], numbers, sized):
        return "gradients are computed from other tensors in the next call"
    results = [[o.value for o in trace.outputs if o.value is not None] for trace in (a, b)]
    if _different(results[0], results[1], numbers, sized):
        return "a result is made of other tensors in the next call"
    return None


def _is_captured(value: Value, trace: Trace) -> bool:
    """Whether a value is, or was computed from, a tensor from outside."""
    if value.kind != graph.RESULT:
        return value.kind != CONSTANT
    makers = [node for node in trace.nodes if value in node.made()]
    return any(_is_captured(v, trace) for node in makers for v in node.reads)


def values_of(node: graph.Node) -> list[Value]:
    """The values that a node reads and makes."""
    return [*node.reads, *node.made()]


def _different(
    xs: Iterable[Value], ys: Iterable[Value], numbers: tuple[dict[Value, int], dict[Value, int]], sized: bool
) -> str:
    """How two lists of values differ, or ""."""
    for x, y in zip_longest(xs, ys):
        if x is None or y is None:
            return "has another number of tensors in the next call"
        layouts = [len(v.shape) if sized else (v.shape, v.array.strides) for v in (x, y)]
        if x.kind != y.kind or x.dtype != y.dtype or layouts[0] != layouts[1]:
            return f"has another tensor in the next call: {x.described()} and {y.described()}"
        if x.kind == CONSTANT:
            if not sized and not same_content(x, y):
                return f"computes with {y.described()}, whose values differ from call to call and are no argument"
        elif x.kind in (CAPTURED, GRAD):
            if x.tensor is not y.tensor and (x.kind == GRAD or x.array is not y.array):
                return f"uses a tensor that is another one in the next call: {y.described()}"
        elif numbers[0].setdefault(x, len(numbers[0])) != numbers[1].setdefault(y, len(numbers[1])):
            return "gets other tensors in the next call"
    return ""


def same_content(x: Value, y: Value) -> bool:
    """Whether two constants have the same values, to the bit."""
    return np.array_equal(_bytes(x), _bytes(y))


def _bytes(value: Value) -> Any:
    content = value.content
    content = content if isinstance(content, np.ndarray) else content.get()  # CuPy
    return np.ascontiguousarray(content).reshape(-1).view(np.uint8)


def alike(x: Any, y: Any, sized: bool = False) -> bool:
    """Whether two options are the same: plain data by value, anything else by identity; `sized`: but for numbers."""
    if x is y or (sized and type(x) is type(y) and type(x) in (int, float)):
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and all(map(alike, x, y, repeat(sized)))
    if isinstance(x, slice):
        return alike((x.start, x.stop, x.step), (y.start, y.stop, y.step), sized)
    if isinstance(x, dict):
        return alike(tuple(x.items()), tuple(y.items()), sized)
    if isinstance(x, (np.ndarray, TensorBase)):
        return False
    return equal(x, y) or (not isinstance(x, float) and bool(x == y))


def _shown(node: graph.Node) -> str:
    return repr(node.word())[:80]
