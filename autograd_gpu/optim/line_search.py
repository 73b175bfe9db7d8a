"""A line search for the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..backend import Array

# Factors of the initial slope: sufficient decrease (c1) and curvature (c2).
SUFFICIENT, CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """A point at step size `t`: value, gradient, and slope along the line."""

    t: float
    value: float
    grad: Array
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, t: float, reach: float, limit: int, tolerance: float = 1e-9
) -> tuple[Point, int]:
    """A line search; returns the accepted point and the number of evaluations.

    Nocedal and Wright (2006), algorithms 3.5 and 3.6. 1. Enlarge the step from `t` until a point is accepted or two
    points form a bracket. 2. Shrink the bracket by cubic interpolation until a point is accepted, after `limit`
    iterations, or when the bracket changes no parameter by more than `tolerance`; `reach` is the largest absolute entry
    of the direction.
    """
    previous, point = start, evaluate(t)
    for made in range(limit):  # 1
        if _too_high(point, start) or (made > 1 and point.value >= previous.value):
            return _zoom(evaluate, start, [previous, point], reach, limit - made, tolerance, made + 1)
        if abs(point.slope) <= -CURVATURE * start.slope:
            return point, made + 1
        if point.slope >= 0.0:
            return _zoom(evaluate, start, [previous, point], reach, limit - made, tolerance, made + 1)
        bounds = point.t + 0.01 * (point.t - previous.t), 10.0 * point.t
        previous, point = point, evaluate(cubic_minimum(previous, point, bounds))
    return min(start, point, key=lambda p: p.value), limit + 1


def _zoom(
    evaluate: Callable[[float], Point],
    start: Point,
    bracket: list[Point],
    reach: float,
    limit: int,
    tolerance: float,
    evaluations: int,
) -> tuple[Point, int]:
    """Step 2; the lower end of the bracket is the best point so far."""
    low, high = _ordered(bracket)
    stalled = False
    for _ in range(limit):
        left, right = sorted([point.t for point in bracket])
        if (right - left) * reach < tolerance:
            break
        t = cubic_minimum(bracket[0], bracket[1], (left, right))
        t, stalled = _inside(t, left, right, stalled)
        point = evaluate(t)
        evaluations += 1
        if _too_high(point, start) or point.value >= bracket[low].value:
            bracket[high] = point
            low, high = _ordered(bracket)
            continue
        if abs(point.slope) <= -CURVATURE * start.slope:
            return point, evaluations
        if point.slope * (bracket[high].t - bracket[low].t) >= 0.0:
            bracket[high] = bracket[low]
        bracket[low] = point
    return bracket[low], evaluations


def _too_high(point: Point, start: Point) -> bool:
    return point.value > start.value + SUFFICIENT * point.t * start.slope


def _ordered(bracket: list[Point]) -> tuple[int, int]:
    """Indices of the lower and the higher end."""
    return (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)


def _inside(t: float, left: float, right: float, stalled: bool) -> tuple[float, bool]:
    """`t`, moved away from an end of the bracket if it is close to one for the second time; and whether it is close."""
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not stalled and left < t < right:
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """The minimizer of the cubic through both points, clamped to `bounds`; their midpoint if there is no minimum."""
    lower, upper = bounds
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3.0 * (a.value - b.value) * (1.0 / (a.t - b.t))  # rounded as in PyTorch
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0.0:
        return (lower + upper) / 2.0
    d2 = type(square)(math.sqrt(square))  # rounded correctly on every CPU, unlike a power
    divisor = b.slope - a.slope + 2.0 * d2
    if divisor == 0.0:
        return (lower + upper) / 2.0
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / divisor), lower), upper)
