"""Rows of ops/reduction/sum.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, nonzero, normal
from op_rows.elementwise.shared import few
from op_rows.reduction.shared import HALVES, RANGE, TUPLES, TWICE, numpy_over, over
from scipy.special import logsumexp

ORDERS = ("fro", 1, 2, 3, 2.5, 0.5, float("inf"), -float("inf"))


def norm_samples(rng):
    found = [
        Sample(nonzero(rng, 2, 3), p=p, dim=dim, keepdim=keep)
        for p in ORDERS
        for dim, keep in ((None, False), (1, False), ((0, 1), True))
    ]
    return [*found, Sample(nonzero(rng)), Sample(nonzero(rng, 0, 2), dim=0), Sample(nonzero(rng, 2, 3), p=0)]


def reference_norm(x, p="fro", dim=None, keepdim=False):
    p, size = 2 if p == "fro" else p, np.abs(x)
    if np.isinf(p):
        return np.asarray((np.max if p > 0 else np.min)(size, axis=dim, keepdims=keepdim))
    if p == 0:
        return np.asarray(np.sum(size != 0, axis=dim, keepdims=keepdim, dtype=np.float64))
    return np.asarray(np.sum(size**p, axis=dim, keepdims=keepdim) ** (1 / p))


def their_norm(torch, x, p="fro", dim=None, keepdim=False):
    return torch.linalg.vector_norm(x, 2 if p == "fro" else p, dim, keepdim)


ROWS = [
    Row("count_nonzero", samples=lambda rng: [Sample(few(rng, 2, 3, 4), dim=dim) for dim in (None, 0, -1, (0, 2))] + [
            Sample(few(rng)), Sample(few(rng, 0, 2), dim=0)],
        reference=lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim), np.int64), errors=[RANGE, TWICE]),
    Row("sum", samples=over(TUPLES), reference=numpy_over(np.sum), tol=HALVES, errors=[RANGE, TWICE]),
    Row(
        "mean",
        samples=lambda rng: [*over(TUPLES)(rng)[:-4], Sample(normal(rng)), Sample(normal(rng, 2, 0), dim=0)],
        reference=numpy_over(np.mean),
        tol=HALVES,
        integers=None,
        errors=[RANGE, TWICE, Error("keepdim", lambda op, x: op(x(2, 2), 0, 1), TypeError, "must be bool, not int"),
                Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "floating point")],
    ),
    Row(
        "logsumexp",
        samples=over((0, (0, 2), -1), empty=False),
        torch="torch.logsumexp",
        tol=HALVES,
        reference=lambda x, dim, keepdim=False: np.asarray(
            logsumexp(x, axis=dim if x.ndim else None, keepdims=keepdim)
        ),
        errors=[RANGE],
    ),
    Row(
        "norm",
        samples=norm_samples,
        reference=reference_norm,
        torch=their_norm,
        tol={"float16": 2e-2, "bfloat16": 0.1},
        integers=None,
        skip={"layouts": "a stretched array has ties"},
        points=[
            Point(Sample(np.zeros(3)), [0.0]),
            Point(Sample(np.array([2.0, -2.0, 1.0]), p=np.inf), [[0.5, -0.5, 0]]),
            Point(Sample(np.array([1.0, -1.0, 0.0]), p=-1), [0.0]),
        ],
        errors=[RANGE, Error("order", lambda op, x: op(x(2), p="nuc"), RuntimeError, "p is a number or 'fro'"),
                Error("empty", lambda op, x: op(x(2, 0), np.inf, 1), RuntimeError, "inf norm on an empty tensor")],
    ),
]  # fmt: skip
