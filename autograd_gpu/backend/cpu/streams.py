"""Second-order streams in NumPy: the chain rule to second order, for a block of rows that stays in the cache.

A stream (rows, S, h) holds d tangents t_i of the elements of a (rows, h) matrix, then one second tangent s_g for each
group; or no second tangents, S = d, where all are zero. A group is a tuple of pairs (i, j) of tangents.
f1 and f2 are the first two derivatives of an elementwise function; f2 is None if it is zero.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
Groups = tuple[tuple[tuple[int, int], ...], ...]

BLOCK = 16384  # elements of the matrix per block: some twenty such arrays stay in the L2 cache


def rows_per_block(h: int) -> int:
    """The number of rows of h columns in a block."""
    return max(BLOCK // max(h, 1), 1)


def push_block(f1: Array, f2: Array | None, stream: Array, out: Array, d: int, groups: Groups) -> None:
    """Writes f1 t_i, then f1 s_g + f2 times the sum over the pairs of g of t_i t_j."""
    for i in range(d):
        np.multiply(stream[:, i], f1, out=out[:, i])
    bent = [stream[:, i] * f2 for i in range(d) if f2 is not None]
    term = np.empty(f1.shape, f1.dtype)
    for k, group in enumerate(groups, d):
        second, begun = out[:, k], stream.shape[1] > d
        if begun:
            np.multiply(stream[:, k], f1, out=second)
        for i, j in group if bent else ():
            np.multiply(bent[i], stream[:, j], out=term if begun else second)
            if begun:
                second += term
            begun = True
        if not begun:
            second.fill(0)


def pull_block(
    f1: Array, f2: Array | None, stream: Array, g: Array, bar1: Array | None, bar2: Array | None, out: Array | None,
    d: int, groups: Groups,
) -> None:  # fmt: skip
    """Writes the gradients of `push_block` for f1 (bar1), f2 (bar2) and the stream (out), given that of its result.

    None for one that is not needed.
    """
    size, term = stream.shape[1], np.empty(f1.shape, f1.dtype)
    if bar1 is not None:
        _sum_of_products({k: g[:, k] for k in range(size)}, {k: stream[:, k] for k in range(size)}, bar1, term)
    if out is not None:
        for k in range(size):
            np.multiply(g[:, k], f1, out=out[:, k])
    if bar2 is None and (out is None or f2 is None):
        return
    halves = _half_pulls(stream, g, term, d, groups)
    if bar2 is not None:
        _sum_of_products(halves, {i: stream[:, i] for i in halves}, bar2, term)
    if out is not None and f2 is not None:
        twice = f2 + f2
        for i, half in halves.items():
            half *= twice
            out[:, i] += half


def _half_pulls(stream: Array, g: Array, term: Array, d: int, groups: Groups) -> dict[int, Array]:
    """By tangent i half of the gradient for t_i of the sum over all groups of u times its pairs' t_i t_j.

    The off-diagonal pairs (i, j) contribute u t_j / 2 to i and u t_i / 2 to j, the diagonal ones u t_i.
    """
    found: dict[int, Array] = {}

    def add(i: int, u: Array, j: int) -> None:
        if i in found:
            np.multiply(u, stream[:, j], out=term)
            found[i] += term
        else:
            found[i] = u * stream[:, j]

    for k, group in enumerate(groups, d):
        u = g[:, k]
        half = u * u.dtype.type(0.5) if any(i != j for i, j in group) else u
        for i, j in group:
            if i == j:
                add(i, u, i)
            else:
                add(i, half, j)
                add(j, half, i)
    return found


def _sum_of_products(a: dict[int, Array], b: dict[int, Array], out: Array, term: Array) -> None:
    """Writes the sum over the keys of a of a[key] * b[key]."""
    for n, key in enumerate(a):
        np.multiply(a[key], b[key], out=term if n else out)
        if n:
            out += term
    if not a:
        out.fill(0)


# ---- local terms -------------------------------------------------------------------------------------


def local_block(a: Array, f2: Array, t: Array, out: Array) -> None:
    """Writes the sum over h of (a f2 t_i) t_j for a (rows, o, h), f2 (rows, h), t (rows, d, h): (rows, o, d, d)."""
    (rows, o, h), d = a.shape, t.shape[1]
    left = (a * f2[:, None])[:, :, None] * t[:, None]
    out[...] = np.matmul(left.reshape(rows, o * d, h), t.swapaxes(1, 2)).reshape(rows, o, d, d)
    for i in range(1, d):
        out[:, :, i, :i] = out[:, :, :i, i]  # equal but for rounding


def pull_local_block(
    a: Array, f2: Array, t: Array, g: Array, bar_a: Array | None, bar2: Array | None, out: Array | None
) -> None:
    """Writes the gradients of `local_block` for a (bar_a), f2 (bar2) and t (out), given that of its result.

    None for one that is not needed.
    """
    (rows, o, d, _), h = g.shape, t.shape[2]
    both = (g + g.swapaxes(2, 3)).reshape(rows, o * d, d)
    pulled = np.matmul(both, t).reshape(rows, o, d, h)
    if bar_a is not None or bar2 is not None:
        curvature = (pulled * t[:, None]).sum(2)
        curvature *= curvature.dtype.type(0.5)
        if bar_a is not None:
            np.multiply(curvature, f2[:, None], out=bar_a)
        if bar2 is not None:
            np.sum(curvature * a, 1, out=bar2)
    if out is not None:
        pulled *= (a * f2[:, None])[:, :, None]
        np.sum(pulled, 1, out=out)
