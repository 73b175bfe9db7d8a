"""dynamic=True: calls whose arguments differ by sizes only share one program, once it is known how they differ.

Calls are recorded size by size as always. When three of them, with other sizes, did the same up to numbers and shapes,
each number is explained by the sizes, and the third call told of each condition on a size. A call with new sizes for
which all conditions hold as they did then runs the shared program. A size that comes again and again gets a program of
its own, without a record. What cannot be explained is recorded size by size, and the reason is said.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import namespace
from ..core.graph import journals
from ..core.interpret.sized import Formula, Polynomial, plain
from ..core.tensor import Parameter, Tensor
from ..random.replay import GeneratorSnapshot
from . import graph
from .graph import CAPTURED, CONSTANT, GRAD, Trace, Value
from .guards import Guards
from .key import shared_memory
from .passes import simplify
from .replay import Replay
from .same import alike, difference, same_content, values_of
from .sized_program import Copier, Filled, Misfit, SizedReplay, filled, forget
from .sizes import UNEXPLAINED, Point, Sizes, SizeTracer, Told, solved, solved_array

MOST_KINDS = 64  # sizes with a program of their own: the one that was used least lately is dropped
MOST_POINTS = 6  # recorded calls of one course that are kept to compare with
MOST_COURSES = 4  # of which a function takes another one by a branch on a size
AGAIN = 3  # calls of the shared program with the same sizes, after which these get a program of their own

Place = tuple[int, int]  # number of an argument and of a dimension


class Unexplained(Exception):
    """Why calls with other sizes cannot share a program."""


class Sample:
    """A recorded call, without the arrays that it has made."""

    def __init__(self, lengths: Sizes, trace: Trace, point: Point) -> None:
        self.lengths, self.trace, self.point = lengths, trace, point


def family_of(leaves: Sequence[Any], key: Any) -> tuple[Any, dict[Place, int]] | None:
    """What the key of a call has besides sizes, and those by place; None if nothing can vary.

    Only row-major tensors without shared memory vary. A size of 0 or 1 is one of its own: 1 broadcasts.
    """
    lengths: dict[Place, int] = {}
    words: list[Any] = []
    for i, x in enumerate(leaves):
        if not isinstance(x, Tensor) or isinstance(x, Parameter) or not x._array.flags.c_contiguous:
            words.append(())
            continue
        words.append(tuple([min(n, 2) for n in x._array.shape]))
        lengths.update({(i, d): n for d, n in enumerate(x._array.shape) if n > 1})
    if not lengths or shared_memory(leaves):
        return None
    others = [word if not kept else (*word[:1], *word[3:])
              for word, kept in zip(key[len(key) - len(leaves) :], words, strict=True)]
    return (key[: len(key) - len(leaves)], *others, *words), lengths


class Symbols:
    """Which sizes vary between calls. Those that are equal in all of them are one."""

    def __init__(self, calls: Sequence[Sizes], places: Sequence[Place]) -> None:
        columns = list(zip(*calls, strict=True))
        varying = [c for c in dict.fromkeys(columns) if len({*c}) > 1]
        self.numbers = {place: varying.index(c) for place, c in zip(places, columns, strict=True) if c in varying}
        self.first = [places[columns.index(c)] for c in varying]  # by number: the place that has it
        # By index of a length: the first one that is the same, and what it is if it does not vary.
        self._same = [columns.index(c) for c in columns]
        self._fixed = [(i, c[0]) for i, c in enumerate(columns) if c not in varying]
        self._at = [columns.index(c) for c in varying]

    def of(self, lengths: Sizes) -> Sizes | None:
        """The sizes by number; None if they do not agree with each other, or a fixed one is another."""
        for i, first in enumerate(self._same):
            if lengths[i] != lengths[first]:
                return None
        for i, n in self._fixed:
            if lengths[i] != n:
                return None
        return tuple([lengths[i] for i in self._at])


class Family:
    """The calls whose arguments differ by sizes only."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = places
        self.courses: list[list[Sample]] = []  # samples that did the same, the last one used last
        self.templates: list[Template] = []
        self.kinds: OrderedDict[Any, None] = OrderedDict()  # keys of calls with these sizes that have a program
        self.reason: str | None = None  # why there is no template yet, or why the last call did not fit one

    def template(self, leaves: Sequence[Any], lengths: Sizes) -> Template | None:
        """A program for these sizes."""
        for template in self.templates:
            self.reason = template.unfit(lengths) or template.guards.failed(leaves)
            if self.reason is None:
                return template
        return None

    def tracer(self, fullgraph: bool, lengths: Sizes) -> SizeTracer:
        """What records a call: with formulas for its sizes, if there are calls to compare it with."""

        def distance(sample: Sample) -> float:
            return sum(abs(math.log(n / m)) for n, m in zip(sample.lengths, lengths, strict=True))

        courses = [[sample for sample in course if sample.lengths != lengths] for course in self.courses]
        courses = [course for course in courses if len(course) > 1]
        if not courses:
            return SizeTracer(fullgraph, [], {}, ())
        course = min(courses, key=lambda course: min(map(distance, course)))
        symbols = Symbols([*(sample.lengths for sample in course), lengths], self.places)
        points = [Point(_given(symbols.of(s.lengths)), s.point.shapes) for s in course]
        return SizeTracer(fullgraph, points, symbols.numbers, _given(symbols.of(lengths)))

    def learn(self, trace: Trace, tracer: SizeTracer, lengths: Sizes, make: Callable[..., Template]) -> None:
        """Takes down a recorded call; makes a template if it explains the calls with other sizes."""
        tracer.told.is_open = False
        point = Point(lengths, [(v.name, v.shape) for v in tracer.met])
        whole = Copier().trace(trace)
        sample = Sample(lengths, Copier().trace(whole), point)
        forget(sample.trace)
        sample.trace.grads_at_entry, sample.trace.guards = {}, []
        course = next((c for c in self.courses if difference(c[-1].trace, whole, sized=True) is None), None)
        if course is None:
            self.courses.append([sample])
            del self.courses[:-MOST_COURSES]
            return
        others = [s for s in course if s.lengths != lengths]
        if len(others) > 1:
            try:
                self.templates.insert(0, make(whole, others, tracer, lengths, self.places))
                del self.templates[MOST_COURSES:]
                self.reason = None
            except Unexplained as unexplained:
                self.reason = str(unexplained)
        self.courses.remove(course)
        self.courses.append([*others[1 - MOST_POINTS :], sample])


def _given(sizes: Sizes | None) -> Sizes:
    assert sizes is not None
    return sizes


class _Resets(journals.Journal):
    """The leaves of a call that drops their `.grad`s unseen: it does so again, so that these need not be kept."""

    def note(self, leaf: Any, adds: bool) -> None:
        super().note(leaf, adds)
        self[id(leaf)].before = None


class Template:
    """A program for many sizes, and what they have to fulfil."""

    def __init__(
        self, fn: Any, name: str, structure: Any, trace: Trace, others: Sequence[Sample], tracer: SizeTracer,
        lengths: Sizes, places: Sequence[Place],
    ) -> None:  # fmt: skip
        if tracer.told.unfit is not None:
            raise Unexplained(tracer.told.unfit)
        if not tracer.points:
            raise Unexplained("further sizes are needed")
        self._misfits: set[Sizes] = set()
        self.symbols = Symbols([*(s.lengths for s in others), lengths], places)
        points = [_given(self.symbols.of(n)) for n in (*(s.lengths for s in others), lengths)]
        if points != [*(p.sizes for p in tracer.points), tracer.sizes]:
            raise Unexplained("it does something else than for other sizes")
        self.conditions = tracer.told.conditions
        known = [i for i, point in enumerate(points[:-1]) if self._alike(point)]
        if len(known) < 2:
            raise Unexplained("further sizes are needed")
        others, points = [others[i] for i in known], [*(points[i] for i in known), points[-1]]
        self._add_constants(tracer.told, points)
        values = _Explaining(trace, [s.trace for s in others], points, tracer.told, self.symbols).run()
        shapes = [v.shape if v.layout is None else v.layout[0] for v in values]
        met = dict.fromkeys(n for shape in shapes for n in shape)
        names = ", ".join(f"s{i}" for i in range(len(points[0])))
        text = " and ".join([f"({condition}) is {result}" for condition, result in self.conditions.items()]) or "True"
        self._holds = eval(f"lambda {names}: {text}", {})
        varying = [n for n in met if not isinstance(n, int)]
        self._lengths_met = eval(f"lambda {names}: [{', '.join(map(repr, varying))}]", {})
        self._fixed_met = {n for n in met if isinstance(n, int)}
        if (reason := self.unfit(lengths)) is not None:
            raise Unexplained(reason)
        first: dict[int, Any] = {}
        for node in trace.nodes:
            if isinstance(node, graph.SetGrad):
                first.setdefault(id(node.tensor), node.value)
        unseen = not tracer.reads_grads and all(v.kind != GRAD for v in trace.values)
        self._journal = _Resets if unseen and all(v is None for v in first.values()) else journals.Journal
        self.guards = Guards(trace)
        simplify(trace)
        trace.simplified = True
        forget(trace)
        trace.grads_at_entry, trace.guards = {}, []
        self.trace = Copier().trace(trace)
        self._make = fn, name, structure
        self.replay = SizedReplay(fn, name, structure, Copier().trace(self.trace), self.symbols.first)
        self.used: OrderedDict[Sizes, int] = OrderedDict()

    def _alike(self, point: Sizes) -> bool:
        """Whether all conditions have the results for other sizes that they had in the call."""
        return all(bool(Formula(text).at(point)) is result for text, result in self.conditions.items())

    def _add_constants(self, told: Told, points: Sequence[Sizes]) -> None:
        """Makes it a condition that what was computed from sizes, and is the same in all calls, stays so."""
        for texts in told.formulas.values():
            for text in texts:
                values = [Formula(text).at(point) for point in points]
                if all(v == values[0] for v in values):
                    self.conditions[f"({text} == {values[0]!r})"] = True
                elif any(v != v for v in values):
                    raise Unexplained(f"{text} is no number")

    def unfit(self, lengths: Sizes) -> str | None:
        """Why these sizes are none for this program, or None."""
        sizes = self.symbols.of(lengths)
        if lengths in self._misfits:
            return "a result has another layout for this size"
        if sizes is None:
            return "a size that was the same in all calls is another one, or sizes that were equal are not"
        lengths_met = self._lengths_met(*sizes)
        if lengths_met and min(lengths_met) < 2:
            return "a size would be 0 or 1, or negative"
        if len({*lengths_met}) < len(lengths_met) or not self._fixed_met.isdisjoint(lengths_met):
            return "two sizes are equal that were not"
        return None if self._holds(*sizes) else "a condition on a size has another result"

    def count(self, lengths: Sizes) -> int:
        """How often the program has run with these sizes, this time included."""
        count = self.used.pop(lengths, 0) + 1
        self.used[lengths] = count
        if len(self.used) > 4 * MOST_KINDS:
            self.used.popitem(last=False)
        return count

    def instance(self, replay: type[Replay], lengths: Sizes) -> Replay:
        """A program for these sizes alone."""
        trace = Copier(_given(self.symbols.of(lengths))).trace(self.trace)
        varying = [v for v, u in zip(trace.arguments, self.trace.arguments, strict=True) if u.layout is not None]
        for v in varying:  # a CUDA graph asks whether they share memory
            v.array = namespace(v.array).empty(v.shape, v.dtype)
        made = replay(*self._make, trace)
        for v in varying:
            v.stand_in(v.shape, v.array.strides)
        return made

    def run(self, leaves: Sequence[Any], lengths: Sizes) -> Any:
        """Runs the program; Unexplained if a result does not fit, for which everything is as it was before."""
        if self.used.get(lengths, 0) > 1:  # all results had their layouts before
            return self.replay(leaves)
        snapshot = GeneratorSnapshot()
        with journals.keeping(self._journal()) as journal, snapshot:
            try:
                return self.replay(leaves)
            except Misfit as error:
                if error.number > self.replay.first_effect:
                    raise
                self._misfits.add(lengths)
                reason = f"{error.cause}, which does not follow from the sizes"
        journal.restore()
        for generator, position in snapshot.noted.items():
            generator.return_to(position)
        raise Unexplained(reason)


class _Explaining:
    """Writes formulas of the sizes into a trace, by comparison with `others`, that of other sizes."""

    def __init__(
        self, trace: Trace, others: Sequence[Trace], points: Sequence[Sizes], told: Told, symbols: Symbols
    ) -> None:
        self._trace, self._others, self._points, self._told, self._symbols = trace, others, points, told, symbols
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
            numbers = self._symbols.numbers
            shape = tuple([n if (s := numbers.get((v.place, d))) is None else Polynomial.size(s)
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
