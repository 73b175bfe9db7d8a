"""Rows of ops/nan.py."""

import numpy as np
from op_db import Point, Row, Sample, normal

from .reduce import HALVES, RANGE, TUPLES, TWICE, numpy_over, over


def holes(rng, *shape):
    """Every third element or so is NaN."""
    x = normal(rng, *shape)
    return np.where(rng.integers(0, 3, size=shape) == 0, np.nan, x)


SPECIAL = np.array([[1.0, np.nan, np.inf], [-np.inf, 0.0, -2.0]])


def special_samples(rng):
    limits = {"nan": 2.0, "posinf": 3.0, "neginf": -1.0}
    given = [Sample(x, **limits) for x in (SPECIAL, SPECIAL[:0], SPECIAL[0, 1], normal(rng, 3))]
    return [*given, Sample(normal(rng, 3))]


WITH_NAN = {"gradcheck": "numerical derivatives at NaN", "gradgradcheck": "numerical derivatives at NaN"}

ROWS = [
    Row("nan_to_num", samples=special_samples, reference=np.nan_to_num,
        points=[Point(Sample(SPECIAL), [[[1, 0, 0], [0, 1, 1]]])], skip=WITH_NAN,
        integer_samples=lambda rng: [Sample(np.array([1.0, -2.0]))]),
    Row("nansum", samples=over(TUPLES, holes), reference=numpy_over(np.nansum), tol=HALVES, skip=WITH_NAN,
        integer_samples=over(TUPLES), errors=[RANGE, TWICE],
        points=[Point(Sample(SPECIAL[0]), [[1, 0, 1]])]),
]  # fmt: skip
