"""Rows of ops/sorting/order_statistics.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, distinct, indices
from op_rows.reduction.shared import RANGE, SINGLE, TIED

NAN = np.nan
HOLES = np.array([[1.0, NAN, 3.0, 2.0], [NAN, NAN, 5.0, 4.0]])


def over(options):
    """Samples along each dimension with and without keepdim, and with each of the options."""

    def samples(rng):
        results = [Sample(distinct(rng, 2, 3, 4), dim=dim, keepdim=keep, **option)
                 for dim in SINGLE for keep in (False, True) for option in options]
        return [*results, Sample(distinct(rng, 3, 0), dim=0, **options[0]), Sample(distinct(rng), dim=0, **options[0])]

    return samples


def kth(x, k, dim=-1, keepdim=False):
    """By a full sort."""
    if not x.ndim:
        return x, np.zeros((), np.int64)
    at = np.argsort(x, axis=dim, kind="stable").take([k - 1], dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def median(x, dim, keepdim=False):
    return kth(x, (x.shape[dim] + 1) // 2 if x.ndim else 1, dim, keepdim)


def rank_samples(rng):
    results = [Sample(distinct(rng, *shape), ranks=ranks) for shape in ((5,), (2, 3, 4)) for ranks in ((0,), (3, 1, 1))]
    return [*results, Sample(distinct(rng, 0, 3), ranks=(1,))]


def at_ranks(x, ranks):
    places = np.argsort(x, -1)[..., list(ranks)]
    return np.take_along_axis(x, places, -1), places


def their_ranks(torch, x, ranks):
    return [part[..., list(ranks)] for part in torch.sort(x)]


def mode_samples(rng):
    few = indices(rng, 3, 2, 5, 4).astype(np.float64)
    results = [Sample(few, dim=dim, keepdim=keep) for dim in SINGLE for keep in (False, True)]
    return [*results, Sample(few[0, 0, 0], dim=0), Sample(few[:, :0], dim=0)]


def most_frequent(x, dim=-1, keepdim=False):
    y = np.moveaxis(np.atleast_1d(x), dim, -1)
    values, places = np.zeros(y.shape[:-1]), np.zeros(y.shape[:-1], np.int64)
    for i in np.ndindex(y.shape[:-1]):
        result, counts = np.unique(y[i], return_counts=True)
        values[i] = result[counts.argmax()]
        places[i] = np.flatnonzero(y[i] == values[i])[-1]
    if keepdim and x.ndim:
        return np.expand_dims(values, dim).astype(x.dtype), np.expand_dims(places, dim)
    return values.astype(x.dtype), places


def all_samples(rng):
    shapes = ((2, 3), (5,), (), (4,))
    return [Sample(distinct(rng, *shape), **options) for shape in shapes for options in ({}, {"ignore_nan": True})]


def middle(x, ignore_nan=False):
    ordered = np.sort(x, axis=None)
    return ordered[(x.size - 1) // 2] if x.size else np.float64(NAN)


def their_median(torch, x, ignore_nan=False):
    return torch.nanmedian(x) if ignore_nan else torch.median(x)


def their_median_dim(torch, x, dim, keepdim=False, ignore_nan=False):
    return (torch.nanmedian if ignore_nan else torch.median)(x, dim, keepdim)


def whole(**options):
    """No two equal."""
    return lambda rng: [Sample(rng.permutation(6).reshape(2, 3).astype(np.float64), dim=1, **options)]


EMPTY = Error("empty", lambda op, x: op(x(2, 0), dim=1), IndexError, "Expected reduction dim 1 to have non-zero size")
BOTH = ({}, {"ignore_nan": True})

ROWS = [
    Row("kthvalue", samples=over(({"k": 1}, {"k": 2})), reference=kth, skip=TIED,
        integer_samples=whole(k=2),
        errors=[Error("empty", lambda op, x: op(x(2, 0), 1, 1), IndexError, "dim 1 to have non-zero size"),
                Error("range", lambda op, x: op(x(3), 4), RuntimeError, "selected number k out of range for dim")]),
    Row("at_ranks", samples=rank_samples, reference=at_ranks, torch=their_ranks,
        skip={**TIED, "zero_dim": "see quantile"},
        integer_samples=lambda rng: [Sample(rng.permutation(6).astype(np.float64), ranks=(1, 4))]),
    Row("mode", samples=mode_samples, reference=most_frequent, errors=[RANGE, EMPTY], skip={
        "gradcheck": "equal elements", "gradgradcheck": "equal elements", "layouts": "equal elements"}),
    Row("median_all", samples=all_samples, reference=middle, torch=their_median, skip={
            "layouts": "a stretched array has ties", "oracle_bool": "PyTorch has none", "empty": "NaN, see composites"},
        integer_samples=lambda rng: [Sample(np.array([3.0, 1.0, 2.0, 2.0]))],
        points=[Point(Sample(np.array([1.0, 2.0, 2.0, 3.0])), [[0, 0.5, 0.5, 0]]),
                Point(Sample(np.array([1.0, NAN, 2.0])), [[0, 1, 0]]),
                Point(Sample(np.array([1.0, NAN, 2.0]), ignore_nan=True), [[1, 0, 0]])],
        errors=[Error("nothing", lambda op, x: op(x(0, dtype="int64")), RuntimeError, "must be non-empty for int64")]),
    Row("median_dim", samples=over(BOTH), torch=their_median_dim, skip=TIED, errors=[RANGE, EMPTY],
        integer_samples=whole(),
        reference=lambda x, dim, keepdim=False, ignore_nan=False: median(x, dim, keepdim),
        points=[Point(Sample(HOLES[:1], dim=1), [[[0, 1, 0, 0]]]),
                Point(Sample(HOLES, dim=1, ignore_nan=True), [[[0, 0, 0, 1], [0, 0, 0, 1]]])]),
]  # fmt: skip
