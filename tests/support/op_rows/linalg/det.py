"""Rows of ops/linalg/det.py."""

import numpy as np
from op_db import Row, Sample, normal
from op_rows.linalg.shared import MATRIX_ROW, NO_STRETCH, SQUARE, errors, regular, samples


def cofactor(a):
    return np.linalg.det(a)[..., None, None] * np.swapaxes(np.linalg.inv(a), -1, -2)


def cofactor_grad(h, a):
    t = np.swapaxes(np.linalg.inv(a), -1, -2)
    inner = (h * t).sum((-2, -1), keepdims=True)
    return np.linalg.det(a)[..., None, None] * (inner * t - t @ np.swapaxes(h, -1, -2) @ t)


def their_cofactor_grad(torch, h, a):
    t = torch.linalg.inv(a).mT
    return torch.linalg.det(a)[..., None, None] * ((h * t).sum((-2, -1), keepdim=True) * t - t @ h.mT @ t)


ROWS = [
    Row(
        "det",
        samples=samples(regular, SQUARE),
        reference=np.linalg.det,
        errors=errors("linalg.det"),
        **MATRIX_ROW,
    ),
    Row(
        "slogdet",
        samples=samples(regular, SQUARE),
        reference=np.linalg.slogdet,
        errors=errors("linalg.slogdet"),
        **MATRIX_ROW,
    ),
    Row(
        "cofactor",
        samples=samples(regular, SQUARE),
        reference=cofactor,
        torch=lambda torch, a: torch.linalg.det(a)[..., None, None] * torch.linalg.inv(a).mT,
        **MATRIX_ROW,
    ),
    Row(
        "cofactor_grad",
        samples=lambda rng: [Sample(normal(rng, *s), regular(rng, *s)) for s in SQUARE],
        reference=cofactor_grad,
        torch=their_cofactor_grad,
        **{**MATRIX_ROW, "skip": {**NO_STRETCH, "integers": "called by the rule of cofactor, which takes floats"}},
    ),
]
