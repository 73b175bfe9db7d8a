"""Axes and curves as SVG, in the colours of the page's style, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape

from ..report import three_digits
from .story import Bars, Chapter, Lines

WIDTH, HEIGHT = 360, 220  # of the drawing; text of 12 units is readable at the width of a phone
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 40


def linear_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most some `most` round numbers from low to high."""
    rough = (high - low or abs(high) or 1.0) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, with 2 and 5 between them where those are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) >= 3:
            return inside
    return inside if len(inside) > 1 else linear_ticks(low, high, 3)


def bar_axis(chapter: Chapter, bars: Bars) -> tuple[float, list[float]]:
    """The end of the axis, and its ticks from zero on, in the figures' own unit."""
    longest = max(chapter.value(bar.total.path) for _, group in bars.groups for bar in group) / bars.unit
    ticks = linear_ticks(0, longest or 1.0, 4)
    return max(longest, ticks[-1]) * bars.unit or 1.0, [tick * bars.unit for tick in ticks]


def line_chart(chapter: Chapter, lines: Lines) -> Markup:
    """The curves on common axes."""
    curves = [(line, chapter.value(line.path)) for line in lines.lines]
    numbers = [v for _, values in curves for v in values if math.isfinite(v) and (v > 0 or not lines.log)]
    numbers += [] if lines.target is None else [lines.target]
    low, high = min(numbers), max(numbers)
    if lines.percent:
        low, high = max(0.0, low - 0.02), 1.0
    if low == high:
        low, high = 0.9 * low, 1.1 * high or 1.0
    last = lines.every * max(len(values) for _, values in curves)
    y_of = _vertical(low, high, lines.log)

    def x_of(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - lines.every) / max(last - lines.every, 1)

    ticks = log_ticks(low, high) if lines.log else linear_ticks(low, high, 4)
    parts = [_horizontal(y_of(tick), f"{tick:.0%}" if lines.percent else three_digits(tick)) for tick in ticks]
    steps = [tick for tick in linear_ticks(0, last, 4) if tick >= lines.every and tick == int(tick)]
    parts += [_text(x_of(tick), HEIGHT - 22, f"{tick:g}", "middle") for tick in steps]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, lines.across, "middle"))
    if lines.target is not None:
        y = y_of(lines.target)
        parts.append(f'<path class="target" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT + 2, y - 5, f"target {lines.target:.0%}", "start"))
    for line, values in curves:
        points = [
            f"{x_of(lines.every * (i + 1)):.1f},{y_of(v):.1f}"
            for i, v in enumerate(values) if math.isfinite(v) and (v > 0 or not lines.log)
        ]  # fmt: skip
        dashes = ' stroke-dasharray="7 5"' if line.dashed else ""
        parts.append(f'<polyline style="stroke: var(--{line.colour})"{dashes} points="{" ".join(points)}"/>')
    return Markup(
        f'<svg class="lines" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(lines.title)}">'
        f"{''.join(parts)}</svg>"
    )


def _vertical(low: float, high: float, log: bool) -> Callable[[float], float]:
    scale: Any = math.log if log else float
    bottom, top = scale(low), scale(high)

    def y_of(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - scale(value)) / (top - bottom)

    return y_of


def _horizontal(y: float, words: str) -> str:
    return f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>' + _text(LEFT - 6, y + 4, words, "end")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
