"""The chain rule to second order through a layer, a linear function and an activation, by blocks of rows on the CPU.

A block goes through the product and the pass behind it on one core and stays in its cache. Here a stream is
(S, ..., k): its axis comes first, so that each tangent is a matrix. Note [streams] in jets.py says what it holds.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..backend import counters
from ..backend.arrays.dtypes import FULL_FLOATS, HALF
from ..backend.cpu import chains, large_products, pool
from ..backend.cpu import rows as cpu_rows
from ..backend.cpu.blas import readable
from ..backend.cpu.matmul import matmul
from ..backend.formulas.native.eager_layers import Described, stacked
from ..backend.formulas.native.layers import GRAIN
from ..core.extend import MULTILINEAR, RAW, SAME, added, aligned, defop
from ._support.layer_code import push_code, terms_code
from ._support.layer_kinds import JetKind, TermsKind, check_linear, linear_kind
from ._support.stream_rows import rows_first, rows_last
from ._support.terms_gradients import pulled, pulled_on_arrays
from .jets import (
    argument,
    derivatives,
    jet_back,
    jet_back_by_blocks,
    jet_batch,
    jet_jvp,
    local_jvp,
    third,
)
from .linalg.matmul import rows
from .nn.linear import batch_linear
from .nn.linear_activation import ACTIVATIONS

Array = Any
LEAST_BYTES = 1 << 20  # of the streams from which on a layer is cut into blocks: 0.2 ms
LARGE_BYTES = 1 << 23  # of the left operand of a product that is computed at once
FEWEST = 400  # rows of a block, about: each packs the weight anew for each tangent
BLOCKS_PER_CORE = 2  # at most: where a core is taken, the others work on its share
MOST_TURNED = 1 << 14  # elements of a transposed weight that is copied: BLAS reads it faster row by row


def _check(saved, stream, weight, activation, d, groups):
    """RuntimeError if inputs of these shapes do not fit together."""
    _check_bends("layer_jet", activation)
    fit = len(stream) == len(saved) + 1 and weight == (saved[-1], stream[-1])
    if not (fit and stream[0] in (d, d + len(groups)) and _lead_fits(stream, saved)):
        raise RuntimeError(f"layer_jet needs saved (..., h), a stream (S, ..., k) of {d} or {d + len(groups)} rows S, "
                           f"with the same leading dimensions or those 1, and a weight (h, k), got shapes "
                           f"{saved}, {stream}, {weight}")


def _check_bends(name, activation):
    if not ACTIVATIONS[activation].bends:
        raise RuntimeError(f"{name}: {activation} has no second derivative; use `linear` and its gradient")


def _lead_fits(stream, saved):
    """Whether the stream has the leading dimensions of `saved`, or the same value in all of them."""
    return stream[1:-1] in (saved[:-1], (1,) * (len(saved) - 1))


def _composed(xp, saved, stream, weight, bias=None, *, activation, d, groups, parameters=()):
    """As two ops: on CUDA, and of half types."""
    _check(saved.shape, stream.shape, weight.shape, activation, d, groups)
    before, how = RAW.linear(stream, weight, None), {"activation": activation, "parameters": parameters}
    jet = RAW.activation_jet(saved, rows_last(RAW, before), bias, d=d, groups=groups, **how)
    return before, rows_first(RAW, jet)


def _layer(xp, saved, stream, weight, bias=None, *, activation, d, groups, parameters=()):
    if stream.dtype in HALF:
        return _composed(xp, saved, stream, weight, bias, activation=activation, d=d, groups=groups,
                         parameters=parameters)
    kind = _jet_kind(saved.shape, stream.shape, weight.shape, None if bias is None else bias.shape, stream.dtype,
                     activation, parameters, d, groups)
    after = pool.empty((d + len(groups), *saved.shape), stream.dtype)
    product = Product(stream, weight.T, kind.height)
    s = saved if saved.ndim == 2 else saved.reshape(kind.height, saved.shape[-1])
    part = kind.described((saved, stream, weight, bias), (*product.operands, product.out, s, bias, after))
    by_blocks(kind.height, product.nbytes + after.nbytes, functools.partial(kind.work, product, s, bias, after), part)
    return product.out, after


@functools.lru_cache(256)
def _jet_kind(saved, stream, weight, bias, dtype, activation, parameters, d, groups):
    _check(saved, stream, weight, activation, d, groups)
    code = push_code(activation, parameters, dtype, d, groups, stream[0])
    return JetKind(saved, dtype, code, (activation, parameters, d, groups))


class Product:
    """a @ b for a (n, ..., k): computed by blocks of `height` rows, or at once. `out` has the dimensions of a.

    At once, if `a` is the same in all rows, or if it is large: blocks pack b anew for each of the n matrices.
    """

    __slots__ = ("a", "b", "height", "nbytes", "out")

    def __init__(self, a: Array, b: Array, height: int) -> None:
        self.a, self.height, self.nbytes = a, height, 0
        large = a.nbytes >= LARGE_BYTES
        if large or math.prod(a.shape[1:-1]) != height:
            if large:
                chains.run_all()  # what computes a
            self.b = readable(b)
            self.out = matmul(a.reshape(-1, a.shape[-1]), self.b).reshape(*a.shape[:-1], b.shape[1])
            return
        self.b = np.ascontiguousarray(b) if b.size <= MOST_TURNED else readable(b)
        self.out = pool.empty((*a.shape[:-1], b.shape[1]), a.dtype)
        self.nbytes = a.nbytes + self.out.nbytes
        if counters.ACTIVE:
            counters.matmul((len(a) * height, *b.shape))

    @property
    def by_rows(self) -> Array:
        """`out`, or a view, as (n, height, h)."""
        return stacked(self.out, self.height)

    @property
    def operands(self) -> tuple[Array | None, Array | None]:
        """a and b; None if the product is there already."""
        return (self.a, self.b) if self.nbytes else (None, None)

    def compute(self, i: int, j: int) -> None:
        """Computes the rows from i to j."""
        if self.nbytes:
            np.matmul(stacked(self.a, self.height)[:, i:j], self.b, out=self.by_rows[:, i:j])


def by_blocks(height: int, nbytes: int, work: cpu_rows.Work, part: Described | None = None) -> None:
    """Calls work(start, stop) for blocks of `height` rows of streams of so many bytes; of many on all cores."""
    chains.run(height, block_rows(height, nbytes), nbytes, work, part)


def block_rows(height: int, nbytes: int) -> int:
    """The rows of a block of streams of so many bytes."""
    step = max(height, 1)
    if nbytes >= LEAST_BYTES and large_products.are_shared():
        cores = cpu_rows.cores()
        size = -(-height // (cores * min(max(height // (cores * FEWEST), 1), BLOCKS_PER_CORE)))
        step = -(-size // GRAIN) * GRAIN
    return step


def _back(jet, F, g, need, saved, stream, weight, bias, before, activation, parameters, d, groups):
    """The gradients, by the function of jets.py that has those of the activation."""
    g_before, g_after = g
    ds = db = None
    if g_after is not None:
        wanted, how = (need[0], need[1] or need[2], need[3]), (activation, parameters, d, groups)
        ds, dt, db = jet(F, rows_last(F, g_after), wanted, saved, rows_last(F, before), bias, *how)
        g_before = added(g_before, None if dt is None else rows_first(F, dt))
    dx = F.gemm(g_before, weight, False, False) if need[1] else None
    dw = F.gemm(rows(F, g_before), rows(F, stream), True, False) if need[2] else None
    return ds, dx, dw, db


def _layer_jvp(F, t, saved, stream, weight, bias, before, activation, parameters, d, groups):
    ts, tx, tw, tb = t
    moved = None if tx is None else F.linear(tx, weight, None)
    moved = moved if tw is None else added(moved, F.linear(stream, tw, None))
    inner = ts, None if moved is None else rows_last(F, moved), tb
    after = jet_jvp(F, inner, saved, rows_last(F, before), bias, activation, parameters, d, groups)
    return moved, None if after is None else rows_first(F, after)


def _layer_batch(F, n, batched, saved, stream, weight, bias=None, *, activation, d, groups, parameters=()):
    """As two ops."""
    if not batched[1]:
        stream = F.expand(stream, (n, *stream.shape))
    before = batch_linear(F, n, (True, batched[2], False), stream, weight, None)
    last = before.ndim - 1
    jet = jet_batch(F, n, (batched[0], True, batched[3]), saved, F.permute(before, (0, *range(2, last), 1, last)), bias,
                    activation=activation, d=d, groups=groups, parameters=parameters)
    return before, F.permute(jet, (0, last - 1, *range(1, last - 1), last))


@defop
class layer_jet:
    """The stream behind act(x @ weightᵀ + bias) from that of x, before the activation and behind it, without the value.

    saved and bias are those of `activation_jet`. The streams are (S, ..., k) and (S, ..., h).

    >>> from autograd_gpu.ops.layer_jets import layer_jet
    >>> one = ag.ones(1, 1)
    >>> layer_jet(ag.tensor([0.5]), one, 2 * one, None, activation="tanh", d=1, groups=(((0, 0),),)).after
    tensor([[ 1.5],
            [-3. ]])
    """

    forward, cuda = _layer, _composed
    def grads(F, g, need, saved, stream, weight, bias, before, activation, parameters, d, groups):
        return _back(jet_back, F, g, need, saved, stream, weight, bias, before, activation, parameters, d, groups)
    def fused(F, g, need, saved, stream, weight, bias, before, activation, parameters, d, groups):
        return _back(jet_back_by_blocks, F, g, need, saved, stream, weight, bias, before, activation, parameters, d,
                     groups)
    fused_cuda = None
    outputs = "before", "after"
    types, wide_rules = SAME, True
    jvp, batch = _layer_jvp, _layer_batch


# ---- a linear function alone ---------------------------------------------------------------------------


def _linear_composed(xp, stream, weight):
    """As `linear`: on CUDA, and of half types."""
    check_linear(stream.shape, weight.shape)
    return RAW.linear(stream, weight, None)


def _linear(xp, stream, weight):
    if stream.dtype not in FULL_FLOATS:
        return _linear_composed(xp, stream, weight)
    kind = linear_kind(stream.shape, weight.shape, stream.dtype)
    product = Product(stream, weight.T, kind.height)
    part = kind.described((stream, weight), (*product.operands, product.out))
    if product.nbytes:
        by_blocks(kind.height, product.nbytes, product.compute, part)
    return product.out


@defop
class layer_linear:
    """stream @ weightᵀ as `layer_jet` computes it, for an activation behind it whose results have no stream.

    >>> from autograd_gpu.ops.layer_jets import layer_linear
    >>> layer_linear(ag.ones(1, 2, 3), ag.ones(1, 3))
    tensor([[[3.],
             [3.]]])
    """

    forward, cuda = _linear, _linear_composed
    def grad_stream(F, g, weight): return F.gemm(g, weight, False, False)
    def grad_weight(F, g, stream): return F.gemm(rows(F, g), rows(F, stream), True, False)
    types = SAME
    jvp = MULTILINEAR
    def batch(F, n, batched, stream, weight): return batch_linear(F, n, (*batched, False), stream, weight, None)


# ---- adjoints ------------------------------------------------------------------------------------------


def _terms_composed(xp, adjoint, weight, saved, tangents, bias=None, *, activation, parameters=()):
    """As several ops: on CUDA, and of half types."""
    _check_terms(adjoint.shape, weight.shape, saved.shape, tangents.shape, activation)
    f1, f2, _ = derivatives(RAW, argument(saved, bias), activation, parameters)
    arrived = RAW.matmul(adjoint, weight)
    a = RAW.expand(arrived, (len(arrived), *saved.shape))
    return arrived, a * f1, RAW.local_terms(rows_last(RAW, a), f2, rows_last(RAW, tangents))


def _check_terms(adjoint, weight, saved, tangents, activation):
    """RuntimeError if inputs of these shapes do not fit together."""
    _check_bends("layer_terms", activation)
    fit = len(adjoint) == len(tangents) == len(saved) + 1 and tangents[-1] == saved[-1]
    fit = fit and weight == (adjoint[-1], saved[-1])
    if not (fit and _lead_fits(adjoint, saved) and _lead_fits(tangents, saved)):
        raise RuntimeError(f"layer_terms needs adjoints (o, ..., k), a weight (k, h), saved (..., h) and tangents "
                           f"(d, ..., h), got shapes {adjoint}, {weight}, {saved}, {tangents}")


def _terms(xp, adjoint, weight, saved, tangents, bias=None, *, activation, parameters=()):
    if adjoint.dtype in HALF:
        return _terms_composed(xp, adjoint, weight, saved, tangents, bias, activation=activation,
                               parameters=parameters)
    dtype, (*lead, h), o, d = saved.dtype, saved.shape, len(adjoint), len(tangents)
    kind = _terms_kind(adjoint.shape, weight.shape, saved.shape, tangents.shape, None if bias is None else bias.shape,
                       dtype, activation, parameters)
    left, out = pool.empty((o, *lead, h), dtype), pool.empty((*lead, o, d, d), dtype)
    product = Product(adjoint, weight, kind.height)
    s, nbytes = saved if saved.ndim == 2 else saved.reshape(kind.height, h), product.nbytes + left.nbytes
    part = kind.described((adjoint, weight, saved, tangents, bias),
                          (*product.operands, product.out, s, bias, tangents, kind.ones, left, out))
    by_blocks(kind.height, nbytes + d * saved.nbytes,
              functools.partial(kind.work, product, s, bias, tangents, left, out), part)  # fmt: skip
    return product.out, left, out


@functools.lru_cache(256)
def _terms_kind(adjoint, weight, saved, tangents, bias, dtype, activation, parameters):
    _check_terms(adjoint, weight, saved, tangents, activation)
    code = terms_code(activation, parameters, dtype, adjoint[0], tangents[0])
    return TermsKind(saved, dtype, code, (activation, parameters))


def _terms_back(pull, F, g, need, adjoint, weight, saved, tangents, bias, arrived, activation, parameters):
    """The gradients, by the function that has those behind the product."""
    needed = need[0] or need[1], need[2] or need[4], need[3]
    da, ds, dt = pull(F, g[1:], needed, saved, tangents, bias, arrived, activation, parameters)
    da = added(g[0], None if da is None else F.sum_to(da, arrived.shape))
    dadjoint = F.gemm(da, weight, False, True) if need[0] else None
    dweight = F.gemm(rows(F, adjoint), rows(F, da), True, False) if need[1] else None
    db = None if ds is None or not need[4] else F.sum_to(rows(F, ds), bias.shape)
    return dadjoint, dweight, ds if need[2] else None, None if dt is None else F.sum_to(dt, tangents.shape), db


def _terms_jvp(F, t, adjoint, weight, saved, tangents, bias, arrived, activation, parameters):
    to, tw, ts, tt, tb = t
    s = argument(saved, bias)
    f1, f2, slope = derivatives(F, s, activation, parameters)
    moved = None if to is None else F.matmul(to, weight)
    moved = moved if tw is None else added(moved, F.matmul(adjoint, tw))
    a, v = F.expand(arrived, (arrived.shape[0], *saved.shape)), rows_last(F, tangents)
    left = None if moved is None else moved * f1
    terms = None if moved is None else F.local_terms(rows_last(F, F.expand(moved, a.shape)), f2, v)
    ds = added(ts, tb)
    if ds is not None:
        left = added(left, a * (ds * slope))
        df2 = ds * third(F, s, f1, slope, activation, parameters)
        terms = added(terms, F.local_terms(rows_last(F, a), df2, v))
    if tt is not None:
        terms = added(terms, local_jvp(F, (None, None, rows_last(F, tt)), rows_last(F, a), f2, v))
    return moved, left, terms


def _terms_batch(F, n, batched, adjoint, weight, saved, tangents, bias=None, *, activation, parameters=()):
    """As several ops, on examples along the first dimension of all but weight and bias."""
    inputs = (adjoint, batched[0]), (saved, batched[2]), (tangents, batched[3])
    adjoint, saved, tangents = [x if b else F.expand(x, (n, *x.shape)) for x, b in inputs]
    if batched[1]:
        weight = F.reshape(weight, (n, *(1,) * (adjoint.ndim - 3), *weight.shape[1:]))
    s = saved if bias is None else F.add(*aligned(F, (True, batched[4]), (saved, bias)))
    f1, f2, _ = derivatives(F, s, activation, parameters)
    arrived, last = F.matmul(adjoint, weight), adjoint.ndim - 1
    order, a = (0, *range(2, last), 1, last), F.expand(arrived, (n, arrived.shape[1], *saved.shape[1:]))
    return arrived, a * F.unsqueeze(f1, 1), F.local_terms(F.permute(a, order), f2, F.permute(tangents, order))


@defop
class layer_terms:
    """Adjoints pulled through a linear function and the activation before it, and what that adds to a Hessian.

    adjoint (o, ..., k) are the gradients for x @ weight, weight (k, h), x (..., h) = act(z + bias), `saved` and bias
    those of `activation_jet`, and `tangents` (d, ..., h) those of z. The results are the adjoints of x and of z, and
    `local_terms` (..., o, d, d).

    >>> from autograd_gpu.ops.layer_jets import layer_terms
    >>> one = ag.ones(1, 1)
    >>> layer_terms(2 * one, one, ag.tensor([0.5]), one, activation="tanh").terms
    tensor([[[-1.5]]])
    """

    forward, cuda = _terms, _terms_composed
    def grads(F, g, need, adjoint, weight, saved, tangents, bias, arrived, activation, parameters):
        return _terms_back(pulled, F, g, need, adjoint, weight, saved, tangents, bias, arrived, activation, parameters)
    def fused(F, g, need, adjoint, weight, saved, tangents, bias, arrived, activation, parameters):
        if adjoint.dtype in HALF:
            return None
        return _terms_back(pulled_on_arrays, F, g, need, adjoint, weight, saved, tangents, bias, arrived, activation,
                           parameters)
    fused_cuda = None
    outputs = "arrived", "left", "terms"
    types, wide_rules = SAME, True
    jvp, batch = _terms_jvp, _terms_batch
