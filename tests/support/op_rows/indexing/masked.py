"""Rows of ops/indexing/masked.py."""

import numpy as np
from op_db import Error, Row, Sample, bools, normal


def fill_samples(rng):
    cases = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1)), ((), ()), ((0, 3), (3,))]
    results = [Sample(normal(rng, *shape), bools(rng, *mask), 1.5) for shape, mask in cases]
    return [*results, Sample(normal(rng, 2, 3), bools(rng, 2, 3), normal(rng))]


ROWS = [
    Row("masked_fill", samples=fill_samples, reference=lambda x, mask, value: np.where(mask, value, x),
        integer_samples=lambda rng: [Sample(normal(rng, 3), bools(rng, 3), 2)],
        errors=[Error("mask", lambda op, x: op(x(3), x(3, dtype="int64"), 0.0), RuntimeError, "boolean masks"),
                Error("value", lambda op, x: op(x(3), x(3, dtype="bool"), x(3)), RuntimeError, "0-dimensional value")]),
]
