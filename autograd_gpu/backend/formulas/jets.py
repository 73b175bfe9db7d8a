"""The chain rule to second order as programs: native code in place of the passes of cpu/streams.py, of equal bits.

The elements are those of f1, f2, of the rows of a stream and of its gradient; each output is a row or the gradient of
f1 or f2. The order of operations is that of the passes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from .expression import Expression, constant, element
from .joined import Joined
from .lowering import Operand, Program, lowered
from .native.switch import Switch, switch_of

MOST = 16  # rows of a stream, above which the passes run: a ufunc has 64 operands at most
Groups = tuple[tuple[tuple[int, int], ...], ...]


def added_up(terms: Sequence[Expression]) -> Expression:
    """The terms added from left to right."""
    return functools.reduce(lambda a, b: a + b, terms)


class Form(NamedTuple):
    """A stream of d tangents, with second ones or without, behind a function with f2 or without (`bends`)."""

    d: int
    groups: Groups
    seconds: bool
    bends: bool

    @property
    def arriving(self) -> int:
        """The rows of the stream."""
        return self.d + len(self.groups) * self.seconds

    @property
    def leaving(self) -> int:
        """The rows behind the function."""
        return self.d + len(self.groups)

    @property
    def derivatives(self) -> list[str]:
        """The names of f1 and f2, as far as they are read."""
        return ["f1", "f2"] if self.bends else ["f1"]


def form_of(stream: Any, d: int, groups: Groups, bends: bool = True) -> Form:
    """The form of a stream (..., S, h)."""
    return Form(d, groups, stream.shape[-2] > d, bends)


def _rows(letter: str, count: int) -> list[str]:
    return [f"{letter}{k}" for k in range(count)]


def rows_behind(form: Form, f1: Expression, f2: Expression, t: Sequence[Expression]) -> list[Expression]:
    """The rows behind the function from those of the stream."""
    rows = [x * f1 for x in t]
    for k, group in enumerate(form.groups, form.d):
        terms = [t[i] * f2 * t[j] for i, j in group] if form.bends else []
        rows[k : k + 1] = [added_up([*rows[k : k + 1], *terms] or [constant(0)])]
    return rows


@functools.lru_cache(256)
def push(form: Form) -> Switch | None:
    """The rows behind the function from f1, f2 and the rows of the stream; None if the passes have to run."""
    if form.leaving > MOST:
        return None
    names = _rows("t", form.arriving)
    rows = rows_behind(form, element("f1"), element("f2"), [element(name) for name in names])
    return switch_of("stream", lowered(rows, [*form.derivatives, *names]))


class Needed(NamedTuple):
    """Which gradients are computed: for f1, for f2, for the stream."""

    f1: bool
    f2: bool
    stream: bool


@functools.lru_cache(256)
def pull(form: Form, needed: Needed) -> Switch | None:
    """The needed gradients from f1, f2, the rows of the stream and the gradient of the rows behind the function.

    None if the passes have to run.
    """
    if form.leaving > MOST:
        return None
    f1, f2, names = element("f1"), element("f2"), _rows("t", form.arriving)
    t, g = [element(name) for name in names], [element(name) for name in _rows("g", form.leaving)]
    halves, outputs = _halves(form, t, g), list[Expression]()
    if needed.f1:
        order = [*range(form.d, form.arriving), *range(form.d)]
        outputs.append(added_up([constant(0), *[g[k] * t[k] for k in order]]))
    if needed.f2:
        outputs.append(added_up([half * t[i] for i, half in halves.items()] or [constant(0)]))
    if needed.stream:
        rows = [g[k] * f1 for k in range(form.arriving)]
        if form.bends:
            for i, half in halves.items():
                rows[i] = rows[i] + half * (f2 + f2)
        outputs += rows
    return switch_of("gradient of a stream", lowered(outputs, [*form.derivatives, *names, *_rows("g", form.leaving)]))


class Behind(NamedTuple):
    """A function behind which a stream runs: the program of its factors, and whether a row is added to its operand.

    The factors are f1, f2, and for gradients the derivatives of both by the operand.
    """

    factors: Program
    values: tuple[float, ...]  # of the numbers of the program
    shifted: bool

    def start(self) -> tuple[Joined, list[Operand], int]:
        """A program that computes the factors from its first inputs; the number of these."""
        joined, s = Joined(), Operand("i", 0)
        if self.shifted:
            (s,) = joined.add(lowered([element("x") + element("row")], ["x", "row"]), [s, Operand("i", 1)])
        return joined, joined.add(self.factors, [s], self.values), 1 + self.shifted

    def push(self, form: Form) -> Switch | None:
        """The rows behind the function from its operand, perhaps the row, and the rows of the stream."""
        then = push(form)
        if then is None:
            return None
        joined, factors, first = self.start()
        count = first + form.arriving
        rows = joined.add(then.program, [*factors, *[Operand("i", k) for k in range(first, count)]])
        return switch_of("stream behind an activation", joined.program(count, 0, rows))

    def pull(self, form: Form, own: int, stream: bool) -> Switch | None:
        """So many times the gradient for the operand, and perhaps that for the stream."""
        then = pull(form, Needed(own > 0, own > 0, stream))
        if then is None:
            return None
        joined, factors, first = self.start()
        factors, bends = factors[: 1 + form.bends], factors[2:]
        count = first + form.arriving + form.leaving
        made = joined.add(then.program, [*factors, *[Operand("i", k) for k in range(first, count)]])
        if own:
            bar1, bar2, *made = made
            inner = lowered([element("a") * element("b") + element("c") * element("d")], [*"abcd"])
            made = joined.add(inner, [bar1, bends[0], bar2, bends[1]]) * own + made
        return switch_of("gradient of a stream behind an activation", joined.program(count, 0, made))


def _halves(form: Form, t: Sequence[Expression], g: Sequence[Expression]) -> dict[int, Expression]:
    """By tangent i half of the gradient for t_i of the sum over all groups of g times its pairs' t_i t_j."""
    terms: dict[int, list[Expression]] = {}
    for u, group in zip(g[form.d :], form.groups, strict=True):
        half = u * 0.5 if any(i != j for i, j in group) else u
        for i, j in group:
            terms.setdefault(i, []).append((u if i == j else half) * t[j])
            if i != j:
                terms.setdefault(j, []).append(half * t[i])
    return {i: added_up(listed) for i, listed in terms.items()}
