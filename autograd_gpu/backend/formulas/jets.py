"""The chain rule to second order as programs: native code in place of the passes of cpu/streams.py, of equal bits.

The elements are those of f1, f2, of the rows of a stream and of its gradient; each output is a row or the gradient of
f1 or f2. The order of operations is that of the passes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .expression import Expression, constant, element
from .lowering import lowered
from .native.switch import Switch, switch_of

MOST = 16  # rows of a stream, above which the passes run: a ufunc has 64 operands at most
Groups = tuple[tuple[tuple[int, int], ...], ...]


def _sum(terms: Sequence[Expression]) -> Expression:
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


def _rows(letter: str, count: int) -> list[str]:
    return [f"{letter}{k}" for k in range(count)]


@functools.lru_cache(256)
def push(form: Form) -> Switch | None:
    """The rows behind the function from f1, f2 and the rows of the stream; None if the passes have to run."""
    if form.leaving > MOST:
        return None
    f1, f2, names = element("f1"), element("f2"), _rows("t", form.arriving)
    t = [element(name) for name in names]
    rows = [x * f1 for x in t]
    for k, group in enumerate(form.groups, form.d):
        terms = [t[i] * f2 * t[j] for i, j in group] if form.bends else []
        whole = _sum([*rows[k : k + 1], *terms] or [constant(0)])
        rows[k : k + 1] = [whole]
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
        outputs.append(_sum([constant(0), *[g[k] * t[k] for k in order]]))
    if needed.f2:
        outputs.append(_sum([half * t[i] for i, half in halves.items()] or [constant(0)]))
    if needed.stream:
        rows = [g[k] * f1 for k in range(form.arriving)]
        if form.bends:
            for i, half in halves.items():
                rows[i] = rows[i] + half * (f2 + f2)
        outputs += rows
    return switch_of("gradient of a stream", lowered(outputs, [*form.derivatives, *names, *_rows("g", form.leaving)]))


def run_natively(d: int, groups: Groups, arriving: int, dtype: np.dtype) -> bool:
    """Whether there is native code by now for the push of a stream behind a function that bends."""
    switch = push(Form(d, groups, arriving > d, True))
    return switch is not None and switch.is_ready(dtype)


def _halves(form: Form, t: Sequence[Expression], g: Sequence[Expression]) -> dict[int, Expression]:
    """By tangent i half of the gradient for t_i of the sum over all groups of g times its pairs' t_i t_j."""
    terms: dict[int, list[Expression]] = {}
    for u, group in zip(g[form.d :], form.groups, strict=True):
        half = u * 0.5 if any(i != j for i, j in group) else u
        for i, j in group:
            terms.setdefault(i, []).append((u if i == j else half) * t[j])
            if i != j:
                terms.setdefault(j, []).append(half * t[i])
    return {i: _sum(listed) for i, listed in terms.items()}
