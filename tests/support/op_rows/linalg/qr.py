"""Rows of ops/linalg/qr.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import MATRICES, MATRIX_ROW, errors, samples, spread

WIDE = tuple(shape for shape in MATRICES if shape[-2] <= shape[-1])


def qr(a, complete=False):
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def reflections(rng):
    shapes = [((3, 3), (3,)), ((4, 2), (2,)), ((4, 3), (1,)), ((2, 3, 2), (2, 2)), ((0, 3, 2), (0, 2))]
    return [Sample(normal(rng, *a), normal(rng, *tau)) for a, tau in shapes]


def product(a, tau):
    q = np.broadcast_to(np.eye(*a.shape[-2:]), a.shape)
    for i in reversed(range(tau.shape[-1])):
        v = np.tril(a, -1)[..., i] + np.eye(a.shape[-2])[i]
        q = q - tau[..., i, None, None] * v[..., None] * (v[..., None, :] @ q)
    return q


ROWS = [
    Row(
        "qr_factors",
        samples=lambda rng: [*samples(spread, MATRICES)(rng), *samples(spread, WIDE, {"complete": True})(rng)],
        reference=qr,
        torch=lambda torch, a, complete=False: torch.linalg.qr(a, "complete" if complete else "reduced"),
        errors=errors("linalg.qr", square=False),
        **MATRIX_ROW,
    ),
    Row(
        "householder_product",
        samples=reflections,
        reference=product,
        torch=lambda torch, a, tau: torch.linalg.householder_product(a, tau),
        errors=[
            Error("wide", lambda op, x: op(x(2, 3), x(2)), RuntimeError, r"shape\[-2\] must be greater than or equal"),
            Error("many", lambda op, x: op(x(3, 2), x(3)), RuntimeError, r"shape\[-1\] must be greater than or equal"),
        ],
        **MATRIX_ROW,
    ),
]
