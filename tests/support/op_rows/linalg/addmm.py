"""Rows of ops/linalg/addmm.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import HALVES


def sum_samples(*shapes):
    """Each `input` shape before the two factors, with and without factors."""

    def samples(rng):
        return [
            Sample(*(normal(rng, *s) for s in row), **scale)
            for row in shapes
            for scale in ({}, {"beta": 0.5, "alpha": 3}, {"beta": 0})
        ]

    return samples


def scaled_sum(x, a, b, beta=1, alpha=1):
    return beta * x + alpha * (a @ b)


ROWS = [
    Row(
        "addmm",
        samples=sum_samples(
            ((2, 4), (2, 3), (3, 4)),
            ((4,), (2, 3), (3, 4)),
            ((), (2, 3), (3, 4)),
            ((2, 1), (2, 3), (3, 4)),
            ((4,), (0, 3), (3, 4)),
        ),
        reference=scaled_sum,
        tol=HALVES,
        errors=[
            Error(
                "expand", lambda op, x: op(x(3), x(2, 3), x(3, 4)), RuntimeError, r"expanded size of the tensor \(4\)"
            ),
            *[Error(f"float {name}", lambda op, x, name=name: op(*[x(2, 2, dtype="int64")] * 3, **{name: 0.5}),
                    RuntimeError, f"argument {name} must not be a floating") for name in ("alpha", "beta")],
            Error("rank", lambda op, x: op(x(3, 1, 1), x(2, 3), x(3, 4)), RuntimeError, "number of sizes provided"),
        ],
        integer_samples=lambda rng: [Sample(normal(rng, 4), normal(rng, 2, 3), normal(rng, 3, 4))],
    ),
    Row(
        "baddbmm",
        samples=sum_samples(
            ((5, 2, 4), (5, 2, 3), (5, 3, 4)), ((4,), (5, 2, 3), (5, 3, 4)), ((), (0, 2, 3), (0, 3, 4))
        ),
        reference=scaled_sum,
        tol=HALVES,
        errors=[Error("expand", lambda op, x: op(x(3), x(5, 2, 3), x(5, 3, 4)), RuntimeError, "expanded size")],
        integer_samples=lambda rng: [Sample(normal(rng, 4), normal(rng, 5, 2, 3), normal(rng, 5, 3, 4))],
    ),
    Row(
        "addbmm",
        samples=sum_samples(
            ((2, 4), (5, 2, 3), (5, 3, 4)), ((4,), (5, 2, 3), (5, 3, 4)), ((), (0, 2, 3), (0, 3, 4))
        ),
        reference=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b).sum(0),
        tol={"float16": 2e-2, "bfloat16": 0.2},
        errors=[
            Error("rank", lambda op, x: op(x(4), x(2, 3), x(5, 3, 4)), RuntimeError, "batch1 must be a 3D tensor"),
            Error(
                "batch", lambda op, x: op(x(4), x(2, 2, 3), x(3, 3, 4)), RuntimeError, "same number of batches, got 2"
            ),
            Error("inner", lambda op, x: op(x(4), x(2, 2, 3), x(2, 4, 4)), RuntimeError, r"\(2x3 and 4x4\)"),
            Error("expand", lambda op, x: op(x(3, 3), x(2, 2, 3), x(2, 3, 4)), RuntimeError, "expanded size"),
        ],
        integer_samples=lambda rng: [Sample(normal(rng, 4), normal(rng, 5, 2, 3), normal(rng, 5, 3, 4))],
    ),
    Row(
        "addmv",
        samples=sum_samples(((2,), (2, 3), (3,)), ((), (2, 3), (3,)), ((1,), (2, 3), (3,)), ((0,), (0, 3), (3,))),
        reference=scaled_sum,
        tol=HALVES,
        errors=[
            Error("inner", lambda op, x: op(x(2), x(2, 3), x(4)), RuntimeError, r"got input \(2\), mat \(2x3\)"),
            Error("rank", lambda op, x: op(x(2), x(2), x(4)), RuntimeError, "expected, got 1, 1, 1"),
            Error("expand", lambda op, x: op(x(3), x(2, 3), x(3)), RuntimeError, "expanded size"),
        ],
        integer_samples=lambda rng: [Sample(normal(rng, 2), normal(rng, 2, 3), normal(rng, 3))],
    ),
    Row(
        "addr",
        samples=sum_samples(((2, 3), (2,), (3,)), ((3,), (2,), (3,)), ((), (2,), (3,)), ((1,), (0,), (3,))),
        reference=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * np.outer(a, b),
        tol=HALVES,
        errors=[
            Error("rank", lambda op, x: op(x(1), x(2, 2), x(4)), RuntimeError, "Expected 1-D argument vec1, but got 2"),
            Error("expand", lambda op, x: op(x(3), x(2), x(4)), RuntimeError, "expanded size"),
        ],
        integer_samples=lambda rng: [Sample(normal(rng, 3), normal(rng, 2), normal(rng, 3))],
    ),
]
