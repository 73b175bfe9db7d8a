"""Rows of ops/reduction/nan.py."""

import warnings

import numpy as np
from op_db import Point, Row, Sample, normal
from op_rows.elementwise.shared import SPECIAL, WITH_NAN
from op_rows.reduction.shared import HALVES, RANGE, TUPLES, TWICE, numpy_over, over


def holes(rng, *shape):
    """Every third element or so is NaN."""
    x = normal(rng, *shape)
    return np.where(rng.integers(0, 3, size=shape) == 0, np.nan, x)


def silent(function):
    """Without NumPy's warning that the mean of nothing is NaN."""

    def reference(*args, **kwargs):
        with warnings.catch_warnings(action="ignore"):
            return function(*args, **kwargs)

    return reference


def their_nanmean(torch, x, dim=None, keepdim=False):
    """torch.nanmean, but for the gradients of slices that are all NaN: PyTorch's are NaN."""
    counts = (~x.isnan()).sum(dim, keepdim)
    if not x.requires_grad or (counts > 0).all():
        return torch.nanmean(x, dim, keepdim)
    return torch.where(counts > 0, torch.nansum(x, dim, keepdim) / counts.clamp(min=1), float("nan"))


ROWS = [
    Row("nansum", samples=over(TUPLES, holes), reference=numpy_over(np.nansum), tol=HALVES, skip=WITH_NAN,
        integer_samples=over(TUPLES), errors=[RANGE, TWICE],
        points=[Point(Sample(SPECIAL[0]), [[1, 0, 1]])]),
    Row("nanmean", samples=lambda rng: [*over(TUPLES[:-1], holes)(rng)[:-4], Sample(np.full((2, 2), np.nan), dim=0)],
        reference=silent(numpy_over(np.nanmean)), tol=HALVES, integers=None, errors=[RANGE, TWICE],
        integer_samples=over(TUPLES), skip={
            **WITH_NAN, "empty": "NaN", "zero_dim": "a NaN may be"}, torch=their_nanmean,
        points=[Point(Sample(SPECIAL[0]), [[0.5, 0, 0.5]]), Point(Sample(np.full(2, np.nan)), [0.0])]),
]  # fmt: skip
