"""Rows of ops/linalg/svd.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.linalg.shared import MATRICES, MATRIX_ROW, apart, errors, samples, signs, spread

SYSTEMS = (((4, 3), (4, 2)), ((3, 4), (3, 1)), ((2, 4, 3), (4, 1)), ((4, 3), (2, 4, 1)), ((0, 3, 2), (0, 3, 1)))
DRIVER = Error("driver", lambda op, x: op(x(2, 2), driver="gesdd"), RuntimeError, "driver")


def svd(a, full_matrices=True):
    u, s, vt = np.linalg.svd(a, full_matrices)
    return u, s, vt


def their_svd(torch, a, full_matrices=True):
    u, s, vt = torch.linalg.svd(a, full_matrices)
    turn = signs(torch, u, svd(a.detach().numpy(), full_matrices)[0], -2)
    return u * turn, s, vt * turn.mT


def counted(values, shape, atol=None, rtol=None):
    rtol = rtol if rtol is not None else 1e-6 if atol is None else 0.0
    sizes = np.abs(values)
    return (sizes > np.maximum(atol or 0.0, rtol * sizes.max(-1, keepdims=True, initial=0.0))).sum(-1)


ROWS = [
    Row(
        "svd",
        samples=samples(spread, MATRICES, {"full_matrices": False}),
        reference=svd,
        torch=their_svd,
        errors=[*errors("linalg.svd", square=False), DRIVER],
        **MATRIX_ROW,
    ),
    Row(
        "svdvals",
        samples=samples(spread, MATRICES),
        reference=lambda a: np.linalg.svd(a, compute_uv=False),
        errors=[*errors("linalg.svdvals", square=False), DRIVER],
        **MATRIX_ROW,
    ),
    Row(
        "pinv",
        samples=lambda rng: [
            *samples(spread, MATRICES, {}, {"rtol": 0.01}, {"atol": 0.01})(rng),
            Sample(apart(rng, 3, 3), hermitian=False),
        ],
        reference=lambda a, **words: np.linalg.pinv(a),
        errors=errors("linalg.pinv", square=False),
        **MATRIX_ROW,
    ),
    Row(
        "numerical_rank",
        samples=lambda rng: [
            Sample(normal(rng, 3) * [1.0, 1e-20, 1.0], shape=(3, 4)),
            Sample(normal(rng, 3, 2), shape=(2, 2), atol=0.5),
            Sample(normal(rng, 2, 3), shape=(3, 3), rtol=0.4),
            Sample(np.zeros((2, 0)), shape=(0, 3)),
        ],
        reference=counted,
        torch=None,
        skip={"oracle": "torch.linalg.matrix_rank takes the matrix", "zero_dim": "takes vectors",
              "integers": "singular values are floats"},
        dtypes=MATRIX_ROW["dtypes"],
    ),
    Row(
        "least_squares",
        samples=lambda rng: [Sample(spread(rng, *a), normal(rng, *b)) for a, b in SYSTEMS],
        reference=lambda a, b: (np.linalg.pinv(a) @ b, np.linalg.matrix_rank(a), np.linalg.svd(a, compute_uv=False)),
        torch=lambda torch, a, b: (torch.linalg.pinv(a) @ b, torch.linalg.matrix_rank(a), torch.linalg.svdvals(a)),
        **MATRIX_ROW,
    ),
]
