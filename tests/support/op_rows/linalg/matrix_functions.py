"""Rows of ops/linalg/matrix_functions.py."""

import scipy.linalg
from op_db import Row, normal
from op_rows.linalg.shared import MATRIX_ROW, SQUARE, STRETCH_TOO, errors, samples


def small(rng, *shape):
    return normal(rng, *shape) * 0.5


ROWS = [
    Row(
        "matrix_exp",
        samples=samples(small, SQUARE),
        reference=lambda a: scipy.linalg.expm(a) if a.size else a,
        errors=errors("linalg.matrix_exp"),
        **{**MATRIX_ROW, "skip": {**STRETCH_TOO, "oracle_dtypes": "torch takes half types, too"}},
    ),
]
