"""Programs for many sizes: attributes are formulas of the sizes of the arguments, and ops run as their forward.

Each result is compared with what it was derived to be, shape and strides, so that nothing goes on with memory of
another kind than the recorded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.interpret.sized import Formula, Polynomial
from . import graph
from .graph import CONSTANT, GRAD, OUTSIDE, RESULT, TANGENT, Node, Routine, Trace, Value
from .passes.facts import is_sized
from .program import Program
from .replay import Replay


class Misfit(RuntimeError):
    """A result has another shape, or other strides, than those that follow from the sizes."""

    def __init__(self, number: int, name: str, array: Any) -> None:
        self.number, self.cause = number, f"{name} has shape {list(array.shape)} and strides {list(array.strides)}"
        super().__init__(f"compiled for varying sizes: {self.cause}, which do not follow from the sizes as in the "
                         "recorded calls, and memory outside was already written to; leave dynamic=True out")


def misfit(number: int, name: str, array: Any) -> None:
    raise Misfit(number, name, array)


@dataclass(eq=False, repr=False)
class Filled(Node):
    """outs[0] = an array of one number, or of numbers with one step, as a factory makes it of a size."""

    start: Any = 0
    step: Any = None
    name = "filled"

    def at(self, shape: tuple[int, ...], start: Any, step: Any) -> np.ndarray:
        """The array."""
        return filled(shape, start, step, self.outs[0].dtype)


def filled(shape: tuple[int, ...], start: Any, step: Any, dtype: np.dtype) -> np.ndarray:
    """An array of the number `start`, or of numbers from `start` on."""
    if step is None:
        return np.full(shape, start, dtype)
    return (start + step * np.arange(*shape)).astype(dtype)


class SizedProgram(Program):
    """A program whose text computes with the sizes s0, s1, ... of its arguments. `symbols`: place and dim of each."""

    def __init__(self, symbols: Sequence[tuple[int, int]], *args: Any) -> None:
        self._symbols = symbols
        super().__init__(*args)

    @staticmethod
    def _emitter_of(node: Node) -> None:
        return None

    def _views_made_once(self) -> set[Value]:
        return set()

    def _begin(self) -> None:
        self._scope.update(misfit=misfit, filled=filled)
        places = {v.place: v for v in self._arguments}
        for number, (place, dim) in enumerate(self._symbols):
            self._w(f"s{number} = {self.names[places[place]]}.shape[{dim}]")

    def bind(self, value: Any, prefix: str) -> str:
        if not is_sized(value):
            return super().bind(value, prefix)
        if isinstance(value, (Polynomial, Formula)):
            return repr(value)
        if isinstance(value, slice):
            return f"slice({', '.join(self.bind(x, prefix) for x in (value.start, value.stop, value.step))})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self.bind(x, prefix)}' for key, x in value.items())}}}"
        inner = "".join(f"{self.bind(x, prefix)}, " for x in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"

    def _Call(self, node: graph.Call) -> None:
        super()._Call(node)
        self._compare(node)

    def _FusedRule(self, node: graph.FusedRule) -> None:
        super()._FusedRule(node)
        self._compare(node)

    def _Copy(self, node: graph.Copy) -> None:
        super()._Copy(node)
        self._compare(node)

    def _Draw(self, node: graph.Draw) -> None:
        super()._Draw(node)
        self._compare(node)

    def _Filled(self, node: Filled) -> None:
        (v,) = node.outs
        options = ", ".join(self.bind(x, "a") for x in (v.layout[0], node.start, node.step, v.dtype))  # type: ignore[index]
        self._w(f"{self.make(v)} = filled({options})")

    def _compare(self, node: Node) -> None:
        for v in dict.fromkeys(node.made()):
            if v.shape and v.kind == RESULT:
                name, (shape, steps) = self.names[v], v.layout or (v.shape, v.array.strides)
                tests = [f"{name}.shape != {shape!r}"]
                if node.phase != OUTSIDE:  # gradients come in any layout
                    tests += self._stride_tests(name, shape, steps)
                self._w(f"if {' or '.join(tests)}: misfit({self._number}, {v.name!r}, {name})")

    @staticmethod
    def _stride_tests(name: str, shape: Sequence[Any], steps: Sequence[Any]) -> list[str]:
        """Conditions that strides are others; those of dimensions of size 1 do not count."""
        if 1 not in shape:
            return [f"{name}.strides != {steps!r}"]
        pairs = enumerate(zip(shape, steps, strict=True))
        return [f"{name}.strides[{d}] != {step!r}" for d, (n, step) in pairs if n != 1]


class SizedReplay(Replay):
    """What does again what a trace has done, for many sizes."""

    def __init__(self, fn: Any, name: str, structure: Any, trace: Trace, symbols: Sequence[tuple[int, int]]) -> None:
        self._symbols = symbols
        super().__init__(fn, name, structure, trace)
        outside = {v.root for v in self._outside}
        effects = (i for i, n in enumerate(self.program.nodes)
                   if isinstance(n, Routine) or any(v.root in outside for v in n.writes))  # fmt: skip
        self.first_effect = next(effects, len(self.program.nodes))  # what cannot be taken back

    def _program(self, name: str, nodes: Any, parameters: Sequence[Value], returns: Sequence[Value],
                 saved: Sequence[Value] | None = None) -> Program:  # fmt: skip
        return SizedProgram(self._symbols, name, nodes, parameters, returns, self._outside, self._shown, saved)


# ---- copies of traces --------------------------------------------------------------------------------


class Copier:
    """Copies a trace, so that passes may change one and leave the other. `sizes`: formulas become their values."""

    def __init__(self, sizes: Sequence[int] | None = None) -> None:
        self._sizes = sizes
        self.values: dict[Value, Value] = {}
        self._tensors: dict[int, Any] = {}

    def trace(self, trace: Trace) -> Trace:
        """The copy. Tensors that the call has made are not kept alive by it."""
        of, maybe = self.value, lambda v: None if v is None else self.value(v)
        known = {id(v.tensor) for v in trace.values if v.tensor is not None} | {*trace.tensors}
        copy = replace(trace)
        copy.arguments, copy.values = [*map(of, trace.arguments)], [*map(of, trace.values)]
        copy.nodes = [n for node in trace.nodes if (n := self._node(node, known)) is not None]
        copy.outputs = [replace(o, value=maybe(o.value), tensor=self._stand_in(o.tensor, known)) for o in trace.outputs]
        copy.tangents = [(i, of(v)) for i, v in trace.tangents]
        copy.gradients = [(of(v), maybe(g)) for v, g in trace.gradients]
        copy.zeros = [*map(of, trace.zeros)]
        return copy

    def value(self, v: Value) -> Value:
        if v not in self.values:
            copy = self.values[v] = replace(v)
            if self._sizes is not None and v.layout is not None:
                shape, steps = self.plain(v.layout)
                copy._known, copy.layout = (v.root, v.is_whole, v.is_view), None
                copy.stand_in(shape, steps)
        return self.values[v]

    def plain(self, x: Any) -> Any:
        """A structure with copies in place of values, and numbers in place of formulas if the sizes are known."""
        if isinstance(x, Value):
            return self.value(x)
        if isinstance(x, (Polynomial, Formula)):
            return x if self._sizes is None else x.at(self._sizes)
        if isinstance(x, slice):
            return slice(*map(self.plain, (x.start, x.stop, x.step)))
        if type(x) in (list, tuple):
            return type(x)([self.plain(part) for part in x])
        return {key: self.plain(part) for key, part in x.items()} if type(x) is dict else x

    def _node(self, node: Node, known: set[int]) -> Node | None:
        if isinstance(node, Filled) and self._sizes is not None:
            v = self.value(node.outs[0])
            v.kind, v.array = CONSTANT, node.at(v.shape, self.plain(node.start), self.plain(node.step))
            v.content = v.array
            return None
        copy = replace(node, **{f.name: self.plain(getattr(node, f.name)) for f in fields(node)})
        if isinstance(copy, graph.SetGrad) and id(copy.tensor) not in known:
            copy.tensor = SimpleNamespace()  # no other one is the same
        return copy

    def _stand_in(self, tensor: Any, known: set[int]) -> Any:
        """What is asked of a result: whether it is a view, and how it was made."""
        if tensor is None or id(tensor) in known or isinstance(tensor, SimpleNamespace):
            return tensor
        base = None if tensor._base is None else True
        stand_in = SimpleNamespace(_base=base, _made=getattr(tensor, "_made", 0) if base else 0)
        return self._tensors.setdefault(id(tensor), stand_in)


def forget(trace: Trace) -> None:
    """Drops the arrays that the call has made."""
    for v in trace.values:
        if v.kind in (RESULT, GRAD, TANGENT):
            v.forget()

