"""The rules of the ops of jets.py as compositions of ops, on arrays and on tensors; see its Note [streams]."""

from __future__ import annotations

from typing import Any

from ...core.extend import added
from ..linalg.matmul import rows

ALL = slice(None)


def summed(F, grads, inputs):
    """The gradients, summed over the dimensions in which their inputs broadcast."""
    return tuple([
        g if g is None or g.shape == x.shape else F.sum_to(rows(F, g) if x.ndim == 1 else g, x.shape)
        for g, x in zip(grads, inputs, strict=True)
    ])  # fmt: skip


def _part(F, stream, start, stop):
    return F.basic_index(stream, (..., slice(start, stop), ALL))


def _tangents(F, stream, d):
    """The tangents t_i as a list of arrays (..., h)."""
    return [F.basic_index(stream, (..., i, ALL)) for i in range(d)]


def over_h(F, x):
    """(..., h) as (..., 1, h), beside a stream."""
    return F.unsqueeze(x, -2)


def _products(F, s, t, groups):
    """The sums over the pairs (i, j) of each group of s_i t_j: (..., P, h)."""
    return F.stack([sum([s[i] * t[j] for i, j in group[1:]], s[group[0][0]] * t[group[0][1]]) for group in groups], -2)


def _pulled(F, u, t, groups):
    """The gradient for the tangents of the sum over h and the groups of u times `_products` of t and t."""
    grads: list[Any] = [None] * len(t)
    for g, group in enumerate(groups):
        part = F.basic_index(u, (..., g, ALL))
        for i, j in group:
            grads[i] = added(grads[i], part * t[j])
            grads[j] = added(grads[j], part * t[i])
    some = next(x for x in grads if x is not None)
    return F.stack([F.constant_like(some, 0.0) if x is None else x for x in grads], -2)


def grad_f1(F, g, stream):
    """q.t + u.s."""
    return F.sum(_part(F, g, 0, stream.shape[-2]) * stream, -2)


def grad_f2(F, g, stream, d, groups):
    """y.t / 2, the sum over the groups of u times its products."""
    t = _tangents(F, stream, d)
    return F.sum(_part(F, g, d, None) * _products(F, t, t, groups), -2)


def grad_stream(F, g, f1, f2, stream, d, groups):
    """f1 q + f2 y for the tangents, f1 u for the second tangents."""
    direct, u = _part(F, g, 0, stream.shape[-2]) * over_h(F, f1), _part(F, g, d, None)
    if f2 is None or not groups:
        return direct
    bent = _pulled(F, u, _tangents(F, stream, d), groups) * over_h(F, f2)
    return direct + (bent if stream.shape[-2] == d else F.cat([bent, _zeros(F, bent, len(groups))], -2))


def _zeros(F, stream, count):
    """A stream of `count` zeros, with the leading dimensions of `stream`."""
    zero = F.constant_like(_part(F, stream, 0, 1), 0.0)
    return F.expand(zero, (*zero.shape[:-2], count, zero.shape[-1]))


def _pushed_by(F, f1, f2, stream, seconds, d, groups):
    """f1 times the stream, plus f2 times the second tangents `seconds`, which is a function."""
    straight = stream * over_h(F, f1)
    if missing := d + len(groups) - stream.shape[-2]:
        straight = F.cat([straight, _zeros(F, straight, missing)], -2)
    if f2 is None or not groups:
        return straight
    bent = seconds(_tangents(F, stream, d)) * over_h(F, f2)
    return straight + F.cat([_zeros(F, bent, d), bent], -2)


def composed(F, f1, f2, stream, d, groups):
    """The stream behind the function as a composition of ops."""
    return _pushed_by(F, f1, f2, stream, lambda t: _products(F, t, t, groups), d, groups)


def stream_jvp(F, dt, f1, f2, stream, d, groups):
    """The tangent of the result for the tangent dt of the stream."""
    t = None if f2 is None else _tangents(F, stream, d)
    return _pushed_by(
        F, f1, f2, dt, lambda moved: _products(F, moved, t, groups) + _products(F, t, moved, groups), d, groups
    )
