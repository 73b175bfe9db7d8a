"""Rows of ops/linalg/tensordot.py."""

import numpy as np
from op_db import Row, Sample, normal
from op_rows.linalg.shared import HALVES

KRON = (((2, 3), (4, 2)), ((2,), (3, 2)), ((2, 3), (2,)), ((), (3,)), ((), ()), ((0, 2), (3,)), ((2, 1, 2), (3, 2)))

ROWS = [
    Row(
        "kron",
        samples=lambda rng: [Sample(normal(rng, *a), normal(rng, *b)) for a, b in KRON],
        reference=np.kron,
        tol=HALVES,
    ),
]
