"""Rows of ops/reduction/variance.py."""

import warnings

import numpy as np
from op_db import Error, Point, Row, Sample
from op_rows.reduction.shared import HALVES, RANGE, moment_samples, numpy_moment


def moment(name):
    """torch.var or torch.std with the arguments of ours; it warns about empty tensors."""

    def call(torch, x, dim=None, unbiased=None, keepdim=False, correction=None):
        correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
        with warnings.catch_warnings(action="ignore"):
            return getattr(torch, name)(x, dim, correction=correction, keepdim=keepdim)

    return call


ROWS = [
    Row(
        "var",
        samples=moment_samples,
        reference=numpy_moment(np.var),
        torch=moment("var"),
        tol=HALVES,
        integers=None,
        errors=[
            RANGE,
            Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "std and var only support"),
            Error("both", lambda op, x: op(x(2), unbiased=True, correction=1), TypeError, "not both"),
        ],
    ),
    Row(
        "std",
        samples=lambda rng: [s for s in moment_samples(rng) if s.args[0].ndim],
        reference=numpy_moment(np.std),
        torch=moment("std"),
        tol=HALVES,
        integers=None,
        skip={"zero_dim": "the root of a variance of 0 is not smooth", "layouts": "a stretched array has deviation 0"},
        points=[Point(Sample(np.ones((2, 3)), dim=0), [0.0])],
    ),
]
