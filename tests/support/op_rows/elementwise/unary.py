"""Rows of ops/elementwise/unary.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, fractional, nonzero, normal, positive
from op_rows.elementwise.shared import SPECIAL, WITH_NAN, row, small, zero_at


def special_samples(rng):
    limits = {"nan": 2.0, "posinf": 3.0, "neginf": -1.0}
    limited = [Sample(x, **limits) for x in (SPECIAL, SPECIAL[:0], SPECIAL[0, 1], normal(rng, 3))]
    return [*limited, Sample(normal(rng, 3))]


ROWS = [
    row("neg", np.negative),
    row("abs", np.absolute, nonzero, points=[Point(Sample(np.array([-2.0, 0.0, 0.5])), [[-1, 0, 1]])]),
    row("sign", np.sign, nonzero, points=zero_at(-1.0, 0.0, 2.0)),
    row("reciprocal", lambda x: 1.0 / x, nonzero, tol={"float16": 2e-2, "bfloat16": 0.1}),
    row("square", np.square),
    row("conj_physical", np.conj),
    row("sqrt", np.sqrt, positive),
    row("rsqrt", lambda x: 1.0 / np.sqrt(x), positive, tol={"float16": 1e-2}),
    row("exp", np.exp, points=[Point(Sample(np.array([-np.inf, 0.0])), [[0, 1]])], integer_samples=small),
    row("exp2", np.exp2, integer_samples=small),
    row("expm1", np.expm1, integer_samples=small),
    row("log", np.log, positive),
    row("log2", np.log2, positive),
    row("log10", np.log10, positive),
    row("log1p", np.log1p, positive),
    Row("frexp", samples=lambda rng: [Sample(fractional(rng, *shape)) for shape in ((2, 3), (), (0,))],
        reference=np.frexp, integers=None,
        errors=[Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "only supports float")]),
    Row("nan_to_num", samples=special_samples, reference=np.nan_to_num,
        points=[Point(Sample(SPECIAL), [[[1, 0, 0], [0, 1, 1]]])], skip=WITH_NAN,
        integer_samples=lambda rng: [Sample(np.array([1.0, -2.0]))]),
]
