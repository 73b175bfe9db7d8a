"""Second-order streams in NumPy: the chain rule to second order, for a block of rows that stays in the cache.

A stream (rows, S, h) holds d tangents t_i of the elements of a (rows, h) matrix, then one second tangent s_g for each
group; or no second tangents, S = d, where all are zero. A group is a tuple of pairs (i, j) of tangents.
f1 and f2 are the first two derivatives of an elementwise function; f2 is None if it is zero. Where there is native code
(formulas/jets.py), it takes the place of the passes, with equal bits.
"""

from __future__ import annotations

import math

import numpy as np

from ..formulas import jets
from ..formulas.native.switch import Switch
from . import pool

Array = np.ndarray
Groups = tuple[tuple[tuple[int, int], ...], ...]

BLOCK = 1 << 15  # elements of the matrix per block: with fewer, the calls of NumPy take as long as the arithmetic
NATIVE_BLOCK = 1 << 17  # of native code, a call of which takes longer
FEW = 2048  # elements of the matrix up to which the number of calls decides
FEW_TANGENTS = 5  # up to so many, local terms take less time by passes than by a product for each row
LINE = 64  # bytes of a cache line: NumPy's loops take twice as long where they write across its ends


def scratch(count: int, shape: tuple[int, ...], dtype: np.dtype) -> list[Array]:
    """Uninitialized arrays of one shape that begin with a cache line.

    The passes copy the parts of a stream into such arrays, and results out of them: NumPy copies strided rows fast, but
    other ufuncs go through its buffers for them.
    """
    size, line = math.prod(shape), LINE // dtype.itemsize
    step = -(-size // line) * line
    memory = pool.empty((count * step + line,), dtype)
    start = -memory.ctypes.data % LINE // dtype.itemsize
    return [memory[at : at + size].reshape(shape) for at in [start + k * step for k in range(count)]]


# ---- the stream behind a function ------------------------------------------------------------------------


def push_block(f1: Array, f2: Array | None, stream: Array, out: Array, d: int, groups: Groups) -> None:
    """Writes f1 t_i, then f1 s_g + f2 times the sum over the pairs of g of t_i t_j."""
    arriving, leaving = stream.shape[1], d + len(groups)
    native = jets.push(jets.Form(d, groups, arriving > d, f2 is not None))
    if native is not None and native([f1, *_given(f2), *planes(stream)], (), planes(out)) is not None:
        return
    by_planes, to_planes = _in_planes(stream), _in_planes(out)
    term, *rest = scratch(1 + d + (0 if by_planes else arriving) + (0 if to_planes else leaving), f1.shape, f1.dtype)
    bent, rest = rest[:d], rest[d:]
    t = [stream[:, k] for k in range(arriving)] if by_planes else rest[:arriving]
    results = [out[:, k] for k in range(leaving)] if to_planes else rest[len(rest) - leaving :]
    for k in range(arriving) if not by_planes else ():
        np.copyto(t[k], stream[:, k])
    for k in range(arriving):
        np.multiply(t[k], f1, out=results[k])
    if f2 is not None and groups:
        for i in range(d):
            np.multiply(t[i], f2, out=bent[i])
    for k, group in enumerate(groups, d):
        begun = k < arriving
        for i, j in group if f2 is not None else ():
            np.multiply(bent[i], t[j], out=term if begun else results[k])
            if begun:
                results[k] += term
            begun = True
        if not begun:
            results[k].fill(0)
    for k in range(leaving) if not to_planes else ():
        np.copyto(out[:, k], results[k])


def block_size(native: Switch | None, dtype: np.dtype) -> int:
    """The elements per block, where this code takes the place of the passes as soon as it is there."""
    return NATIVE_BLOCK if native is not None and native.is_ready(dtype) else BLOCK


def planes(stream: Array) -> list[Array]:
    """The matrices of each tangent."""
    return [stream[:, k] for k in range(stream.shape[1])]


def _given(array: Array | None) -> list[Array]:
    return [] if array is None else [array]


def _in_planes(stream: Array) -> bool:
    """Whether the rows of each tangent lie one after the other."""
    return stream[:, 0].flags.c_contiguous


def push_few(f1: Array, f2: Array | None, stream: Array, out: Array, d: int, groups: Groups) -> None:
    """`push_block` with fewer calls of NumPy, which take longer than the arithmetic on few elements."""
    arriving = stream.shape[1]
    np.multiply(stream, f1[:, None], out=out[:, :arriving])
    if arriving < out.shape[1]:
        out[:, arriving:] = 0
    if f2 is None or not groups:
        return
    bent = stream[:, :d] * f2[:, None]
    for k, group in enumerate(groups, d):
        result = out[:, k]
        for i, j in group:
            result += bent[:, i] * stream[:, j]


def pull_block(
    f1: Array, f2: Array | None, stream: Array, g: Array, bar1: Array | None, bar2: Array | None, out: Array | None,
    d: int, groups: Groups,
) -> None:  # fmt: skip
    """Writes the gradients of `push_block` for f1 (bar1), f2 (bar2) and the stream (out), given that of its result.

    None for one that is not needed.
    """
    needed = jets.Needed(bar1 is not None, bar2 is not None, out is not None)
    native = jets.pull(jets.Form(d, groups, stream.shape[1] > d, f2 is not None), needed) if any(needed) else None
    if native is not None:
        targets = [*_given(bar1), *_given(bar2), *(() if out is None else planes(out))]
        if native([f1, *_given(f2), *planes(stream), *planes(g)], (), targets) is not None:
            return
    u, part, *rest = scratch(2 + 2 * d, f1.shape, f1.dtype)
    t, halves = rest[:d], _Halves(rest[d:])
    for i in range(d):
        np.copyto(t[i], stream[:, i])
    bends = bar2 is not None or (out is not None and f2 is not None)
    if bar1 is not None:
        bar1.fill(0)
    for k, group in enumerate(groups, d):
        np.copyto(u, g[:, k])
        if bends:
            halves.add(u, t, group, part)
        if stream.shape[1] > d:
            if bar1 is not None:
                np.copyto(part, stream[:, k])
                part *= u
                bar1 += part
            if out is not None:
                u *= f1
                np.copyto(out[:, k], u)
    if bar2 is not None:
        _sum_of_products(halves.by_tangent, t, bar2, part)
    twice = None if f2 is None or out is None else f2 + f2
    for i in range(d):
        np.copyto(u, g[:, i])
        if bar1 is not None:
            np.multiply(u, t[i], out=part)
            bar1 += part
        if out is not None:
            u *= f1
            if i in halves.by_tangent and twice is not None:
                half = halves.by_tangent[i]
                half *= twice
                u += half
            np.copyto(out[:, i], u)


class _Halves:
    """By tangent i half of the gradient for t_i of the sum over all groups of u times its pairs' t_i t_j.

    The off-diagonal pairs (i, j) contribute u t_j / 2 to i and u t_i / 2 to j, the diagonal ones u t_i.
    """

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays, self.by_tangent = arrays, dict[int, Array]()

    def add(self, u: Array, t: list[Array], group: tuple[tuple[int, int], ...], term: Array) -> None:
        half = u * u.dtype.type(0.5) if any(i != j for i, j in group) else u
        for i, j in group:
            self._add(i, u if i == j else half, t[j], term)
            if i != j:
                self._add(j, half, t[i], term)

    def _add(self, i: int, u: Array, t: Array, term: Array) -> None:
        if i in self.by_tangent:
            np.multiply(u, t, out=term)
            self.by_tangent[i] += term
        else:
            self.by_tangent[i] = np.multiply(u, t, out=self.arrays[i])


def _sum_of_products(a: dict[int, Array], b: list[Array], out: Array, term: Array) -> None:
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
    if d > FEW_TANGENTS:
        left = (a * f2[:, None])[:, :, None] * t[:, None]
        out[...] = np.matmul(left.reshape(rows, o * d, h), t.swapaxes(1, 2)).reshape(rows, o, d, d)
        for i in range(1, d):
            out[:, :, i, :i] = out[:, :, :i, i]  # equal but for rounding
        return
    ones = np.ones(h, out.dtype)
    factor, left, term, *planes = scratch(3 + (0 if _in_planes(t) else d), f2.shape, f2.dtype)
    for i, plane in enumerate(planes):
        np.copyto(plane, t[:, i])
    for k in range(o):
        np.multiply(a[:, k], f2, out=factor)
        for i in range(d):
            np.multiply(factor, planes[i] if planes else t[:, i], out=left)
            for j in range(i, d):
                np.multiply(left, planes[j] if planes else t[:, j], out=term)
                out[:, k, i, j] = out[:, k, j, i] = np.dot(term, ones)


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
