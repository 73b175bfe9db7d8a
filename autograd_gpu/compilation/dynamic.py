"""dynamic=True: calls whose arguments differ by sizes only share one program, once it is known how they differ.

Calls are recorded size by size as always. When three of them, with other sizes, did the same up to numbers and shapes,
each number is explained by the sizes, and the third call told of each condition on a size. A call with new sizes for
which all conditions hold as they did then runs the shared program. A size that comes again and again gets a program of
its own, without a record. What cannot be explained is recorded size by size, and the reason is said.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..backend import namespace
from ..core.graph import journals
from ..core.interpret.sized import Formula
from ..core.tensor import Parameter, Tensor
from ..random.replay import GeneratorSnapshot
from . import graph
from .explaining import Explaining, Unexplained
from .graph import GRAD, Trace, Value
from .guards import Guards
from .key import shared_memory
from .passes import simplify
from .replay import Replay
from .same import difference
from .sized_program import Copier, Misfit, SizedReplay, forget
from .sizes import Point, Sizes, SizeTracer, Told

MOST_KINDS = 64  # sizes with a program of their own: the one that was used least lately is dropped
MOST_POINTS = 6  # recorded calls of one course that are kept to compare with
MOST_COURSES = 4  # of which a function takes another one by a branch on a size
AGAIN = 3  # calls of the shared program with the same sizes, after which these get a program of their own

Place = tuple[int, int]  # number of an argument and of a dimension


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


def _drops_grads_unseen(trace: Trace) -> bool:
    """Whether a call sets each `.grad` to None before anything else that it does with it."""
    first: dict[int, Any] = {}
    for node in trace.nodes:
        if isinstance(node, graph.SetGrad):
            first.setdefault(id(node.tensor), node.value)
    return all(v.kind != GRAD for v in trace.values) and all(v is None for v in first.values())


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
        values = Explaining(trace, [s.trace for s in others], points, tracer.told, self.symbols.numbers).run()
        self._compile(values, len(points[0]))
        if (reason := self.unfit(lengths)) is not None:
            raise Unexplained(reason)
        self._journal = _Resets if not tracer.reads_grads and _drops_grads_unseen(trace) else journals.Journal
        self.guards = Guards(trace)
        simplify(trace)
        trace.simplified = True
        forget(trace)
        trace.grads_at_entry, trace.guards = {}, []
        self.trace = Copier().trace(trace)
        self._make = fn, name, structure
        self.replay = SizedReplay(fn, name, structure, Copier().trace(self.trace), self.symbols.first)
        self.used: OrderedDict[Sizes, int] = OrderedDict()

    def _compile(self, values: Sequence[Value], count: int) -> None:
        """Makes functions of the `count` sizes: whether all conditions hold, and the sizes of all values."""
        shapes = [v.shape if v.layout is None else v.layout[0] for v in values]
        met = dict.fromkeys(n for shape in shapes for n in shape)
        names = ", ".join(f"s{i}" for i in range(count))
        text = " and ".join([f"({condition}) is {result}" for condition, result in self.conditions.items()]) or "True"
        self._holds = eval(f"lambda {names}: {text}", {})
        varying = [n for n in met if not isinstance(n, int)]
        self._lengths_met = eval(f"lambda {names}: [{', '.join(map(repr, varying))}]", {})
        self._fixed_met = {n for n in met if isinstance(n, int)}

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
