"""Rows of ops/linalg/cholesky.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import (
    HALVED,
    MATRIX_ROW,
    NO_STRETCH,
    SQUARE,
    STRETCH_TOO,
    errors,
    regular,
    samples,
    symmetric,
)

import autograd_gpu as ag

SYSTEMS = (
    ((3, 3), (3, 2), {"upper": True}),
    ((3, 3), (3, 2), {"upper": False}),
    ((3, 3), (2, 3), {"upper": True, "left": False}),
    ((3, 3), (2, 3), {"upper": False, "left": False, "unitriangular": True}),
    ((2, 3, 3), (3, 1), {"upper": True, "unitriangular": True}),
    ((3, 3), (2, 3, 2), {"upper": False}),
    ((2, 1, 3, 3), (4, 3, 2), {"upper": False, "unitriangular": True}),
    ((0, 0), (0, 2), {"upper": True}),
    ((3, 3), (3, 0), {"upper": True}),
    ((0, 2, 2), (0, 2, 3), {"upper": True}),
)


def triangle(a, upper, unitriangular):
    part = np.triu(a, 1) if upper else np.tril(a, -1)
    one = np.eye(a.shape[-1])
    return part + (one if unitriangular else a * one)


def solve_triangular(a, b, upper, left=True, unitriangular=False):
    t = triangle(a, upper, unitriangular)
    if left:
        return np.linalg.solve(t, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(t, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def cholesky(a, upper=False):
    factor = np.linalg.cholesky(symmetric(a))
    return np.swapaxes(factor, -1, -2) if upper else factor


def positive(rng, *shape):
    return symmetric(normal(rng, *shape) * 0.3) + 2 * np.eye(shape[-1])


def minors(a, upper=False):
    if a.ndim == 2:
        a = np.tril(a) + np.tril(a, -1).T
        with np.errstate(invalid="ignore"):
            return np.int32(next((i for i in range(1, len(a) + 1) if not np.linalg.det(a[:i, :i]) > 0), 0))
    return np.array([minors(x) for x in a], np.int32).reshape(a.shape[:-2])


ROWS = [
    Row(
        "solve_triangular",
        samples=lambda rng: [Sample(regular(rng, *a), normal(rng, *b), **words) for a, b, words in SYSTEMS],
        reference=solve_triangular,
        errors=[
            Error(
                "square", lambda op, x: op(x(2, 3), x(3, 1), upper=True), RuntimeError, "matrices, but they are 2 by 3"
            ),
            Error(
                "sizes", lambda op, x: op(x(3, 3), x(4, 2), upper=True), RuntimeError, r"AX = B \(3x3 and 4x2\)"
            ),
            Error("vector", lambda op, x: op(x(3, 3), x(3), upper=True), RuntimeError, "B must have at least 2"),
            Error(
                "dtypes",
                lambda op, x: op(x(3, 3), x(3, 1, dtype="float64"), upper=True),
                RuntimeError,
                "the same dtype",
            ),
        ],
        **{**MATRIX_ROW, "skip": {**STRETCH_TOO, "oracle_dtypes": "torch reads the bits of B as numbers of A's dtype"}},
    ),
    Row(
        "cholesky",
        fn=lambda a, upper=False: ag.linalg.cholesky((a + a.mT) / 2, upper=upper),
        samples=samples(positive, SQUARE, {}, {"upper": True}),
        reference=cholesky,
        torch=lambda torch, a, upper=False: torch.linalg.cholesky((a + a.mT) / 2, upper=upper),
        errors=[
            Error(
                "minor",
                lambda op, x: op(x(2, 2)),
                RuntimeError,
                r"linalg.cholesky: .*not positive-definite \(the leading minor of order 2 is not",
            ),
            Error("NaN", lambda op, x: op(x(3, 3) + ag.inf * 0), RuntimeError, "leading minor of order 1 is not"),
            Error("batch", lambda op, x: op(x(3, 2, 2)), RuntimeError, r"linalg.cholesky: \(Batch element 0\)"),
            *errors("linalg.cholesky", square=False)[1:],
        ],
        **{**MATRIX_ROW, "skip": HALVED},
    ),
    Row(
        "minor_info",
        samples=lambda rng: [
            *samples(positive, SQUARE, {}, {"upper": True})(rng),
            Sample(np.array([np.eye(3), np.diag([1.0, -1.0, 1.0]), -np.eye(3), np.diag([1.0, np.nan, 1.0])])),
            Sample(np.diag([1.0, 1.0, np.nan])),
        ],
        reference=minors,
        torch=lambda torch, a, upper=False: torch.linalg.cholesky_ex(a, upper=upper)[1],
        **{**MATRIX_ROW, "skip": {**NO_STRETCH, "integers": "the functions that call it refuse them"}},
    ),
]
