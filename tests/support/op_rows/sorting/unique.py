"""Rows of ops/sorting/unique.py."""

import numpy as np
from op_db import Row, Sample
from op_rows.elementwise.shared import few
from op_rows.indexing.shared import NO_BATCH


def repeated(rng):
    x = few(rng, 4, 3)
    results = [Sample(x, dim=dim) for dim in (None, 0, 1, -1)]
    return [*results, Sample(x[0, 0]), Sample(x[:0]), Sample(x[:0], dim=0), Sample(few(rng, 2, 2, 3), dim=1)]


def unique(x, dim=None):
    if dim is None or not x.ndim:
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        return values, inverse.reshape(x.shape), counts
    return np.unique(x, return_inverse=True, return_counts=True, axis=dim)


def runs(x, dim=None):
    y = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    starts = [i for i in range(len(y)) if not i or np.any(y[i] != y[i - 1])]
    counts = np.diff([*starts, len(y)]).astype(np.int64)
    inverse = np.repeat(np.arange(len(starts)), counts)
    values = y[np.array(starts, np.int64)]
    return (values, inverse.reshape(x.shape), counts) if dim is None else (np.moveaxis(values, 0, dim), inverse, counts)


def theirs(name):
    def call(torch, x, dim=None):
        return getattr(torch, name)(x, return_inverse=True, return_counts=True, dim=dim)

    return call


NO_DERIVATIVE = "neither we nor PyTorch have a derivative"
SKIP = {**NO_BATCH, "oracle_grad": NO_DERIVATIVE, "oracle_gradgrad": NO_DERIVATIVE}

ROWS = [
    Row("unique_all", samples=repeated, reference=unique, torch=theirs("unique"), constant="x", skip=SKIP),
    Row("unique_values", samples=lambda rng: [Sample(s.args[0]) for s in repeated(rng)], reference=np.unique,
        constant="x", skip=SKIP),
    Row("unique_runs", samples=repeated, reference=runs, torch=theirs("unique_consecutive"),
        constant="x", skip=SKIP),
]  # fmt: skip
