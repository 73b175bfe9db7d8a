"""Rows of ops/sorting/histogram.py."""

import numpy as np
from op_db import Error, Row, Sample, indices, normal
from op_rows.elementwise.shared import few


def bincount_samples(rng):
    x = indices(rng, 5, 7)
    return [Sample(x), Sample(x, minlength=9), Sample(x, normal(rng, 7)), Sample(x[:0], normal(rng, 0), minlength=2),
            Sample(x[:0])]  # fmt: skip


def bincount(x, weights=None, minlength=0):
    return np.bincount(x, weights, minlength).astype(np.int64 if weights is None else np.float64)


def their_bincount(torch, x, weights=None, minlength=0):
    """PyTorch's sums of weights are integers where there are none to sum."""
    counts = torch.bincount(x, weights, minlength)
    if weights is None or x.numel():
        return counts
    return counts.to(torch.float32 if weights.dtype == torch.float32 else torch.float64)


def histc_samples(rng):
    x = normal(rng, 3, 7)
    nan = np.array([0.5, np.nan, 1.0, -3.0])
    return [Sample(x), Sample(x, bins=4), Sample(x, bins=3, min=-0.5, max=0.5), Sample(nan, bins=2, min=0, max=1),
            Sample(x[0, 0], bins=3), Sample(x[:0], bins=3), Sample(np.ones(3), bins=4)]  # fmt: skip


def histc(x, bins=100, min=0, max=0):
    low, high = (min, max) if min != max else (np.min(x), np.max(x)) if x.size else (-1, 1)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(x.ravel(), bins, (low, high))[0].astype(np.float64)


def histogram_samples(rng):
    x, edges = normal(rng, 3, 7), np.array([-1.0, 0.0, 0.25, 2.0])
    return [Sample(x, bins=4), Sample(x, bins=3, range=(-0.5, 0.5)), Sample(x, edges), Sample(x, edges, abs(x)),
            Sample(x, None, abs(x), bins=3), Sample(x, None, abs(x), bins=4, density=True), Sample(x[0, 0], bins=3),
            Sample(x[:0], bins=3)]  # fmt: skip


def histogram(x, edges=None, weight=None, bins=0, range=None, density=False):
    result, places = np.histogram(
        x.ravel(), bins if edges is None else edges, range, density, None if weight is None else weight.ravel()
    )
    return result.astype(np.float64), places


def their_histogram(torch, x, edges=None, weight=None, bins=0, **words):
    return torch.histogram(x, bins if edges is None else edges, weight=weight, **words)


NO_DERIVATIVE = "PyTorch has no derivative of it"

ROWS = [
    Row("bincount", samples=bincount_samples, reference=bincount, torch=their_bincount,
        no_batch=lambda _, batched: batched[0],
        dtypes=("float32", "float64"), skip={"oracle_grad": NO_DERIVATIVE, "oracle_gradgrad": NO_DERIVATIVE,
            "zero_dim": "vectors only", "integers": "they are promoted to float64"},
        errors=[Error("floats", lambda op, x: op(x(2)), RuntimeError, "only supports 1-d non-negative integral"),
                Error("a matrix", lambda op, x: op(x(2, 2, dtype="int64")), RuntimeError, "only supports 1-d"),
                Error("weights", lambda op, x: op(x(2, dtype="int64"), x(3)), RuntimeError, "same length as input"),
                Error("minlength", lambda op, x: op(x(2, dtype="int64"), None, -1), RuntimeError, "minlength")]),
    Row("histogram_of", samples=histogram_samples, reference=histogram, torch=their_histogram, integers=None,
        constant=("x", "edges", "weight"),
        skip={"oracle_grad": NO_DERIVATIVE, "oracle_gradgrad": NO_DERIVATIVE,
              "dtypes": "an edge of half precision puts numbers into another bin",
              "oracle_dtypes": "an edge of half precision puts numbers into another bin"},
        errors=[Error("bins", lambda op, x: op(x(2)), RuntimeError, "bins must be > 0"),
                Error("edges", lambda op, x: op(x(2), x(2, 2)), RuntimeError, "should have one dimension"),
                Error("dtype", lambda op, x: op(x(2), x(2, dtype="float64")), RuntimeError, "must have one dtype"),
                Error("weight", lambda op, x: op(x(2), None, x(3), bins=2), RuntimeError, "same shape and dtype")]),
    Row("histc", samples=histc_samples, reference=histc, integers=None,
        integer_samples=lambda rng: [Sample(few(rng, 3))],
        errors=[Error("bins", lambda op, x: op(x(2), 0), RuntimeError, "bins must be > 0"),
                Error("range", lambda op, x: op(x(2), 2, 3, 1), RuntimeError, "max must be larger than min"),
                Error("infinite", lambda op, x: op(x(2), 2, 0, float("inf")), RuntimeError, "is not finite")]),
]  # fmt: skip
