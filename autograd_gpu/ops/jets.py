"""The chain rule to second order through a function of single elements: what a Hessian is made of.

Note [streams]
A value z (..., h) carries the stream (..., S, h): on the axis before the last the d tangents t_i of z along the inputs'
directions, then P second tangents s_g. `groups` has a tuple of pairs (i, j) for each g, whose second derivatives s_g
adds up:

    full Hessian    ((0, 0),), ((0, 1),), ((1, 1),)     a group for each pair i <= j
    its diagonal    ((0, 0),), ((1, 1),)
    Laplacian       ((0, 0), (1, 1)),                   one group

S = d says that all second tangents are zero; behind the function they are not. The leading dimensions of all inputs
broadcast: the stream of a first layer is its weight, and has none.

With act'(z) = f1 and act''(z) = f2, the stream of act(z) is

    q_i = f1 t_i        u_g = f1 s_g + f2 * (sum over the pairs (i, j) of g of t_i t_j)

Given the gradients of q and u, and y_i = sum over all pairs (i, j) of (1 + [i = j]) u_g t_j, in either order of i and
j, those of f1 are q.t + u.s, of f2 y.t / 2, of t_i f1 q_i + f2 y_i, and of s_g f1 u_g.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import kernels
from ..backend.cpu import rows as cpu_rows
from ..backend.cpu import streams
from ..backend.formulas import jets
from ..core.extend import RAW, SAME, added, aligned, defop
from ._support.half_precision import in_float32
from ._support.stream_rows import (
    as_rows,
    common_lead,
    for_kernel,
    gradients_by_blocks,
    line_up,
    pushed_by_blocks,
    stream_lead,
    widened,
)
from ._support.stream_rules import composed, grad_f1, grad_f2, grad_stream, over_h, stream_jvp, summed
from .jet_factors import factors, operands, pulled_natively, pushed_natively
from .nn.linear_activation import ACTIVATIONS, applied, by_result

Array = Any

# ---- the stream behind any function --------------------------------------------------------------------


def _chained(xp, f1, f2, stream, *, d, groups):
    lead = stream_lead("chain_stream", (f1, f2), stream, d, groups)
    f1, f2 = as_rows(f1, lead, 1), as_rows(f2, lead, 1)
    return pushed_by_blocks(lambda i, j: (f1[i:j], f2[i:j]), stream, lead, d, groups)


def _chained_on_cuda(xp, f1, f2, stream, *, d, groups):
    lead, form = stream_lead("chain_stream", (f1, f2), stream, d, groups), kernels.stream_form(d, groups)
    if form is None:
        return composed(RAW, f1, f2, stream, d, groups)
    f1, f2, stream = for_kernel(f1, lead, 1), for_kernel(f2, lead, 1), for_kernel(stream, lead, 2)
    return kernels.chain_stream(f1, f2, stream, d, form)


def _chain_back(F, g, need, f1, f2, stream, d, groups):
    grads = (
        grad_f1(F, g, stream) if need[0] else None,
        grad_f2(F, g, stream, d, groups) if need[1] and groups else None,
        grad_stream(F, g, f1, f2, stream, d, groups) if need[2] else None,
    )
    return summed(F, grads, (f1, f2, stream))


def _chain_back_by_kernel(F, g, need, f1, f2, stream, d, groups):
    lead, form = g.shape[:-2], kernels.stream_form(d, groups)
    if form is None:
        return None
    a, b, t = (for_kernel(x, lead, own) for x, own in ((f1, 1), (f2, 1), (stream, 2)))
    grads = kernels.chain_stream_backward(kernels.contiguous(g), a, b, t, d, form, need)
    return summed(F, grads, (f1, f2, stream))


def _chain_back_by_blocks(F, g, need, f1, f2, stream, d, groups):
    lead, inputs = g.shape[:-2], ((f1, 1), (f2, 1), (stream, 2))
    a, b, t, g = (as_rows(widened(x), lead, own) for x, own in (*inputs, (g, 2)))

    def pull(i, j, bar1, bar2, out):
        streams.pull_block(a[i:j], b[i:j], t[i:j], g[i:j], bar1, bar2, out, d, groups)

    need = (need[0], need[1] and groups != (), need[2])
    block = streams.block_size(jets.push(jets.form_of(t, d, groups)), t.dtype)
    return gradients_by_blocks(inputs, need, lead, pull, block)


def _chain_jvp(F, t, f1, f2, stream, d, groups):
    out = None
    if t[0] is not None or t[1] is not None:
        df1, df2 = (F.constant_like(x, 0.0) if dx is None else dx for dx, x in zip(t, (f1, f2), strict=False))
        out = F.chain_stream(df1, df2, stream, d=d, groups=groups)
    return out if t[2] is None else added(out, stream_jvp(F, t[2], f1, f2, stream, d, groups))


def _chain_batch(F, n, batched, f1, f2, stream, *, d, groups):
    return F.chain_stream(*line_up(F, batched, (f1, f2, stream), (1, 1, 2)), d=d, groups=groups)


@defop
class chain_stream:
    """The stream behind a function with the first two derivatives f1 and f2 (..., h); see Note [streams].

    >>> from autograd_gpu.ops.jets import chain_stream
    >>> x = ag.tensor([3.0])  # x ** 2, along x
    >>> chain_stream(2 * x, ag.tensor([2.0]), ag.ones(1, 1), d=1, groups=(((0, 0),),))
    tensor([[6.],
            [2.]])
    """

    forward, cuda = in_float32(_chained), _chained_on_cuda
    grads, fused, fused_cuda = _chain_back, _chain_back_by_blocks, _chain_back_by_kernel
    types, wide_rules, keeps_layout = SAME, True, True
    jvp, batch = _chain_jvp, _chain_batch


# ---- the stream behind an activation -------------------------------------------------------------------


def derivatives(F, s, activation, parameters):
    """act' and act'' computed from s, the result or z, and the derivative of act' by s; None for two that are zero."""
    family, ones = ACTIVATIONS[activation], F.constant_like(s, 1.0)
    f1 = family.at(F, 1)(ones, s, *parameters)
    if not family.bends:
        return f1, None, None
    slope = family.at(F, 2)(ones, s, *parameters)
    return f1, slope * f1 if by_result(activation) else slope, slope


def third(F, s, f1, slope, activation, parameters):
    """The derivative of act'' by s, for a smooth activation."""
    third = ACTIVATIONS[activation].at(F, 3)
    if by_result(activation):  # act'' is the product of act' and its derivative by the result
        return third(f1, s, *parameters) + slope * slope
    return third(F.constant_like(s, 1.0), s, *parameters)


def argument(saved, bias):
    return saved if bias is None else saved + bias


def _jet_lead(saved, stream, bias, activation, d, groups):
    """The leading dimensions of the result; RuntimeError if the inputs do not fit together."""
    if bias is not None and (by_result(activation) or bias.shape != saved.shape[-1:]):
        raise RuntimeError(f"activation_jet of {activation}: the bias must be None for an activation that saves its "
                           f"result, else of shape {saved.shape[-1:]}, got shape {bias.shape}")
    return stream_lead("activation_jet", (saved,), stream, d, groups)


def _jet(xp, saved, stream, bias=None, *, activation, d, groups, parameters=()):
    lead = _jet_lead(saved, stream, bias, activation, d, groups)
    saved = as_rows(saved, lead, 1)
    form = jets.form_of(stream, d, groups, ACTIVATIONS[activation].bends)
    return pushed_by_blocks(
        lambda i, j: factors(argument(saved[i:j], bias), activation, parameters, 2), stream, lead, d, groups,
        pushed_natively(activation, parameters, saved.dtype, bias is not None, form),
        lambda i, j: operands(saved[i:j], bias),
    )  # fmt: skip


def _jet_on_cuda(xp, saved, stream, bias=None, *, activation, d, groups, parameters=()):
    lead, form = _jet_lead(saved, stream, bias, activation, d, groups), _jet_form(activation, d, groups)
    if form is None:
        s, t = argument(widened(saved), None if bias is None else widened(bias)), widened(stream)
        f1, f2, _ = derivatives(RAW, s, activation, parameters)
        out = composed(RAW, f1, f2, t, d, groups) if f2 is None else RAW.chain_stream(f1, f2, t, d=d, groups=groups)
        return out.astype(stream.dtype, copy=False)
    saved, stream, bias = for_kernel(saved, lead, 1), for_kernel(stream, lead, 2), kernels.contiguous(bias)
    return kernels.activation_jet(applied(activation, parameters), saved, bias, stream, d, form)


def _jet_form(activation, d, groups):
    """The form of the groups for `kernels.activation_jet`; None if it has no kernel for them or for the activation."""
    held = ACTIVATIONS[activation].bends and d <= kernels.HELD_TANGENTS
    return kernels.stream_form(d, groups) if held else None


def jet_back_by_kernel(F, g, need, saved, stream, bias, activation, parameters, d, groups):
    """All gradients from one kernel; None if the rules have to run."""
    form, lead = _jet_form(activation, d, groups), g.shape[:-2]
    if form is None:
        return None
    g, bias, flags = kernels.contiguous(g), kernels.contiguous(bias), (need[0], need[2], need[1])
    s, t, f = for_kernel(saved, lead, 1), for_kernel(stream, lead, 2), applied(activation, parameters)
    ds, dbias, dstream = kernels.activation_jet_backward(f, g, s, bias, t, d, form, flags)
    return summed(F, (ds, dstream, dbias), (saved, stream, bias))


def jet_back(F, g, need, saved, stream, bias, activation, parameters, d, groups):
    s = argument(saved, bias)
    f1, f2, slope = derivatives(F, s, activation, parameters)
    ds = None
    if (need[0] or need[2]) and f2 is not None:
        ds = grad_f1(F, g, stream) * slope
        if groups:
            bent = third(F, s, f1, slope, activation, parameters)
            ds = ds + grad_f2(F, g, stream, d, groups) * bent
    dstream = grad_stream(F, g, f1, f2, stream, d, groups) if need[1] else None
    return summed(F, (ds if need[0] else None, dstream, ds if need[2] else None), (saved, stream, bias))


def jet_back_by_blocks(F, g, need, saved, stream, bias, activation, parameters, d, groups):
    lead, shift = g.shape[:-2], None if bias is None else widened(bias)
    z, t, g = (as_rows(widened(x), lead, own) for x, own in ((saved, 1), (stream, 2), (g, 2)))
    smooth = ACTIVATIONS[activation].bends
    need = (need[0] and smooth, need[1], need[2] and smooth and bias is not None)
    form = jets.form_of(t, d, groups, smooth)
    native = pulled_natively(activation, parameters, z.dtype, bias is not None, form, need[0] + need[2], need[1])

    def pull(i, j, dz, dt, dbias):
        own, inner = [out for out in (dz, dbias) if out is not None], need[0] or need[2]
        if native is not None:
            given = [*operands(z[i:j], shift), *streams.planes(t[i:j]), *streams.planes(g[i:j])]
            if native(given, (), own if dt is None else [*own, *streams.planes(dt)]) is not None:
                return
        f1, f2, *bends = factors(argument(z[i:j], shift), activation, parameters, 4 if inner else 2)
        bar1, bar2 = streams.scratch(2, f1.shape, f1.dtype) if inner else (None, None)
        streams.pull_block(f1, f2, t[i:j], g[i:j], bar1, bar2, dt, d, groups)
        if inner:
            bar1 *= bends[0]
            bar2 *= bends[1]
            for out in own:
                np.add(bar1, bar2, out=out)

    inputs = ((saved, 1), (stream, 2), (saved if bias is None else bias, 1))
    return gradients_by_blocks(inputs, need, lead, pull, streams.block_size(native, t.dtype))


def jet_jvp(F, t, saved, stream, bias, activation, parameters, d, groups):
    s = argument(saved, bias)
    f1, f2, slope = derivatives(F, s, activation, parameters)
    out = None if t[1] is None else stream_jvp(F, t[1], f1, f2, stream, d, groups)
    ds = added(t[0], t[2])
    if ds is None or f2 is None:
        return out
    df2 = ds * third(F, s, f1, slope, activation, parameters)
    return added(out, F.chain_stream(ds * slope, df2, stream, d=d, groups=groups))


def jet_batch(F, n, batched, saved, stream, bias=None, *, activation, d, groups, parameters=()):
    if batched[2]:  # a row for each example
        saved, bias = aligned(F, (batched[0], True), (saved, bias))
        saved, bias, batched = saved + bias, None, (True, batched[1])
    saved, stream = line_up(F, batched[:2], (saved, stream), (1, 2))
    return F.activation_jet(saved, stream, bias, activation=activation, d=d, groups=groups, parameters=parameters)


@defop
class activation_jet:
    """The stream behind an activation at z + bias, without its value; see Note [streams].

    For relu, tanh and sigmoid `saved` is the activation's result and bias is None; for the others `saved` is z, and
    bias (h,) or None.

    >>> from autograd_gpu.ops.jets import activation_jet
    >>> activation_jet(ag.tensor([0.5]), ag.ones(1, 1), None, activation="tanh", d=1, groups=(((0, 0),),))
    tensor([[ 0.75],
            [-0.75]])
    """

    forward, cuda = in_float32(_jet), _jet_on_cuda
    grads, fused, fused_cuda = jet_back, jet_back_by_blocks, jet_back_by_kernel
    types, wide_rules, keeps_layout = SAME, True, True
    jvp, batch = jet_jvp, jet_batch


# ---- local terms ---------------------------------------------------------------------------------------


def _local_lead(a, f2, tangents):
    """The leading dimensions of the result; RuntimeError if the inputs do not fit together."""
    shapes = tuple(map(tuple, (a.shape, f2.shape, tangents.shape)))
    if min(len(shapes[0]), len(shapes[2])) < 2 or not shapes[1] or len({shape[-1] for shape in shapes}) > 1:
        raise RuntimeError(f"local_terms needs a (..., o, h), f2 (..., h) and tangents (..., d, h), got shapes "
                           f"{', '.join(map(str, shapes))}")
    return common_lead("local_terms", shapes[0][:-2], shapes[1][:-1], shapes[2][:-2])


def _local(xp, a, f2, tangents):
    lead = _local_lead(a, f2, tangents)
    o, (d, h) = a.shape[-2], tangents.shape[-2:]
    out = np.empty((*lead, o, d, d), a.dtype)
    a, f2, t = as_rows(a, lead, 2), as_rows(f2, lead, 1), as_rows(tangents, lead, 2)
    target = out.reshape(math.prod(lead), o, d, d)

    def work(i: int, j: int) -> None:
        streams.local_block(a[i:j], f2[i:j], t[i:j], target[i:j])

    cpu_rows.Blocks(len(target), h, streams.BLOCK).run(work)
    return out


def _local_on_cuda(xp, a, f2, tangents):
    lead = _local_lead(a, f2, tangents)
    return kernels.local_terms(for_kernel(a, lead, 2, False), for_kernel(f2, lead, 1), for_kernel(tangents, lead, 2))


def _local_product(F, a, f2, s, t):
    """The sum over h of (a f2 s_i) t_j."""
    left = F.unsqueeze(a * over_h(F, f2), -2) * F.unsqueeze(s, -3)
    return F.matmul(left, F.mT(F.unsqueeze(t, -3)))


def local_back(F, g, need, a, f2, tangents):
    both, t = g + F.mT(g), F.unsqueeze(tangents, -3)
    pulled = F.matmul(both, t)  # (..., o, d, h): the sum over j of (g_ij + g_ji) t_j
    curvature = F.sum(pulled * t, -2) * 0.5 if need[0] or need[1] else None
    grads = (
        curvature * over_h(F, f2) if need[0] else None,
        F.sum(curvature * a, -2) if need[1] else None,
        F.sum(pulled * F.unsqueeze(a * over_h(F, f2), -2), -3) if need[2] else None,
    )
    return summed(F, grads, (a, f2, tangents))


def local_back_by_blocks(F, g, need, a, f2, tangents):
    lead, inputs = g.shape[:-3], ((a, 2), (f2, 1), (tangents, 2))
    x, y, z, g = (as_rows(widened(array), lead, own) for array, own in (*inputs, (g, 3)))

    def pull(i, j, bar_a, bar2, out):
        streams.pull_local_block(x[i:j], y[i:j], z[i:j], g[i:j], bar_a, bar2, out)

    return gradients_by_blocks(inputs, need, lead, pull)


def local_jvp(F, t, a, f2, tangents):
    out = None if t[0] is None else F.local_terms(t[0], f2, tangents)
    out = out if t[1] is None else added(out, F.local_terms(a, t[1], tangents))
    if t[2] is None:
        return out
    half = _local_product(F, a, f2, t[2], tangents)
    return added(out, half + F.mT(half))


def local_batch(F, n, batched, a, f2, tangents):
    return F.local_terms(*line_up(F, batched, (a, f2, tangents), (2, 1, 2)))


@defop
class local_terms:
    """The sum over h of a f2 t_i t_j: what a function of single elements adds to the Hessian of o outputs.

    a (..., o, h) are the gradients of the outputs for its result, f2 (..., h) its second derivative, and t_i the
    `tangents` (..., d, h) of its input. Leading dimensions broadcast. The result (..., o, d, d) is exactly symmetric.

    >>> from autograd_gpu.ops.jets import local_terms
    >>> local_terms(ag.ones(1, 2), ag.tensor([1.0, 2.0]), ag.tensor([[1.0, 1.0], [0.0, 1.0]]))
    tensor([[[3., 2.],
             [2., 2.]]])
    """

    forward, cuda = in_float32(_local), _local_on_cuda
    grads, fused, fused_cuda = local_back, local_back_by_blocks, None
    types, wide_rules = SAME, True
    jvp, batch = local_jvp, local_batch
