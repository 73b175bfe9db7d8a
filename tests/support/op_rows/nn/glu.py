"""Rows of ops/nn/glu.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.nn.shared import HALVES
from scipy.special import expit


def gated(x, dim=-1):
    a, b = np.split(x, 2, dim)
    return a * expit(b)


GLU = (((4,), -1), ((2, 6), 1), ((4, 3), 0), ((2, 4, 3), -2), ((0, 4), 1), ((2, 3, 100), -1))

ROWS = [
    Row(
        "glu",
        samples=lambda rng: [Sample(normal(rng, *s), dim=d) for s, d in GLU],
        reference=gated,
        tol=HALVES,
        skip={"zero_dim": "it has no halves"},
        errors=[
            Error("odd", lambda op, x: op(x(2, 3)), RuntimeError, "Halving dimension must be even, but dimension 1"),
            Error("0-d", lambda op, x: op(x()), RuntimeError, "glu does not support 0-dimensional tensors"),
            Error("range", lambda op, x: op(x(2, 4), 2), IndexError, "Dimension out of range"),
        ],
    ),
]
