"""Rows of ops/qr.py."""

import numpy as np
from op_db import Row

from .matrices import MATRICES, MATRIX_ROW, errors, samples, spread

WIDE = tuple(shape for shape in MATRICES if shape[-2] <= shape[-1])


def qr(a, complete=False):
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


ROWS = [
    Row(
        "qr_factors",
        samples=lambda rng: [*samples(spread, MATRICES)(rng), *samples(spread, WIDE, {"complete": True})(rng)],
        reference=qr,
        torch=lambda torch, a, complete=False: torch.linalg.qr(a, "complete" if complete else "reduced"),
        errors=errors("linalg.qr", square=False),
        **MATRIX_ROW,
    ),
]
