"""Rows of ops/reduction/norm.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, nonzero
from op_rows.reduction.shared import RANGE

ORDERS = ("fro", 1, 2, 3, 2.5, 0.5, float("inf"), -float("inf"))


def norm_samples(rng):
    results = [
        Sample(nonzero(rng, 2, 3), p=p, dim=dim, keepdim=keep)
        for p in ORDERS
        for dim, keep in ((None, False), (1, False), ((0, 1), True))
    ]
    return [*results, Sample(nonzero(rng)), Sample(nonzero(rng, 0, 2), dim=0), Sample(nonzero(rng, 2, 3), p=0)]


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
