"""Plots as HTML and SVG, whose colours come from the style sheet: they follow light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..report import three_digits

COLOURS = 15  # --c0 and on in page.css
LEAST, MOST = 1 / 16, 16.0  # ends of the axis of ratios
TICKS = {1 / 16: "1/16", 1 / 4: "1/4", 1.0: "1", 4.0: "4", 16.0: "16"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 240, 46, 12, 10, 34
Curve = Sequence[tuple[float, float]]


class Ratio(NamedTuple):
    """A ratio of ours to a peer, with its quartiles; `mark` numbers its colour."""

    mark: int
    value: float
    low: float
    high: float
    title: str


def text(value: object) -> str:
    return html.escape(str(value))


def colour(mark: int) -> str:
    return f"--mark: var(--c{mark % COLOURS})"


def legend(names: Sequence[str], marks: Sequence[int] | None = None) -> str:
    items = [f'<li style="{colour(mark)}"><i></i>{text(name)}</li>'
             for name, mark in zip(names, marks or range(len(names)), strict=True)]
    return f'<ul class="legend">{"".join(items)}</ul>'


def at(ratio: float) -> float:
    """Where a ratio lies on the axis, in percent."""
    inside = min(max(ratio, LEAST), MOST)
    return 100 * math.log(inside / LEAST) / math.log(MOST / LEAST)


def ratio_row(label: str, ratios: Sequence[Ratio]) -> str:
    """A label, a mark per ratio on the logarithmic axis, and the numbers."""
    parts = [f'<i class="tick{" one" if tick == 1 else ""}" style="left: {at(tick):.1f}%"></i>' for tick in TICKS]
    step = 100 / (len(ratios) + 1)
    for place, ratio in enumerate(ratios, 1):
        top, style = step * place, colour(ratio.mark)
        beyond = " beyond" if ratio.value > MOST else " beyond low" if ratio.value < LEAST else ""
        low, high = at(ratio.low), at(ratio.high)
        parts.append(f'<i class="span" style="{style}; top: calc({top:.0f}% - 1.5px); left: {low:.2f}%; '
                     f'width: {high - low:.2f}%"></i>')
        parts.append(f'<i class="dot{beyond}" title="{text(ratio.title)}" '
                     f'style="{style}; top: calc({top:.0f}% - 1.5px); left: {at(ratio.value):.2f}%"></i>')
    numbers = "".join(f'<b style="{colour(r.mark)}" title="{text(r.title)}">{short(r.value)}</b>' for r in ratios)
    return (f'<div class="row"><span class="label">{label}</span><span class="track">{"".join(parts)}</span>'
            f'<span class="numbers">{numbers}</span></div>')


def ratio_axis(left: str, right: str) -> str:
    names = list(TICKS.items())
    ticks = [f'<span class="{"first" if i == 0 else "last" if i == len(names) - 1 else ""}" '
             f'style="left: {at(value):.1f}%">{name}</span>' for i, (value, name) in enumerate(names)]
    return (f'<div class="row axis"><span class="label">{text(left)}</span><span class="track">{"".join(ticks)}</span>'
            f'<span class="numbers">{text(right)}</span></div>')


def short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def curves(by_name: Mapping[str, Curve], marks: Mapping[str, int], across: str, up: str, ours: str) -> str:
    """Curves over a number, both axes logarithmic."""
    xs = sorted({x for curve in by_name.values() for x, _ in curve})
    ys = [y for curve in by_name.values() for _, y in curve]
    low, high = math.log10(min(ys)), math.log10(max(ys))
    low, high = low - 0.05 * (high - low) - 0.02, high + 0.05 * (high - low) + 0.02

    def place(x: float, y: float) -> tuple[float, float]:
        span = math.log(xs[-1] / xs[0]) or 1.0
        return (LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / xs[0]) / span,
                HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(y) - low) / (high - low))

    parts = []
    for tick in ticks_between(10**low, 10**high):
        y = place(xs[0], tick)[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{three_digits(tick)}</text>')
    for i, x in enumerate(xs):
        left = place(x, ys[0])[0]
        anchor = "middle" if i < len(xs) - 1 else "end"
        parts.append(f'<text x="{left + (6 if anchor == "end" else 0):.1f}" y="{HEIGHT - BOTTOM + 16}" '
                     f'text-anchor="{anchor}">{x:g}</text>')
    base = HEIGHT - BOTTOM
    parts.append(f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
                 f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 3}" text-anchor="middle">{text(across)}</text>')
    for name, curve in sorted(by_name.items(), key=lambda item: item[0] == ours):  # ours on top
        points = [place(x, y) for x, y in curve]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{text(name)}, {across} {a:g}: '
                       f'{three_digits(b)} {up}</title></circle>' for (x, y), (a, b) in zip(points, curve, strict=True))
        kind = ' class="ours"' if name == ours else ""
        parts.append(f'<g style="{colour(marks[name])}"><polyline{kind} points="{line}"/>{dots}</g>')
    return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(up)} over {text(across)}">'
            f'{"".join(parts)}</svg>')


def ticks_between(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic axis: 1, 2, 5 of each decade, or the decades alone where there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [step * 10.0**d for d in decades for step in steps if low <= step * 10.0**d <= high]


def bar(share: float, label: str, mark: int) -> str:
    """A bar that is `share` of its column, which leaves room for the label."""
    return (f'<span class="bar" style="{colour(mark)}"><i style="width: {70 * share:.1f}%"></i>'
            f"<span>{text(label)}</span></span>")
