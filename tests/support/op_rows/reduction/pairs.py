"""Rows of ops/reduction/pairs.py."""

import warnings

import numpy as np
from op_db import Error, Point, Row, Sample, distinct
from op_rows.reduction.shared import HALVES, RANGE, SINGLE, TIES, moment_samples, numpy_moment, numpy_over, over


def beside_mean(moment):
    def reference(x, dim=None, unbiased=None, keepdim=False, correction=None):
        mean = np.asarray(np.mean(x, axis=None if dim == () or not x.ndim else dim, keepdims=keepdim))
        return numpy_moment(moment)(x, dim, unbiased, keepdim, correction), mean

    return reference


def theirs(name):
    def call(torch, x, dim=None, unbiased=None, keepdim=False, correction=None):
        correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
        with warnings.catch_warnings(action="ignore"):
            return getattr(torch, name)(x, dim, correction=correction, keepdim=keepdim)

    return call


ROWS = [
    Row(
        "var_mean",
        samples=moment_samples,
        reference=beside_mean(np.var),
        torch=theirs("var_mean"),
        tol=HALVES,
        integers=None,
        errors=[RANGE, Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "only support floating")],
    ),
    Row(
        "std_mean",
        samples=lambda rng: [s for s in moment_samples(rng) if s.args[0].ndim],
        reference=beside_mean(np.std),
        torch=theirs("std_mean"),
        tol=HALVES,
        integers=None,
        errors=[RANGE],
        skip={"zero_dim": "the root of a variance of 0 is not smooth", "layouts": "a stretched array has deviation 0"},
        points=[Point(Sample(np.ones((2, 3)), dim=0), [0.5])],
    ),
    Row(
        "aminmax",
        samples=over((None, *SINGLE), distinct, empty=False),
        reference=lambda *args, **kwargs: tuple(numpy_over(f)(*args, **kwargs) for f in (np.min, np.max)),
        torch=lambda torch, x, dim=None, keepdim=False: torch.aminmax(x, dim=dim, keepdim=keepdim),
        errors=[RANGE],
        points=[Point(Sample(TIES, dim=1), [[[1, 0.5, 0.5], [2 / 3] * 3]])],
    ),
]
