"""Rows of ops/linalg/vector_products.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import HALVES, TWO, of_shapes

VECDOT = (
    (((2, 3), (2, 3)), -1),
    (((2, 3), (3,)), -1),
    (((2, 3), (2, 3)), 0),
    (((4, 2, 3), (2, 1)), 1),
    (((), ()), 0),
    (((3,), (4, 3)), -1),
    (((0, 3), (3,)), -1),
    (((2, 0), (2, 0)), 1),
)
CROSS = (
    (((3,), (3,)), None),
    (((2, 3), (2, 3)), None),
    (((3, 3), (3, 3)), None),
    (((3, 4), (3, 1)), 0),
    (((3, 3), (3, 3)), -1),
    (((4, 1, 3), (1, 2, 3)), 2),
    (((0, 3), (1, 3)), 1),
)


def along(cases):
    return lambda rng: [Sample(*(normal(rng, *s) for s in shapes), dim=dim) for shapes, dim in cases]


def vecdot(a, b, dim=-1):
    return np.sum(a * b, axis=dim)


def cross(a, b, dim=None):
    return np.cross(a, b, axis=a.shape.index(3) if dim is None else dim)


ROWS = [
    Row(
        "dot",
        samples=of_shapes(((3,), (3,)), ((0,), (0,))),
        reference=np.dot,
        tol=HALVES,
        skip=TWO,
        errors=[
            Error("rank", lambda op, x: op(x(2, 3), x(3)), RuntimeError, "1D tensors expected, but got 2D and 1D"),
            Error("inner", lambda op, x: op(x(2), x(3)), RuntimeError, "inconsistent tensor size"),
        ],
    ),
    Row(
        "outer",
        samples=of_shapes(((2,), (3,)), ((0,), (3,))),
        reference=np.outer,
        tol=HALVES,
        skip=TWO,
        errors=[
            Error("rank", lambda op, x: op(x(2, 3), x(3)), RuntimeError, "Expected 1-D argument self, but got 2-D")
        ],
    ),
    Row(
        "vecdot",
        samples=along(VECDOT),
        reference=vecdot,
        tol=HALVES,
        skip={"integers": "ints stay ints, as the reference's"},
        errors=[
            Error("sizes", lambda op, x: op(x(3), x(1)), RuntimeError, "inconsistent tensor size"),
            Error("dim", lambda op, x: op(x(3), x(3), dim=1), IndexError, "Dimension out of range"),
        ],
    ),
    Row(
        "cross",
        samples=along(CROSS),
        reference=cross,
        tol=HALVES,
        torch=lambda torch, a, b, dim=None: torch.cross(a, b, a.shape.index(3) if dim is None else dim),
        skip={"zero_dim": "takes vectors"},
        errors=[
            Error("none", lambda op, x: op(x(2), x(2)), RuntimeError, "no dimension of size 3 in input"),
            Error("size", lambda op, x: op(x(2), x(2), -1), RuntimeError, "dimension -1 must have length 3. Got 2"),
            Error("rank", lambda op, x: op(x(3), x(3, 3)), RuntimeError, "must have the same number of dimensions"),
            Error("dim", lambda op, x: op(x(3), x(3), 1), IndexError, "Dimension out of range"),
        ],
    ),
]
