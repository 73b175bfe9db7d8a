"""One GRU layer over whole sequences, in one direction (Cho et al. 2014).

With the input's part x of the gates, a matrix row per sequence and step:

    u = h_before @ w_hhᵀ + b_hh             r, z = sigmoid(x_r + u_r, x_z + u_z)
    n = tanh(x_n + r * u_n)                 h = (1 - z) * n + z * h_before

The gates r, z, n and u_n of all steps are a result, which the derivatives read; so derivatives of every order come from
the rules below. A plain backward computes the same on arrays (`_fused`), as in lstm.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import float16
from ...backend.arrays.step_operands import prepared, turned
from ...core.extend import RAW, SAME, defop, one_by_one
from .recurrence import (
    Carried,
    blocks,
    columns,
    folded,
    joined,
    narrowed,
    preceding,
    steps,
    times,
)

Array = Any
LIMITS = -65504.0, 65504.0  # of float16

# ---- on arrays ---------------------------------------------------------------------------------------


def _numpy_cell(x, b_hh, gates, out):
    """The function that computes a step's gates and output from its product and h_before; sigmoid is by tanh."""
    hidden = out.shape[1]
    (r, z, n, u), both, twice = columns(RAW, gates, 4), gates[:, : 2 * hidden], slice(0, 2 * hidden)
    x_both, x_n = x[:, twice], x[:, 2 * hidden :]

    def cell(at: slice, product: Array, before: Array) -> None:
        if b_hh is not None:
            product += b_hh
        first, new, h = both[at], n[at], out[at]
        np.add(x_both[at], product[:, twice], out=first)
        first *= 0.5
        np.tanh(first, out=first)
        first *= 0.5
        first += 0.5
        u[at] = product[:, 2 * hidden :]
        np.multiply(r[at], u[at], out=new)
        new += x_n[at]
        np.tanh(new, out=new)
        np.subtract(before, new, out=h)
        h *= z[at]
        h += new

    return cell


def _cuda_cell(x, b_hh, gates, out):
    """`_numpy_cell` by a kernel."""

    def cell(at: slice, product: Array, before: Array) -> None:
        kernels.gru_step(x[at], product, b_hh, before, gates[at], out[at])

    return cell


def _forward(make_cell, xp, x, h0, w_hh, b_hh=None, *, sizes, reverse=False):
    """The outputs of all steps, the last ones of each sequence, and the gates."""
    dtype = x.dtype
    x, h0, w_hh, b_hh = prepared(xp, x, h0, w_hh, b_hh)
    hidden = w_hh.shape[1]
    gates = backend.empty(xp, (x.shape[0], 4 * hidden), x.dtype)
    out = backend.empty(xp, (x.shape[0], hidden), x.dtype)
    cell = make_cell(x, b_hh, gates, out)
    weight, h = turned(xp, w_hh, len(sizes)), Carried(RAW, h0)
    for at in steps(sizes, reverse):
        before = h.enter(at.stop - at.start)
        cell(at, backend.matmul(before, weight), before)
        h.rows = out[at]
    if dtype == float16:  # the product with h is infinite in half precision where the gate r is closed
        xp.clip(gates, *LIMITS, out=gates)
    return narrowed(dtype, (out, h.final().copy(), gates))


def _numpy_pull(gates, before, sizes, reverse):
    """The gradients dx and du, and the function that computes a step of them.

    The function returns what the output's gradient gives to h_before by itself. Each gradient is that of the output
    times a factor that no other step changes. Those of a block of steps come first, in a few passes.
    """
    rows, hidden = before.shape
    r, z, n, u = columns(RAW, gates, 4)
    dx, du = (backend.empty(np, (rows, 3, hidden), gates.dtype) for _ in range(2))
    of_x, coming = dx[:, 2], blocks(sizes, not reverse, 4 * hidden)

    def factors(at: slice) -> None:
        of_r, of_z, of_n, new = du[at, 0], du[at, 1], du[at, 2], of_x[at]
        np.subtract(1, z[at], out=of_z)
        np.multiply(n[at], n[at], out=new)
        np.subtract(1, new, out=new)
        new *= of_z
        np.multiply(new, r[at], out=of_n)
        np.subtract(1, r[at], out=of_r)
        of_r *= of_n
        of_r *= u[at]
        of_z *= z[at]
        of_z *= before[at] - n[at]

    def pull(at: slice, own: Array | None, to_h: Array) -> Array:
        block = coming.get(at.start)
        if block is not None:
            factors(block)
        if own is not None:
            to_h = to_h + own
        now = du[at]
        now *= to_h[:, None]
        dx[at, :2] = now[:, :2]
        of_x[at] *= to_h
        return to_h * z[at]

    return dx.reshape(rows, -1), du.reshape(rows, -1), pull


def _cuda_pull(gates, before, sizes, reverse):
    """`_numpy_pull` by a kernel for each step."""
    xp, (rows, hidden) = backend.namespace(gates), before.shape
    dx, du = (xp.empty((rows, 3 * hidden), gates.dtype) for _ in range(2))

    def pull(at: slice, own: Array | None, to_h: Array) -> Array:
        passed = xp.empty_like(to_h)
        kernels.gru_step_backward(own, to_h, gates[at], before[at], dx[at], du[at], passed)
        return passed

    return dx, du, pull


def _fused(make_pull, F, g, need, h0, w_hh, b_hh, out, gates, sizes, reverse):
    """All gradients of a plain backward; None, so that the rules run, if the gates have gradients."""
    if g[2] is not None or not gates.size:
        return None
    dtype, xp = gates.dtype, backend.namespace(gates)
    g_out, g_h, h0, w_hh, out, gates = prepared(xp, *g[:2], h0, w_hh, out, gates)
    before = joined(RAW, preceding(RAW, h0, out, sizes, reverse), reverse)
    dx, du, pull = make_pull(gates, before, sizes, reverse)
    dh = Carried(RAW, g_h, h0)
    for at in reversed(steps(sizes, reverse)):
        dh.rows = pull(at, None if g_out is None else g_out[at], dh.enter(at.stop - at.start))
        backend.add_matmul(dh.rows, du[at], w_hh)
    dw_hh = backend.matmul(du.T, before) if need[2] else None
    db_hh = backend.total(xp, du, 0) if need[3] else None
    return narrowed(dtype, (dx, dh.final(), dw_hh, db_hh))


# ---- rules -------------------------------------------------------------------------------------------


def _through_gates(F, g_gates, gates):
    """What gradients of the gates r, z, n and u_n give to u and to x_n."""
    r, z, n, u = columns(F, gates, 4)
    g_r, g_z, g_n, g_u = columns(F, g_gates, 4)
    to_n = g_n * (1 - n * n)
    return F.cat([(g_r + to_n * u) * (r * (1 - r)), g_z * (z * (1 - z)), g_u + to_n * r], -1), to_n


def _grads(F, g, need, h0, w_hh, b_hh, out, gates, sizes, reverse):
    """The gradients for x, h0, w_hh and b_hh; the gates are a differentiable result."""
    g_out, g_h, g_gates = g
    r, z, n, u = columns(F, gates, 4)
    before = joined(F, preceding(F, h0, out, sizes, reverse), reverse)
    of_x = (1 - n * n) * (1 - z)
    of_u = F.cat([of_x * u * (r * (1 - r)), (before - n) * (z * (1 - z)), of_x * r], -1)
    to_u, to_n = (None, None) if g_gates is None else _through_gates(F, g_gates, gates)
    dh = Carried(F, g_h, h0)
    parts, totals = [], []
    for at in reversed(steps(sizes, reverse)):
        to_h = dh.enter(at.stop - at.start)
        if g_out is not None:
            to_h = to_h + F.basic_index(g_out, at)
        du = F.cat([to_h] * 3, -1) * F.basic_index(of_u, at)
        if to_u is not None:
            du = du + F.basic_index(to_u, at)
        parts.append(du)
        totals.append(to_h)
        dh.rows = F.gemm(du, w_hh, False, False) + to_h * F.basic_index(z, at)
    du, dn = joined(F, parts, not reverse), joined(F, totals, not reverse) * of_x
    dx = F.cat([*columns(F, du, 3)[:2], dn if to_n is None else dn + to_n], -1)
    dw_hh = F.gemm(du, before, True, False) if need[2] else None
    return dx, dh.final(), dw_hh, F.sum(du, 0) if need[3] else None


def _jvp(F, t, h0, w_hh, b_hh, out, gates, sizes, reverse):
    """The tangents of all results, step by step."""
    t_x, t_h, t_w, t_b = t
    r, z, n, u = columns(F, gates, 4)
    before = joined(F, preceding(F, h0, out, sizes, reverse), reverse)
    of_r, of_z, of_n = r * (1 - r), z * (1 - z), 1 - n * n
    t_pre = F.constant_like(F.basic_index(gates, (..., slice(0, 3 * h0.shape[-1]))), 0.0)
    if t_w is not None:
        t_pre = t_pre + F.gemm(before, t_w, False, True)
    if t_b is not None:
        t_pre = t_pre + t_b
    th, pairs = Carried(F, t_h, h0), []
    for at in steps(sizes, reverse):
        def now(x): return F.basic_index(x, at)  # noqa: B023
        carried = th.enter(at.stop - at.start)
        tu_r, tu_z, tu = columns(F, F.gemm(carried, w_hh, False, True) + now(t_pre), 3)
        tx_r, tx_z, tx_n = (0, 0, 0) if t_x is None else columns(F, now(t_x), 3)
        tr, tz = (tu_r + tx_r) * now(of_r), (tu_z + tx_z) * now(of_z)
        tn = (tr * now(u) + now(r) * tu + tx_n) * now(of_n)
        th.rows = tn + tz * now(before - n) + now(z) * (carried - tn)
        pairs.append((th.rows, F.cat([tr, tz, tn, tu], -1)))
    t_out, t_gates = (joined(F, parts, reverse) for parts in zip(*pairs, strict=True))
    return t_out, th.final(), t_gates


def _batch(F, n, batched, x, h0, w_hh, b_hh, *, sizes, reverse):
    """Examples are further sequences, unless each has weights of its own."""
    if batched[2] or batched[3]:
        def run(*inputs): return F.gru_layer(*inputs, sizes=sizes, reverse=reverse)
        return one_by_one(F, "gru_layer", run, n, batched, (x, h0, w_hh, b_hh))

    def run_all(x, h0): return F.gru_layer(x, h0, w_hh, b_hh, sizes=times(sizes, n), reverse=reverse)
    return folded(F, n, batched[:2], (x, h0), run_all)


@defop
class gru_layer:
    """out (rows, H), h_n (sequences, H) and gates (rows, 4 H) of x (rows, 3 H), h0, w_hh (3 H, H) and b_hh (3 H,).

    `sizes` are the numbers of sequences of each step, and `reverse` begins at the last step (ops/nn/recurrence.py). x
    holds the input's part of r, z and n, with its bias; the gates are r, z, n and the hidden state's part of n.

    >>> from autograd_gpu.ops.nn.gru import gru_layer
    >>> gru_layer(ag.zeros(6, 3), ag.ones(2, 1), ag.zeros(3, 1), sizes=(2, 2, 2)).h_n
    tensor([[0.125],
            [0.125]])
    """

    forward, cuda = partial(_forward, _numpy_cell), partial(_forward, _cuda_cell)
    grads = _grads
    fused, fused_cuda = partial(_fused, _numpy_pull), partial(_fused, _cuda_pull)
    jvp, batch = _jvp, _batch
    outputs, types = ("out", "h_n", "gates"), SAME
