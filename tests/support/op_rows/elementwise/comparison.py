"""Rows of ops/elementwise/comparison.py."""

import numpy as np
from op_db import Error, Row, Sample, binary, bools, normal, unary
from op_rows.elementwise.shared import errors, few


def special(rng):
    """NaN, infinities and both zeros among ordinary numbers."""
    values = np.where(rng.integers(0, 2, (2, 3)), normal(rng, 2, 3), [[1.0, np.nan, -np.inf], [np.inf, 0.0, -2.0]])
    every = np.array([1.0, np.nan, -np.inf, np.inf, 0.0, -0.0, -2.0])
    return [Sample(values), Sample(values[:0]), Sample(rng.permutation(every)), Sample(rng.choice(every))]


def whole(rng):
    return [Sample(few(rng, 3))]


def truth(rng):
    return [
        Sample(bools(rng, 4), bools(rng, 4)), Sample(few(rng, 2, 3), few(rng, 3)), Sample(few(rng), few(rng, 2)),
        Sample(bools(rng, 0, 2), bools(rng, 2)), Sample(few(rng, 3), True), Sample(bools(rng, 3), few(rng, 3)),
    ]  # fmt: skip


NEAR = np.array([[1.0, 2.0, np.nan], [np.inf, -np.inf, 100.0]])
CLOSE = np.array([[1.0, 2.001, np.nan], [np.inf, np.inf, 100.0005]])


def close_samples(rng):
    x = normal(rng, 2, 3)
    return [
        Sample(x, x + normal(rng, 2, 3) * [1e-3, 1e-5, 1e-8]), Sample(x, x + normal(rng, 3) * 0.1, atol=0.05),
        Sample(NEAR, CLOSE), Sample(NEAR, CLOSE, equal_nan=True), Sample(NEAR, CLOSE, rtol=0.0, atol=0.0),
        Sample(NEAR, CLOSE[0], rtol=0.0, atol=0.01), Sample(NEAR[0, 0], CLOSE[1]), Sample(NEAR[:0], CLOSE[0]),
    ]  # fmt: skip


def tests(name, reference):
    return Row(name, samples=special, reference=reference, integer_samples=whole)


COMPARED = [
    binary(name, getattr(np, numpy), few, errors=errors(name))
    for name, numpy in [("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                        ("ge", "greater_equal")]
]  # fmt: skip

ROWS = [
    *COMPARED,
    *(Row(f"logical_{name}", samples=truth, reference=getattr(np, f"logical_{name}"), errors=errors(f"logical_{name}"))
      for name in ("and", "or", "xor")),
    unary("logical_not", np.logical_not, few),
    tests("isnan", np.isnan),
    tests("isfinite", np.isfinite),
    tests("isinf", np.isinf),
    tests("isposinf", lambda x: x == np.inf),
    tests("isneginf", lambda x: x == -np.inf),
    tests("isreal", lambda x: np.ones(x.shape, bool)),
    tests("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0),
    Row("isclose", samples=close_samples, reference=np.isclose,
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3))],
        errors=[Error("negative", lambda op, x: op(x(2), x(2), rtol=-1.0), RuntimeError, "rtol must be greater than"),
                Error("dtypes", lambda op, x: op(x(2), x(2, dtype="int64")), RuntimeError, "same dtype"),
                Error("shapes", lambda op, x: op(x(2), x(3)), RuntimeError, "isclose")]),
]  # fmt: skip
