"""Differences and gradients along a dimension, and the trapezoidal rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backend.arrays.dtypes import bool_
from ...core.extend import BROADCASTING, FLOAT, LINEAR, RECORD, Tensor, along, defop, other_words, public
from .._support.half_precision import in_float32
from ..indexing.basic_index import key_along, narrow, wrap_dim
from ..shape.concat import cat
from ..shape.reshape import reshape
from .cumulative import cumsum
from .sum import sum


def _neighbours(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """x without the last, and without the first index of `dim`."""
    n = x.shape[dim] - 1
    return narrow(x, dim, 0, n), narrow(x, dim, 1, n)


@defop
class scaled:
    """x * factor / divisor for constants, which are not saved.

    >>> from autograd_gpu.ops.reduction.difference import scaled
    >>> scaled(ag.tensor([1.0, 2.0]), 3, 2)
    tensor([1.5, 3. ])
    """

    @in_float32
    def forward(xp, x, *, factor=1, divisor=1): return (x if factor == 1 else x * factor) / divisor
    def grad_x(F, g, factor, divisor): return F.scaled(g, factor, divisor)
    types = FLOAT
    jvp, batch = LINEAR, BROADCASTING


# ---- differences ---------------------------------------------------------------------------------------


def _differences(xp, x, *, dim):
    low, high = x[key_along(dim, slice(None, -1))], x[key_along(dim, slice(1, None))]
    return xp.logical_xor(high, low) if x.dtype.kind == "b" else high - low


def _differences_back(F, g, x_shape, dim):
    high = F.basic_index_backward(g, key_along(dim, slice(1, None)), x_shape)
    return high - F.basic_index_backward(g, key_along(dim, slice(None, -1)), x_shape)


@defop
class differences:
    """x[i + 1] - x[i] along a negative `dim`; for bools exclusive or.

    >>> ag.diff(ag.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """

    forward = _differences
    grad_x = _differences_back
    jvp, batch = LINEAR, along("dim")
    keeps_layout = True


@public(methods=True, out=True)
@other_words
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:  # fmt: skip
    """The n-th differences along `dim` of input with `prepend` and `append` concatenated; for bools exclusive or.

    >>> ag.diff(ag.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    at = wrap_dim(dim, input.ndim)
    parts = [t for t in (prepend, input, append) if t is not None]
    input = cat(parts, at) if len(parts) > 1 and n else input
    for _ in range(n):
        input = differences(input, at - input.ndim)
    return input if n else RECORD.clone(input)


def _slope(x: Tensor, dim: int, gaps: Any, edge_order: int) -> Tensor:
    """The derivative along `dim`; `gaps` is one distance, or a vector of the distances between neighbours."""
    n = x.shape[dim]
    if n < edge_order + 1:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1, but dimension "
                           f"{dim} has size {n}")
    if isinstance(gaps, Tensor):
        gaps = reshape(gaps, [-1 if d == dim else 1 for d in range(x.ndim)])
    steps = diff(x, 1, dim)
    steps = steps / gaps if isinstance(gaps, Tensor) else scaled(steps, 1, gaps)  # the difference quotients
    if n == 2:
        return cat([steps, steps], dim)

    def part(y: Tensor, start: int, count: int) -> Tensor:
        return narrow(y, dim, start, count)

    before, after = part(steps, 0, n - 2), part(steps, 1, n - 2)
    if isinstance(gaps, Tensor):
        left, right = part(gaps, 0, n - 2), part(gaps, 1, n - 2)
        inner = RECORD.lerp(before, after, left / (left + right))
    else:
        inner = scaled(before + after, 1, 2)
    first, last = part(steps, 0, 1), part(steps, n - 2, 1)
    if edge_order == 2:  # for a parabola the difference quotient of two points is the mean of the derivatives at them
        first, last = scaled(first, 2) - part(inner, 0, 1), scaled(last, 2) - part(inner, n - 3, 1)
    return cat([first, inner, last], dim)


@public()
@other_words
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivatives of a function with values input on a grid, one per dimension in `dim` (None for all).

    Central differences in the interior, one-sided differences of order `edge_order` (1 or 2) at the edges. `spacing` is
    one distance for all dimensions (None: 1), or a list with one distance or one vector of coordinates per dimension.

    >>> ag.gradient(ag.tensor([0.0, 1.0, 4.0, 9.0]))
    (tensor([1., 2., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if not input.is_floating_point():
        input = input.float()
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    at = [wrap_dim(d, input.ndim) for d in dims]
    if len(set(at)) < len(at):
        raise RuntimeError("dim appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(at)
    if len(spacings) != len(at):
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to "
                           f"'dim' ({len(at)}), but got a list of length {len(spacings)}")
    gaps = [diff(s) if isinstance(s, Tensor) and s.ndim else s for s in spacings]
    return tuple(_slope(input, d, gap, edge_order) for d, gap in zip(at, gaps, strict=True))


# ---- the trapezoidal rule ------------------------------------------------------------------------------


def _trapezoids(name: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    """Twice the areas between neighbours along `dim`, for a number dx without that factor."""
    if not y.ndim or y.dtype == bool_:
        raise RuntimeError(f"{name}: received a bool or 0-d input for `y`, but they are not supported")
    if x is not None and dx is not None:
        raise TypeError(f"{name}(): give the coordinates x or their distance dx, not both")
    low, high = _neighbours(y, dim) if y.shape[dim] else (y, y)
    if x is None:
        return low + high
    if x.dtype == bool_:
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    if x.ndim == 1 < y.ndim:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        return reshape(diff(x), [-1 if d == dim else 1 for d in range(y.ndim)]) * (low + high)
    return diff(x, 1, dim - y.ndim) * (low + high)


def _halved(areas: Tensor, dx: Any) -> Tensor:
    return scaled(areas * dx, 1, 2) if isinstance(dx, Tensor) else scaled(areas, 1 if dx is None else dx, 2)


@public("trapezoid", "trapz")
@other_words
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoidal rule, at the points x, or at distance dx (default 1).

    >>> ag.trapezoid(ag.tensor([1.0, 2.0, 3.0]), dx=2)
    tensor(8.)
    """
    at = wrap_dim(dim, y.ndim)
    return _halved(sum(_trapezoids("trapezoid", y, x, dx, at), at - y.ndim), dx)


@public()
@other_words
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals of y along `dim` up to its second, third, ... point, see ag.trapezoid.

    >>> ag.cumulative_trapezoid(ag.tensor([1.0, 2.0, 3.0]))
    tensor([1.5, 4. ])
    """
    at = wrap_dim(dim, y.ndim)
    return _halved(cumsum(_trapezoids("cumulative_trapezoid", y, x, dx, at), at - y.ndim), dx)
