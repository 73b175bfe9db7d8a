"""Calls on tensors of no elements, no dimensions or a single row, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from outcomes import difference, outcome

import autograd_gpu as ag

torch = pytest.importorskip("torch")


def ones(*shape):
    return np.ones(shape, np.float32)


def ints(*values):
    return np.array(values, np.int64)


def ramp(*shape):
    return np.sin(np.arange(1.0, 1 + np.prod(shape), dtype=np.float64) * 7).reshape(shape).astype(np.float32)


def normal(*shape):
    return np.random.default_rng(5).normal(size=shape)


def norms(order):
    return {
        f"matrix_norm {order} of {shape}": (lambda m, x: m.linalg.matrix_norm(x, order), ones(*shape))
        for shape in ((0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 2, 3))
    } | {
        f"norm {order} of {shape}": (lambda m, x: m.linalg.norm(x, order), ones(*shape)) for shape in ((0, 3), (3, 0))
    }


def vector_norms(order):
    return {
        f"vector_norm {order} of {shape}, {how}": (lambda m, x, how=how: m.linalg.vector_norm(x, order, **how),
                                                   ramp(*shape))
        for shape, how in (((), {"dim": 0}), ((), {"dim": -1, "keepdim": True}), ((), {"dim": 1}), ((0,), {}),
                           ((0, 2), {"dim": 0}), ((0, 2), {"dim": 1}))
    } | {f"norm {order} of (0)": (lambda m, x: m.norm(x, order), ones(0))}  # fmt: skip


def bags(mode):
    def bag(m, weight, indices, offsets=None, **more):
        return m.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, **more)

    return {
        f"embedding_bag, {mode}, one empty bag": (bag, ones(3, 2), ints(), ints(0)),
        f"embedding_bag, {mode}, empty bags": (bag, ramp(3, 2), ints(1, 2), ints(0, 0, 2)),
        f"embedding_bag, {mode}, no bag": (bag, ones(3, 2), ints(), ints()),
        f"embedding_bag, {mode}, no row": (bag, ones(3, 2), np.zeros((0, 3), np.int64)),
        f"embedding_bag, {mode}, empty table": (bag, ones(0, 2), ints(), ints(0)),
        f"embedding_bag, {mode}, last offset": (lambda m, *a: bag(m, *a, include_last_offset=True), ones(3, 2), ints(),
                                                ints(0)),
        f"embedding_bag, {mode}, padding": (lambda m, *a: bag(m, *a, padding_idx=1), ramp(3, 2), ints(1, 1), ints(0)),
    }  # fmt: skip


def losses(reduction):
    seen = {}
    for scores, classes in (((3, 0), (3,)), ((0,), ()), ((0, 0), (0,)), ((0, 4), (0,)), ((2, 0, 0), (2, 0)),
                            ((0, 4, 2), (0, 2)), ((1, 4), (1,)), ((4,), ()), ((1, 1), (1,))):  # fmt: skip
        for smoothing in (0.0, 0.1):
            def cross_entropy(m, x, c, weight=None, smoothing=smoothing):
                how = {"reduction": reduction, "label_smoothing": smoothing}
                return m.nn.functional.cross_entropy(x, c, weight, **how)

            ignored, weight = np.full(classes, -100, np.int64), ones(scores[len(scores) > 1]) * 2
            case = f"{reduction}, {scores}, {smoothing}"
            seen[f"cross_entropy, {case}"] = cross_entropy, ramp(*scores), ignored
            seen[f"cross_entropy, weighed, {case}"] = (
                lambda m, x, c, w, f=cross_entropy: f(m, x, c, w.detach()), ramp(*scores), ignored, weight)
            seen[f"cross_entropy, probabilities, {case}"] = (
                lambda m, x, p, f=cross_entropy: f(m, x, p.detach()), ramp(*scores), ones(*scores))
            seen[f"cross_entropy, class 0, {case}"] = cross_entropy, ramp(*scores), np.zeros(classes, np.int64)

        def nll_loss(m, x, c):
            return m.nn.functional.nll_loss(x, c, reduction=reduction)

        seen[f"nll_loss, {reduction}, {scores}"] = nll_loss, ramp(*scores), np.full(classes, -100, np.int64)
        seen[f"nll_loss, class 0, {reduction}, {scores}"] = nll_loss, ramp(*scores), np.zeros(classes, np.int64)
    return seen


def batch_norm(training, affine):
    def call(m, x, mean, var, weight=None, bias=None):
        mean, var = mean.detach(), var.detach()
        out = m.nn.functional.batch_norm(x, mean, var, weight, bias, training=training)
        return out, mean, var

    return {
        f"batch_norm of {shape}, statistics of {size}, {training=}, {affine=}":
            (call, ramp(*shape), *[ones(size)] * (4 if affine else 2))
        for shape in ((2, 0), (0, 3), (2, 0, 4), (0, 3, 4), (2, 3, 0), (0, 0), (1, 3, 2)) for size in (0, 1, 3)
        if size or not affine
    }  # fmt: skip


def lstsq(m, a, b, driver=None):
    result = m.linalg.lstsq(a, b, driver=driver)
    return result.solution, result.residuals, result.singular_values


def indexed(name):
    calls = {
        "gather": lambda m, x, i: m.gather(x, 0, i), "take_along_dim": lambda m, x, i: m.take_along_dim(x, i),
        "scatter": lambda m, x, i: m.scatter(x, 0, i, 1.0),
        "scatter_add": lambda m, x, i: m.scatter_add(x, 0, i, x[:0]),
        "scatter_reduce": lambda m, x, i: m.scatter_reduce(x, 0, i, x[:0], "sum"),
    }  # fmt: skip
    dtypes = (np.float32, np.bool_, np.uint8, np.int16, np.int64)
    return {
        f"{name} by an empty {dtype.__name__}": (
            lambda m, x, dtype=dtype: calls[name](m, x, m.as_tensor(np.zeros(0, dtype))), ramp(3))
        for dtype in dtypes
    } | {f"{name} by floats": (lambda m, x: calls[name](m, x, m.zeros(1)), ramp(3))}


def pads(mode, *pairs):
    return {
        f"pad {pair}, {mode}": (lambda m, x, pair=pair: m.nn.functional.pad(x, pair, mode=mode), ramp(1, 1, 4))
        for pair in pairs
    }


def linear(m, *args):
    return m.nn.functional.linear(*args)


CALLS = {
    "linear by a vector": (linear, ramp(2, 3), ramp(3)),
    "linear of vectors": (linear, ramp(3), ramp(3)),
    "linear of vectors and a bias": (linear, ramp(3), ramp(3), ramp()),
    "linear of a batch by a vector": (linear, ramp(2, 2, 3), ramp(3)),
    "linear by an empty vector": (linear, ramp(2, 0), ramp(0)),
    "linear by another vector": (linear, ramp(2, 3), ramp(4)),
    "linear by a number": (linear, ramp(2, 3), ramp()),
    "linear by three dimensions": (linear, ramp(2, 3), ramp(2, 2, 3)),
    **{f"{name} of {shape}": (lambda m, x, name=name: getattr(m.linalg, name)(x), ramp(*shape))
       for name in ("lu_factor", "lu_factor_ex", "lu", "slogdet", "det", "cond")
       for shape in ((0, 0), (2, 0, 0), (0, 2, 2), *(((0, 3), (3, 0)) if name.startswith("lu") else ((2, 2),)))},
    **{key: call for order in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))
       for key, call in norms(order).items()},
    **{key: call for order in (0, 1, 2, 3, -1, float("inf"), -float("inf"))
       for key, call in vector_norms(order).items()},
    **{f"{name} of {shape}": (lambda m, x, name=name: getattr(m, name)(x), ramp(*shape))
       for name in ("cov", "corrcoef")
       for shape in ((), (1,), (3,), (1, 3), (2, 3), (0,), (0, 3), (3, 0), (1, 0), (1, 1))},
    "gradient, spacing None": (lambda m, x: m.gradient(x, spacing=None), ramp(3, 4)),
    "gradient, spacing None, dim": (lambda m, x: m.gradient(x, spacing=None, dim=1), ramp(3, 4)),
    "gradient of nothing": (lambda m, x: m.gradient(x), ramp(0)),
    **{key: call for mode in ("sum", "mean", "max") for key, call in bags(mode).items()},
    "embedding_bag, weighed, empty": (lambda m, w, s, i, o: m.nn.functional.embedding_bag(
        i, w, o, mode="sum", per_sample_weights=s), ones(3, 2), ones(0), ints(), ints(0)),
    **pads("constant", (-5, 1), (-4, 0), (-3, 1), (-2, -2), (-2, -3), (0, -5), (1, -6), (-4, 1), (5, -9), (5, -10)),
    **pads("circular", (-4, 0), (-2, -2), (-2, -3), (0, -5), (-1, 2)),
    **pads("reflect", (-4, 0), (-2, -2), (-2, 1)),
    **pads("replicate", (-4, 0), (-2, -2), (-2, 1)),
    **{key: call for reduction in ("mean", "sum", "none") for key, call in losses(reduction).items()},
    **{f"lstsq {driver} of {a} and {b}": (lambda m, x, y, d=driver: lstsq(m, x, y, d), normal(*a), normal(*b))
       for driver in (None, "gels", "gelsy", "gelsd", "gelss")
       for a, b in (((4, 2), (4, 3)), ((4, 2), (4,)), ((2, 4), (2, 3)), ((3, 3), (3, 1)), ((2, 4, 2), (2, 4, 3)),
                    ((0, 4, 2), (0, 4, 3)))},
    **{key: call for name in ("gather", "take_along_dim", "scatter", "scatter_add", "scatter_reduce")
       for key, call in indexed(name).items()},
    **{key: call for training in (True, False) for affine in (True, False)
       for key, call in batch_norm(training, affine).items()},
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_as_pytorch(name, device):
    if device == "cuda" and name.startswith("lstsq None"):
        pytest.skip("the default driver is another one on CUDA")
    program, *values = CALLS[name]
    ours, theirs = outcome(ag, program, *values), outcome(torch, program, *values)
    if device == "cuda" and isinstance(theirs, IndexError) and "class 0" in name:  # classes are not read on the host
        assert np.isnan(ours.outputs[0][2]).all()
        return
    result = difference(ours, theirs)
    assert result is None, result
