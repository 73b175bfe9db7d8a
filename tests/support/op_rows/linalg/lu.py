"""Rows of ops/linalg/lu.py."""

import numpy as np
import scipy.linalg
from op_db import Error, Row, Sample
from op_rows.linalg.shared import MATRICES, MATRIX_ROW, NO_STRETCH, NO_ZERO_DIM, errors, samples, spread


def packed(a, pivot=True):
    m, n = a.shape[-2:]
    flat = a.reshape(-1, m, n)
    results = [scipy.linalg.lapack.dgetrf(x) for x in flat]
    k = min(m, n)
    factors = np.array([f for f, _, _ in results]).reshape(a.shape)
    pivots = np.array([p + 1 for _, p, _ in results], np.int32).reshape(*a.shape[:-2], k)
    return factors, pivots, np.zeros(a.shape[:-2], np.int32)


def order(pivots, rows, inverse=False):
    seen = []
    for swaps in pivots.reshape(-1, pivots.shape[-1]):
        one = np.arange(rows)
        for i, j in enumerate(swaps - 1):
            one[[i, j]] = one[[j, i]]
        seen.append(one)
    seen = np.array(seen, np.int64).reshape(*pivots.shape[:-1], rows)
    return seen.argsort(-1) if inverse else seen


# (shape of the pivots, number of rows)
PIVOTS = (((3,), 3), ((2, 2), 4), ((0, 2), 2))


def order_samples(rng):
    """Each row is swapped with itself or with one below."""
    swaps = [(rng.integers(np.arange(shape[-1]), rows, shape) + 1, rows) for shape, rows in PIVOTS]
    return [Sample(p.astype(np.int32), rows=rows, inverse=flag) for p, rows in swaps for flag in (False, True)]


def split(factors, pivots, unpack_data=True, unpack_pivots=True):
    m, n = factors.shape[-2:]
    k = min(m, n)
    one = np.eye(m)[order(pivots, m)]
    lower, upper = np.tril(factors[..., :k], -1) + np.eye(m, k), np.triu(factors[..., :k, :])
    nothing = np.empty((0,))
    return np.swapaxes(one, -1, -2) if unpack_pivots else nothing, *((lower, upper) if unpack_data else [nothing] * 2)


def their_order(torch, pivots, rows, inverse=False):
    unpacked = torch.lu_unpack(torch.zeros(*pivots.shape[:-1], rows, pivots.shape[-1]), pivots.int())[0]
    return unpacked.argmax(-1 if inverse else -2)


def packed_samples(rng):
    results = [packed(spread(rng, *shape))[:2] for shape in MATRICES]
    return [*(Sample(*f) for f in results), Sample(*results[0], unpack_pivots=False)]


ROWS = [
    Row(
        "lu_factor_ex",
        samples=samples(spread, MATRICES),
        reference=packed,
        errors=[
            *errors("torch.linalg.lu_factor", square=False),
            Error("pivot", lambda op, x: op(x(2, 2), pivot=False), RuntimeError, "LU without pivoting"),
            Error(
                "singular",
                lambda op, x: op(x(2, 2), check_errors=True),
                RuntimeError,
                r"torch.linalg.lu_factor_ex: U\[2,2\] is zero",
            ),
        ],
        **MATRIX_ROW,
    ),
    Row(
        "lu_unpack",
        samples=packed_samples,
        reference=split,
        **{**MATRIX_ROW, "skip": {**NO_STRETCH, "oracle_dtypes": "torch unpacks what no factorization gives, too"}},
    ),
    Row(
        "row_order",
        samples=order_samples,
        reference=order,
        torch=their_order,
        skip={
            **NO_ZERO_DIM,
            "layouts": "pivots of equal rows say nothing",
            "integers": "takes nothing else",
            "dtypes": "takes no floats",
        },
    ),
]
