"""Rows of ops/reduction/logsumexp.py."""

import numpy as np
from op_db import Row
from op_rows.reduction.shared import HALVES, RANGE, over
from scipy.special import logsumexp

ROWS = [
    Row(
        "logsumexp",
        samples=over((0, (0, 2), -1), empty=False),
        tol=HALVES,
        reference=lambda x, dim, keepdim=False: np.asarray(
            logsumexp(x, axis=dim if x.ndim else None, keepdims=keepdim)
        ),
        errors=[RANGE],
    ),
]
