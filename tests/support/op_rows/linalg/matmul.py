"""Rows of ops/linalg/matmul.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import HALVES, TWO, of_shapes, size

DTYPES = Error("dtypes", lambda op, x: op(x(3, 3), x(3, 3, dtype="float64")), RuntimeError, "the same dtype")
MATMUL = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
    ((3, 2, 0), (0, 2)),
    ((1, 2, 3), (4, 3, 2)),
)
GEMM = (
    ((3, 2), (3, 4), True, False),
    ((2, 3), (4, 3), False, True),
    ((3, 2), (4, 3), True, True),
    ((2, 3), (3, 4), False, False),
    ((5, 3, 2), (3, 4), True, False),
    ((5, 2, 3), (4, 3), False, True),
    ((5, 2, 3), (3, 4), False, False),
    ((3, 2), (5, 3, 4), True, False),
    ((2, 3), (5, 4, 3), False, True),
    ((2, 3), (5, 3, 4), False, False),
    ((5, 3, 2), (5, 4, 3), True, True),
    ((2, 1, 3, 2), (5, 3, 4), True, False),
    ((0, 3), (3, 2), False, False),
)


def flipped(x, flag):
    return np.swapaxes(x, -1, -2) if flag else x


ROWS = [
    Row(
        "gemm",
        samples=lambda rng: [Sample(normal(rng, *a), normal(rng, *b), ta=ta, tb=tb) for a, b, ta, tb in GEMM],
        reference=lambda a, b, ta=False, tb=False: flipped(a, ta) @ flipped(b, tb),
        tol=HALVES,
        skip=TWO,
        torch=lambda torch, a, b, ta=False, tb=False: (a.mT if ta else a) @ (b.mT if tb else b),
        errors=[DTYPES],
    ),
    Row(
        "matmul",
        samples=of_shapes(*MATMUL),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            DTYPES,
            Error(
                "inner", lambda op, x: op(x(2, 3), x(4, 5)), RuntimeError, size("cannot be multiplied (2x3 and 4x5)")
            ),
            Error(
                "folded",
                lambda op, x: op(x(2, 2, 3), x(4, 5)),
                RuntimeError,
                size("cannot be multiplied (4x3 and 4x5)"),
            ),
            Error("vectors", lambda op, x: op(x(3), x(4)), RuntimeError, "inconsistent tensor size"),
            Error("vector", lambda op, x: op(x(2, 3), x(4)), RuntimeError, size("got input (2), mat (2x3), vec (4)")),
            Error(
                "batched",
                lambda op, x: op(x(2, 2, 3), x(2, 4, 5)),
                RuntimeError,
                size("to be: [2, 3] but got: [2, 4]."),
            ),
            Error("0-d", lambda op, x: op(x(), x(3, 3)), RuntimeError, "at least 1D, but they are 0D and 2D"),
        ],
    ),
    Row(
        "mm",
        samples=of_shapes(((2, 3), (3, 4)), ((0, 3), (3, 2)), ((1, 1), (1, 5))),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            DTYPES,
            Error("rank", lambda op, x: op(x(3), x(3, 3)), RuntimeError, "self must be a matrix"),
            Error(
                "inner", lambda op, x: op(x(2, 3), x(4, 5)), RuntimeError, size("cannot be multiplied (2x3 and 4x5)")
            ),
        ],
    ),
    Row(
        "bmm",
        samples=of_shapes(((5, 2, 3), (5, 3, 4)), ((0, 2, 3), (0, 3, 4))),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            Error("rank", lambda op, x: op(x(2, 3), x(2, 3, 3)), RuntimeError, "batch1 must be a 3D tensor"),
            Error("batch", lambda op, x: op(x(2, 3, 4), x(2, 5, 3)), RuntimeError, size("[2, 4] but got: [2, 5]")),
        ],
    ),
    Row(
        "mv",
        samples=of_shapes(((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,))),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            Error("rank", lambda op, x: op(x(3), x(3)), RuntimeError, r"matrix @ vector expected"),
            Error("inner", lambda op, x: op(x(2, 3), x(2)), RuntimeError, "size mismatch"),
        ],
    ),
]
