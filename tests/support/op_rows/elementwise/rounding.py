"""Rows of ops/elementwise/rounding.py."""

import numpy as np
from op_db import Error, Row, Sample, fractional
from op_rows.elementwise.shared import row, zero_at, zeros


def round_samples(rng):
    digits = [Sample(fractional(rng, 5) * scale, decimals=n) for n, scale in ((1, 0.1), (2, 0.01), (-1, 10.0))]
    return [*digits, *(Sample(fractional(rng, *shape)) for shape in ((2, 3), (), (0,)))]


ROWS = [
    row("floor", lambda x: np.floor(x).astype(x.dtype), fractional, points=zero_at(1.0, 1.5)),
    row("ceil", lambda x: np.ceil(x).astype(x.dtype), fractional, points=zero_at(1.0, 1.5)),
    Row("round", samples=round_samples, reference=lambda x, decimals=0: np.round(x, decimals),
        integer_samples=lambda rng: [Sample(np.array([1.0, -2.0]))], points=zero_at(0.5, 1.0),
        errors=[Error("integers", lambda op, x: op(x(2, dtype="int64"), decimals=1), RuntimeError, "not implemented")]),
    row("trunc", lambda x: np.trunc(x).astype(x.dtype), fractional, points=zero_at(0.0, 1.0)),
    row("frac", lambda x: x - np.trunc(x), fractional, integer_samples=zeros),
]
