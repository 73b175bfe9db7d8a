"""README's picture: our time over PyTorch's for the cases of the headline table, as an SVG that needs no package.

One row per case, one mark per device, on an axis with equal factors: 1 is PyTorch, marks to the left of it are faster.
The picture has a background of its own, so that it can be read on a light and a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from .headline_tables import DEVICES, SHOWN, measured_cases, peer_in

WIDTH, ROW, TOP, LEFT, RIGHT = 860, 26, 76, 368, 44
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
RANGE = (0.02, 32)
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11px; fill: #59636e; }
.page { fill: #f6f8fa; }
.grid { stroke: #d1d9e0; } .one { stroke: #59636e; stroke-width: 1.5; } .link { stroke: #afb8c1; stroke-width: 2; }
.cpu { fill: #2b6cb0; } .cuda { fill: #c2410c; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .small { fill: #9198a1; } .page { fill: #151b23; }
  .grid { stroke: #3d444d; } .one { stroke: #9198a1; } .link { stroke: #656c76; }
  .cpu { fill: #63b3ed; } .cuda { fill: #fb923c; }
}
""".strip()


def render(results: Sequence[dict[str, Any]]) -> str:
    """The SVG; ValueError for a ratio that lies outside of the axis."""
    measured, rows = measured_cases(results), []
    for row in SHOWN:
        cases = {device: measured.get((device, row.benchmark, getattr(row, device))) for device in DEVICES}
        ratios = {device: case["contenders"][peer]["ratio"] for device, case in cases.items()
                  if case and (peer := peer_in(case, "torch"))}
        if ratios:
            rows.append((row.label.replace("`", ""), ratios))
    bottom = TOP + ROW * len(rows)
    parts = [*frame(bottom), *legend()]
    for i, (label, ratios) in enumerate(rows):
        parts += marks(label, ratios, TOP + ROW * i + ROW / 2)
    title = "Our time over PyTorch's, by case"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 40}" width="{WIDTH}" '
            f'height="{bottom + 40}" role="img" aria-label="{title}">\n<title>{title}</title>\n<style>\n{STYLE}\n'
            f"</style>\n" + "\n".join(parts) + "\n</svg>\n")


def place(ratio: float) -> float:
    """The horizontal place of a ratio."""
    low, high = map(math.log, RANGE)
    if not RANGE[0] <= ratio <= RANGE[1]:
        raise ValueError(f"the ratio {ratio:.3g} lies outside of the axis {RANGE}; widen RANGE")
    return LEFT + (math.log(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def frame(bottom: float) -> list[str]:
    """The background, the axis with its ticks, and what its two sides mean."""
    parts = [f'<rect class="page" width="{WIDTH}" height="{bottom + 40}" rx="8"/>']
    for tick in TICKS:
        x = place(tick)
        parts.append(f'<line class="{"one" if tick == 1 else "grid"}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" '
                     f'y2="{bottom + 4}"/>')
        parts.append(text(x, bottom + 20, f"{tick:g}", "small", "middle"))
    one = place(1)
    parts += [text(one - 10, TOP - 14, "← faster than PyTorch", "small", "end"),
              text(one + 10, TOP - 14, "slower →", "small"),
              text(LEFT - 12, bottom + 20, "our time / PyTorch's", "small", "end")]
    return parts


def legend() -> list[str]:
    """What the marks are."""
    cpu, cuda = shape("cpu", 24, 30), shape("cuda", 86, 30)
    return [cpu, text(36, 34.5, DEVICES["cpu"]), cuda, text(98, 34.5, DEVICES["cuda"])]


def marks(label: str, ratios: dict[str, float], y: float) -> list[str]:
    """A row: the label, a mark per device, a line between them, and the figures on the outer sides."""
    ordered = sorted(ratios.items(), key=lambda item: item[1])
    first, last = ordered[0][1], ordered[-1][1]
    parts = [text(LEFT - 12, y + 4.5, label, anchor="end"),
             f'<line class="link" x1="{place(first):.1f}" x2="{place(last):.1f}" y1="{y}" y2="{y}"/>']
    parts += [shape(device, place(ratio), y) for device, ratio in ordered]
    parts.append(text(place(first) - 10, y + 4, figure(first), "small", "end"))
    if len(ordered) > 1:
        parts.append(text(place(last) + 10, y + 4, figure(last), "small"))
    return parts


def figure(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def shape(device: str, x: float, y: float) -> str:
    """A circle for the CPU, a square for CUDA: the colours need not be told apart."""
    if device == "cpu":
        return f'<circle class="cpu" cx="{x:.1f}" cy="{y}" r="5.5"/>'
    return f'<rect class="cuda" x="{x - 5:.1f}" y="{y - 5}" width="10" height="10"/>'


def text(x: float, y: float, content: str, style: str = "", anchor: str = "start") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(content)}</text>'
