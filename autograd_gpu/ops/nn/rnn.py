"""One Elman RNN layer over whole sequences, in one direction: h = act(x + h_before @ w_hhᵀ), with tanh or relu.

x is the input's part, a matrix row per sequence and step. Derivatives of every order come from the rules; a plain
backward computes the same on arrays (`_fused`), as in lstm.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.step_operands import prepared, turned
from ...core.extend import RAW, SAME, defop, one_by_one
from . import activation
from .recurrence import Carried, folded, joined, narrowed, preceding, steps, times

Array = Any
FAMILIES = {True: activation.relu.family, False: activation.tanh.family}  # by the flag `relu`


def _numpy_step(x, product, relu, out):
    """Writes a step's output, given its product."""
    product += x
    np.maximum(product, 0, out=out) if relu else np.tanh(product, out=out)


def _cuda_step(x, product, relu, out):
    """`_numpy_step` by a kernel."""
    kernels.rnn_step(FAMILIES[relu].cuda.activation(), x, product, out)


def _forward(step, xp, x, h0, w_hh, *, sizes, reverse=False, relu=False):
    """The outputs of all steps, and the last ones of each sequence."""
    dtype = x.dtype
    x, h0, w_hh = prepared(xp, x, h0, w_hh)
    out, weight, h = backend.empty(xp, x.shape, x.dtype), turned(xp, w_hh, len(sizes)), Carried(RAW, h0)
    for at in steps(sizes, reverse):
        product, h.rows = backend.matmul(h.enter(at.stop - at.start), weight), out[at]
        step(x[at], product, relu, h.rows)
    return narrowed(dtype, (out, h.final().copy()))


def _numpy_pull(out, relu):
    """dx, and the function that writes a step of it: the derivatives of all steps come first, in one pass."""
    dx = (out > 0).astype(out.dtype) if relu else 1 - out * out

    def pull(at: slice, own: Array | None, to_h: Array) -> None:
        dx[at] *= to_h if own is None else to_h + own

    return dx, pull


def _cuda_pull(out, relu):
    """`_numpy_pull` by a kernel for each step."""
    dx = backend.namespace(out).empty_like(out)

    def pull(at: slice, own: Array | None, to_h: Array) -> None:
        kernels.rnn_step_backward(FAMILIES[relu].cuda.activation(), own, to_h, out[at], dx[at])

    return dx, pull


def _fused(make_pull, F, g, need, h0, w_hh, out, sizes, reverse, relu):
    """All gradients of a plain backward."""
    if not out.size:
        return None
    dtype, xp = out.dtype, backend.namespace(out)
    g_out, g_h, h0, w_hh, out = prepared(xp, *g, h0, w_hh, out)
    dx, pull = make_pull(out, relu)
    dh = Carried(RAW, g_h, h0)
    for at in reversed(steps(sizes, reverse)):
        to_h, own = dh.enter(at.stop - at.start), None if g_out is None else g_out[at]
        pull(at, own, to_h)
        dh.rows = backend.matmul(dx[at], w_hh)
    before = joined(RAW, preceding(RAW, h0, out, sizes, reverse), reverse) if need[2] else None
    return narrowed(dtype, (dx, dh.final(), None if before is None else backend.matmul(dx.T, before)))


def _grads(F, g, need, h0, w_hh, out, sizes, reverse, relu):
    """The gradients for x, h0 and w_hh."""
    g_out, g_h = g
    pull = F.relu_grad if relu else F.tanh_grad
    dh, parts = Carried(F, g_h, h0), []
    for at in reversed(steps(sizes, reverse)):
        to_h = dh.enter(at.stop - at.start)
        if g_out is not None:
            to_h = to_h + F.basic_index(g_out, at)
        parts.append(pull(to_h, F.basic_index(out, at)))
        dh.rows = F.gemm(parts[-1], w_hh, False, False)
    dx, dw_hh = joined(F, parts, not reverse), None
    if need[2]:
        dw_hh = F.gemm(dx, joined(F, preceding(F, h0, out, sizes, reverse), reverse), True, False)
    return dx, dh.final(), dw_hh


def _jvp(F, t, h0, w_hh, out, sizes, reverse, relu):
    """The tangents of both results, step by step."""
    t_x, t_h, t_w = t
    push = F.relu_grad if relu else F.tanh_grad
    t_in = F.constant_like(out, 0.0) if t_x is None else t_x
    if t_w is not None:
        t_in = t_in + F.gemm(joined(F, preceding(F, h0, out, sizes, reverse), reverse), t_w, False, True)
    th, states = Carried(F, t_h, h0), []
    for at in steps(sizes, reverse):
        ta = F.gemm(th.enter(at.stop - at.start), w_hh, False, True) + F.basic_index(t_in, at)
        th.rows = push(ta, F.basic_index(out, at))
        states.append(th.rows)
    return joined(F, states, reverse), th.final()


def _batch(F, n, batched, x, h0, w_hh, *, sizes, reverse, relu):
    """Examples are further sequences, unless each has weights of its own."""
    if batched[2]:
        def run(*inputs): return F.rnn_layer(*inputs, sizes=sizes, reverse=reverse, relu=relu)
        return one_by_one(F, "rnn_layer", run, n, batched, (x, h0, w_hh))

    def run_all(x, h0): return F.rnn_layer(x, h0, w_hh, sizes=times(sizes, n), reverse=reverse, relu=relu)
    return folded(F, n, batched[:2], (x, h0), run_all)


@defop
class rnn_layer:
    """out (rows, H) and h_n (sequences, H) of x (rows, H), h0 and w_hh (H, H), with tanh or `relu`.

    `sizes` are the numbers of sequences of each step, and `reverse` begins at the last step (ops/nn/recurrence.py). x
    holds the input's part, with both biases.

    >>> from autograd_gpu.ops.nn.rnn import rnn_layer
    >>> rnn_layer(ag.ones(3, 1), ag.zeros(1, 1), ag.ones(1, 1), sizes=(1, 1, 1), relu=True).h_n
    tensor([[3.]])
    """

    forward, cuda = partial(_forward, _numpy_step), partial(_forward, _cuda_step)
    grads = _grads
    fused, fused_cuda = partial(_fused, _numpy_pull), partial(_fused, _cuda_pull)
    jvp, batch = _jvp, _batch
    outputs, types = ("out", "h_n"), SAME
