"""Rows of ops/linalg/solve.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import MATRIX_ROW, NO_STRETCH, SQUARE, errors, regular, samples

SOLVE = (
    ((3, 3), (3, 2), True),
    ((3, 3), (3,), True),
    ((2, 3, 3), (3, 2), True),
    ((3, 3), (2, 3, 1), True),
    ((2, 3, 3), (2, 3), True),
    ((2, 3, 3), (3,), True),
    ((3, 3), (2, 3), False),
    ((2, 1, 3, 3), (4, 2, 3), False),
    ((0, 0), (0, 2), True),
    ((3, 3), (3, 0), True),
    ((0, 2, 2), (0, 2, 3), True),
)


def solve(a, b, left=True):
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    if vector:
        return np.linalg.solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b) if left else np.swapaxes(solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def flawed(rng):
    """A matrix with an inverse, one whose second pivot is zero, and zeros."""
    result = regular(rng, 3, 3, 3)
    result[1, 1:, :2] = result[1, 0, :2] * np.array([[2.0], [4.0]])
    result[2] = 0.0
    return result


def first_zero_pivots(a):
    if a.ndim == 2:
        return np.int32(next((i + 1 for i in range(len(a)) if np.linalg.matrix_rank(a[:, : i + 1]) <= i), 0))
    return np.array([first_zero_pivots(x) for x in a], np.int32).reshape(a.shape[:-2])


def singular(name, text):
    return Error("singular", lambda op, x: op(x(2, 2)), RuntimeError, f"{name}: {text}")


ROWS = [
    Row(
        "inv",
        samples=samples(regular, SQUARE),
        reference=np.linalg.inv,
        errors=[*errors("linalg.inv"), singular("linalg.inv", "The diagonal element 2 is zero")],
        **MATRIX_ROW,
    ),
    Row(
        "pivot_info",
        samples=lambda rng: [*samples(regular, SQUARE)(rng), Sample(flawed(rng)), Sample(flawed(rng)[1])],
        reference=first_zero_pivots,
        torch=lambda torch, a: torch.linalg.inv_ex(a)[1],
        **{**MATRIX_ROW, "skip": {**NO_STRETCH, "integers": "the functions that call it refuse them"}},
    ),
    Row(
        "solve",
        samples=lambda rng: [Sample(regular(rng, *a), normal(rng, *b), left=left) for a, b, left in SOLVE],
        reference=solve,
        errors=[
            Error("rank", lambda op, x: op(x(3), x(3)), RuntimeError, "linalg.solve: .*at least 2 dimensions"),
            Error("square", lambda op, x: op(x(2, 3), x(3)), RuntimeError, "square matrices, but they are 2 by 3"),
            Error("sizes", lambda op, x: op(x(3, 3), x(4, 2)), RuntimeError, r"AX = B \(3x3 and 4x2\)"),
            Error("right", lambda op, x: op(x(3, 3), x(2, 4), False), RuntimeError, r"XA = B \(3x3 and 2x4\)"),
            Error("vector", lambda op, x: op(x(3, 3), x(3), False), RuntimeError, "not supported for left=False"),
            Error("dtypes", lambda op, x: op(x(3, 3), x(3, dtype="float64")), RuntimeError, "the same dtype"),
            Error("singular", lambda op, x: op(x(2, 2), x(2)), RuntimeError, "torch.linalg.solve: The solver failed"),
            Error("batch", lambda op, x: op(x(2, 2, 2), x(2)), RuntimeError, r"\(Batch element 0\)"),
        ],
        **MATRIX_ROW,
    ),
]
