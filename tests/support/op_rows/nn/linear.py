"""Rows of ops/nn/linear.py."""

from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import HALVES, TWO, size

LINEAR = ((3,), (2, 3), (5, 2, 3), (0, 3), (2, 0, 3))


def linear_samples(rng):
    results = [Sample(normal(rng, *s), normal(rng, 4, 3), normal(rng, 4)) for s in LINEAR]
    return [
        *results,
        Sample(normal(rng, 2, 3), normal(rng, 4, 3), None),
        Sample(normal(rng, 2, 3), normal(rng, 4, 3), normal(rng, 1)),
        *[Sample(normal(rng, *shape), normal(rng, 3), None) for shape in ((2, 3), (3,), (2, 0, 3))],
    ]


ROWS = [
    Row(
        "linear",
        samples=linear_samples,
        tol=HALVES,
        skip=TWO,
        reference=lambda x, weight, bias=None: x @ weight.T + (0 if bias is None else bias),
        errors=[
            Error(
                "inner", lambda op, x: op(x(2, 3), x(4, 5)), RuntimeError, size("cannot be multiplied (2x3 and 5x4)")
            ),
            Error("bias", lambda op, x: op(x(2, 3), x(4, 3), x(3)), RuntimeError, r"expanded size of the tensor \(4\)"),
            Error("0-d", lambda op, x: op(x(), x(4, 3)), RuntimeError, "at least 1D"),
        ],
    ),
]
