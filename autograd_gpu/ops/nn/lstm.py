"""One LSTM layer over whole sequences, in one direction (Hochreiter and Schmidhuber 1997).

With the input's part x of the gates, a matrix row per sequence and step:

    a = x + h_before @ w_hhᵀ                i, f, o = sigmoid(a_i, a_f, a_o), g = tanh(a_g)
    c = f * c_before + i * g                h = o * tanh(c), with a projection h = (o * tanh(c)) @ w_hrᵀ

The gates and the cells of all steps are results, which the derivatives read; so derivatives of every order come from
the rules below. A plain backward computes the same on arrays (`_fused`): the derivatives by c and h of all steps in a
few passes, then step by step what depends on the later steps, and the gradient of w_hh as one product.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
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

# ---- on arrays ---------------------------------------------------------------------------------------


def _numpy_cell(rows, x, gates, cells, values):
    """The function that computes a step's gates, cells and values o * tanh(c), given its product and c_before.

    sigmoid(a) is tanh(a / 2) / 2 + 1 / 2, to a rounding error of 1, so all gates are one tanh. The factors have the
    shape of the largest step: NumPy takes twice as long to broadcast a row.
    """
    hidden = cells.shape[1]
    scale = np.full((rows, 4 * hidden), 0.5, x.dtype)
    shift = scale.copy()
    scale[:, 2 * hidden : 3 * hidden], shift[:, 2 * hidden : 3 * hidden] = 1, 0
    i, f, g, o = columns(RAW, gates, 4)

    def cell(at: slice, product: Array, before: Array) -> None:
        now, c, value, count = gates[at], cells[at], values[at], len(product)
        product += x[at]
        product *= scale[:count]
        np.tanh(product, out=now)
        now *= scale[:count]
        now += shift[:count]
        np.multiply(f[at], before, out=c)
        np.multiply(i[at], g[at], out=value)
        c += value
        np.tanh(c, out=value)
        value *= o[at]

    return cell


def _cuda_cell(rows, x, gates, cells, values):
    """`_numpy_cell` by a kernel."""

    def cell(at: slice, product: Array, before: Array) -> None:
        kernels.lstm_step(x[at], product, before, gates[at], cells[at], values[at])

    return cell


def _forward(make_cell, xp, x, h0, c0, w_hh, w_hr=None, *, sizes, reverse=False):
    """The outputs and cells of all steps, the last ones of each sequence, and the gates."""
    dtype = x.dtype
    x, h0, c0, w_hh, w_hr = prepared(xp, x, h0, c0, w_hh, w_hr)
    gates = backend.empty(xp, x.shape, x.dtype)
    cells, values = (backend.empty(xp, (x.shape[0], w_hh.shape[0] // 4), x.dtype) for _ in range(2))
    out = values if w_hr is None else backend.empty(xp, (x.shape[0], w_hr.shape[0]), x.dtype)
    cell = make_cell(len(h0), x, gates, cells, values)
    weight, h, c = turned(xp, w_hh, len(sizes)), Carried(RAW, h0), Carried(RAW, c0)
    for at in steps(sizes, reverse):
        count = at.stop - at.start
        cell(at, backend.matmul(h.enter(count), weight), c.enter(count))
        if w_hr is not None:
            out[at] = backend.matmul(values[at], w_hr.T)
        h.rows, c.rows = out[at], cells[at]
    return narrowed(dtype, (out, h.final().copy(), cells, c.final().copy(), gates))


def _numpy_pull(gates, before, cells, sizes, reverse):
    """The gates' gradients da, and the function that computes a step of them and returns dc.

    Each is a product of the gradient of c (i, f, g) or h (o) with a factor that no other step changes. Those of a block
    of steps come first, in a few passes.
    """
    rows, hidden = cells.shape
    i, f, g, o = columns(RAW, gates, 4)
    da, by_h = backend.empty(np, (rows, 4, hidden), gates.dtype), backend.empty(np, cells.shape, gates.dtype)
    of_c, of_o, flat = da[:, :3], da[:, 3], da.reshape(rows, 4 * hidden)
    coming = blocks(sizes, not reverse, 4 * hidden)

    def factors(at: slice) -> None:
        np.subtract(1, gates[at], out=flat[at])
        flat[at] *= gates[at]
        da[at, 0] *= g[at]
        da[at, 1] *= before[at]
        new, curve = da[at, 2], by_h[at]
        np.multiply(g[at], g[at], out=new)
        np.subtract(1, new, out=new)
        new *= i[at]
        np.tanh(cells[at], out=curve)
        of_o[at] *= curve
        curve *= curve
        np.subtract(1, curve, out=curve)
        curve *= o[at]

    def pull(at: slice, own: Array | None, to_h: Array, to_c: Array) -> Array:
        block = coming.get(at.start)
        if block is not None:
            factors(block)
        if own is not None:
            to_h = to_h + own
        dc = by_h[at] * to_h
        dc += to_c
        of_c[at] *= dc[:, None]
        of_o[at] *= to_h
        dc *= f[at]
        return dc

    return flat, pull


def _cuda_pull(gates, before, cells, sizes, reverse):
    """`_numpy_pull` by a kernel for each step."""
    xp = backend.namespace(gates)
    da = xp.empty_like(gates)

    def pull(at: slice, own: Array | None, to_h: Array, to_c: Array) -> Array:
        dc = xp.empty_like(to_c)
        kernels.lstm_step_backward(own, to_h, to_c, gates[at], before[at], cells[at], da[at], dc)
        return dc

    return da, pull


def _fused(make_pull, F, g, need, h0, c0, w_hh, w_hr, out, cells, gates, sizes, reverse):
    """All gradients of a plain backward; None, so that the rules run, if cells or gates have gradients."""
    if g[2] is not None or g[4] is not None or not gates.size:
        return None
    dtype, xp = gates.dtype, backend.namespace(gates)
    g_out, g_h, g_c = prepared(xp, g[0], g[1], g[3])
    h0, c0, w_hh, w_hr, out, cells, gates = prepared(xp, h0, c0, w_hh, w_hr, out, cells, gates)
    before = joined(RAW, preceding(RAW, c0, cells, sizes, reverse), reverse)
    da, pull = make_pull(gates, before, cells, sizes, reverse)
    dh, dc = Carried(RAW, g_h, h0), Carried(RAW, g_c, c0)
    totals: Any = None if w_hr is None else backend.empty(xp, out.shape, out.dtype)
    for at in reversed(steps(sizes, reverse)):
        count = at.stop - at.start
        to_h, own = dh.enter(count), None if g_out is None else g_out[at]
        if w_hr is not None:
            totals[at] = to_h if own is None else to_h + own
            to_h, own = backend.matmul(totals[at], w_hr), None
        dc.rows = pull(at, own, to_h, dc.enter(count))
        dh.rows = backend.matmul(da[at], w_hh)
    dw_hh = dw_hr = None
    if need[3]:
        dw_hh = backend.matmul(da.T, joined(RAW, preceding(RAW, h0, out, sizes, reverse), reverse))
    if need[4]:
        dw_hr = backend.matmul(totals.T, columns(RAW, gates, 4)[3] * xp.tanh(cells))
    return narrowed(dtype, (da, dh.final(), dc.final(), dw_hh, dw_hr))


# ---- rules -------------------------------------------------------------------------------------------


def _slopes(F, gates):
    """The derivatives of i, f, g and o by their arguments."""
    i, f, g, o = columns(F, gates, 4)
    return i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)


def _grads(F, g, need, h0, c0, w_hh, w_hr, out, cells, gates, sizes, reverse):
    """The gradients for x, h0, c0, w_hh and w_hr; cells and gates are differentiable results."""
    g_out, g_h, g_cells, g_c, g_gates = g
    i, f, new, o = columns(F, gates, 4)
    slope_i, slope_f, slope_g, slope_o = _slopes(F, gates)
    before = joined(F, preceding(F, c0, cells, sizes, reverse), reverse)
    curve = F.tanh(cells)
    of_c = F.cat([slope_i * new, slope_f * before, slope_g * i], -1)
    of_o, by_h = slope_o * curve, o * (1 - curve * curve)
    direct = None if g_gates is None else g_gates * F.cat([slope_i, slope_f, slope_g, slope_o], -1)
    dh = Carried(F, g_h, h0)
    dc = Carried(F, g_c, c0)
    parts, totals = [], []
    for at in reversed(steps(sizes, reverse)):
        count = at.stop - at.start
        to_h, to_c = dh.enter(count), dc.enter(count)
        if g_out is not None:
            to_h = to_h + F.basic_index(g_out, at)
        totals.append(to_h)
        if w_hr is not None:
            to_h = F.gemm(to_h, w_hr, False, False)
        to_c = to_c + to_h * F.basic_index(by_h, at)
        if g_cells is not None:
            to_c = to_c + F.basic_index(g_cells, at)
        da = F.cat([F.cat([to_c] * 3, -1) * F.basic_index(of_c, at), to_h * F.basic_index(of_o, at)], -1)
        if direct is not None:
            da = da + F.basic_index(direct, at)
        parts.append(da)
        dc.rows = to_c * F.basic_index(f, at)
        dh.rows = F.gemm(da, w_hh, False, False)
    da, dw_hh, dw_hr = joined(F, parts, not reverse), None, None
    if need[3]:
        dw_hh = F.gemm(da, joined(F, preceding(F, h0, out, sizes, reverse), reverse), True, False)
    if need[4]:
        dw_hr = F.gemm(joined(F, totals, not reverse), o * curve, True, False)
    return da, dh.final(), dc.final(), dw_hh, dw_hr


def _jvp(F, t, h0, c0, w_hh, w_hr, out, cells, gates, sizes, reverse):
    """The tangents of all results, step by step."""
    t_x, t_h, t_c, t_w, t_projection = t
    i, f, new, o = columns(F, gates, 4)
    before = preceding(F, c0, cells, sizes, reverse)
    slopes, curve = F.cat(_slopes(F, gates), -1), F.tanh(cells)
    by_h, values = o * (1 - curve * curve), o * curve
    t_in = F.constant_like(gates, 0.0) if t_x is None else t_x
    if t_w is not None:
        t_in = t_in + F.gemm(joined(F, preceding(F, h0, out, sizes, reverse), reverse), t_w, False, True)
    th = Carried(F, t_h, h0)
    tc = Carried(F, t_c, c0)
    results = []
    for k, at in enumerate(steps(sizes, reverse)):
        count = at.stop - at.start
        ta = (F.gemm(th.enter(count), w_hh, False, True) + F.basic_index(t_in, at)) * F.basic_index(slopes, at)
        ti, tf, tg, to = columns(F, ta, 4)
        now_i, now_f, now_g = (F.basic_index(gate, at) for gate in (i, f, new))
        tc.rows = now_f * tc.enter(count) + tf * before[k] + ti * now_g + now_i * tg
        th.rows = F.basic_index(by_h, at) * tc.rows + to * F.basic_index(curve, at)
        if w_hr is not None:
            th.rows = F.gemm(th.rows, w_hr, False, True)
        if t_projection is not None:
            th.rows = th.rows + F.gemm(F.basic_index(values, at), t_projection, False, True)
        results.append((th.rows, tc.rows, ta))
    t_out, t_cells, t_gates = (joined(F, parts, reverse) for parts in zip(*results, strict=True))
    return t_out, th.final(), t_cells, tc.final(), t_gates


def _batch(F, n, batched, x, h0, c0, w_hh, w_hr, *, sizes, reverse):
    """Examples are further sequences, unless each has weights of its own."""
    if batched[3] or batched[4]:
        def run(*inputs): return F.lstm_layer(*inputs, sizes=sizes, reverse=reverse)
        return one_by_one(F, "lstm_layer", run, n, batched, (x, h0, c0, w_hh, w_hr))

    def run_all(x, h0, c0): return F.lstm_layer(x, h0, c0, w_hh, w_hr, sizes=times(sizes, n), reverse=reverse)
    return folded(F, n, batched[:3], (x, h0, c0), run_all)


@defop
class lstm_layer:
    """out (rows, H), h_n (sequences, H), cells, c_n, gates (rows, 4 H) of x (rows, 4 H), h0, c0 and w_hh (4 H, H).

    `sizes` are the numbers of sequences of each step, and `reverse` begins at the last step (ops/nn/recurrence.py). x
    holds the input's part of the gates i, f, g, o, with both biases. With a projection w_hr (P, H), out, h_n and h0
    have P columns, and w_hh is (4 H, P).

    >>> from autograd_gpu.ops.nn.lstm import lstm_layer
    >>> zero = ag.zeros(2, 1)
    >>> lstm_layer(ag.zeros(6, 4), zero, zero + 1, ag.ones(4, 1), sizes=(2, 2, 2)).c_n.shape
    (2, 1)
    """

    forward, cuda = partial(_forward, _numpy_cell), partial(_forward, _cuda_cell)
    grads = _grads
    fused, fused_cuda = partial(_fused, _numpy_pull), partial(_fused, _cuda_pull)
    jvp, batch = _jvp, _batch
    outputs, types = ("out", "h_n", "cells", "c_n", "gates"), SAME
