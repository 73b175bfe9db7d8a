"""Rows of ops/reduction/cumulative.py."""

import functools

import numpy as np
from op_db import Error, Point, Row, Sample, distinct, normal, positive
from op_rows.reduction.shared import HALVES, NO_FUNCTION, RANGE, SINGLE, TIED, along_each, running
from scipy.special import logsumexp


def prod_samples(rng):
    zeros = normal(rng, 3, 4)
    zeros[0, 1] = zeros[1, 2:] = 0.0
    return [
        Sample(positive(rng), dim=0),
        *(
            Sample(x, dim=dim, keepdim=keep)
            for x in (positive(rng, 2, 3), zeros)
            for dim, keep in ((0, False), (1, True))
        ),
        Sample(positive(rng, 2, 3)),
        Sample(zeros),
        Sample(positive(rng)),
        Sample(positive(rng, 0, 3), dim=0),
        Sample(np.array([2.0, 0.0, 3.0])),
        Sample(positive(rng, 2, 3), keepdim=True),
    ]


def their_prod(torch, x, dim=None, keepdim=False):
    if dim is not None:
        return torch.prod(x, dim, keepdim)
    return torch.prod(x).reshape((1,) * x.ndim if keepdim else ())


def reference_exclusive_prod(x, dim=-1):
    n = x.shape[dim]
    parts = [np.prod(np.delete(x, i, axis=dim), axis=dim, keepdims=True) for i in range(n)]
    return np.concatenate(parts, axis=dim) if parts else np.ones(x.shape)


def exclusive_samples(rng):
    zeros = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]])
    found = [Sample(normal(rng, 2, 4)), Sample(normal(rng, 3, 2), dim=-2), Sample(normal(rng, 2, 1))]
    return [*found, Sample(zeros), Sample(zeros, dim=-2), Sample(normal(rng, 0, 2))]


def their_exclusive_prod(torch, x, dim=-1):
    """The slopes of a product that is written out."""
    product, slopes = torch.func.vjp(lambda x: functools.reduce(torch.mul, x.unbind(dim)), x)
    return slopes(torch.ones_like(product))[0] + x * 0  # of one factor it is 1, whatever x is


def cumsum_samples(rng):
    found = [Sample(normal(rng, 2, 3, 4), dim=dim, reverse=reverse) for dim in SINGLE for reverse in (False, True)]
    return [*found, Sample(normal(rng), dim=0), Sample(normal(rng, 0, 2), dim=0)]


def reference_cumsum(x, dim, reverse=False):
    if x.ndim == 0:
        return x
    return np.flip(np.cumsum(np.flip(x, dim), dim), dim) if reverse else np.cumsum(x, dim)


def their_cumsum(torch, x, dim, reverse=False):
    return x.flip(dim).cumsum(dim).flip(dim) if reverse else torch.cumsum(x, dim)


def growing(compare):
    """Values and last places of cummax or cummin."""

    def reference(x, dim):
        y = np.moveaxis(np.atleast_1d(x), dim, 0)
        values, places = y.copy(), np.zeros(y.shape, np.int64)
        for i in range(1, len(y)):
            better = compare(y[i], values[i - 1])
            values[i] = np.where(better, y[i], values[i - 1])
            places[i] = np.where(better, i, places[i - 1])
        return [np.moveaxis(part, 0, dim).reshape(x.shape) for part in (values, places)]

    return reference


def exp_samples(rng):
    """As logcumsumexp's gradient calls it: x below y where they meet, h of both signs."""
    found = []
    for dim in (-1, -2):
        for reverse in (False, True):
            x = normal(rng, 2, 3)
            found.append(Sample(normal(rng, 2, 3), x, x.max() + positive(rng, 2, 3), dim=dim, reverse=reverse))
    empty = normal(rng, 0, 2)
    return [*found, Sample(empty, empty, empty, dim=-1, reverse=False)]


def exp_reference(h, x, y, dim, reverse):
    turned = [np.flip(a, dim) if reverse else a for a in (h * np.exp(x), np.exp(-y))]
    result = np.cumsum(turned[0], dim) * turned[1]
    return np.flip(result, dim) if reverse else result


def their_exp_cumsum(torch, h, x, y, dim, reverse):
    turned = [part.flip(dim) if reverse else part for part in (h * torch.exp(x), torch.exp(-y))]
    result = torch.cumsum(turned[0], dim) * turned[1]
    return result.flip(dim) if reverse else result


NANS = np.array([1.0, np.nan, 3.0, np.nan])

ROWS = [
    Row(
        "prod",
        samples=prod_samples,
        torch=their_prod,
        tol=HALVES,
        errors=[RANGE, Error("dims", lambda op, x: op(x(2, 2), (0, 1)), TypeError, "'dim' must be int, not tuple")],
        reference=lambda x, dim=None, keepdim=False: np.asarray(np.prod(x, axis=dim, keepdims=keepdim)),
    ),
    Row(
        "exclusive_prod",
        samples=exclusive_samples,
        reference=reference_exclusive_prod,
        torch=their_exclusive_prod,
        tol=HALVES,
        integers="int64",
        skip={"zero_dim": "prod handles it"},
    ),
    Row("cumsum", samples=cumsum_samples, reference=reference_cumsum, torch=their_cumsum, tol=HALVES, errors=[RANGE]),
    Row("logcumsumexp", samples=along_each(normal), reference=running(lambda x, dim: logsumexp(x, dim)), tol=HALVES,
        errors=[RANGE]),
    Row("exp_cumsum", samples=exp_samples, reference=exp_reference, torch=their_exp_cumsum, integers=None, tol=HALVES,
        skip={"zero_dim": "logcumsumexp handles it", "oracle_dtypes": NO_FUNCTION, "integers": "floats only"}),
    Row("cummax", samples=along_each(distinct), reference=growing(np.greater_equal), errors=[RANGE], skip=TIED,
        points=[Point(Sample(np.array([1.0, 1.0, 0.0]), dim=0), [[1, 2, 0]]),
                Point(Sample(NANS, dim=0), [[1, 2, 0, 1]])]),
    Row("cummin", samples=along_each(distinct), reference=growing(np.less_equal), errors=[RANGE], skip=TIED,
        points=[Point(Sample(np.array([1.0, 1.0, 2.0]), dim=0), [[1, 2, 0]])]),
]  # fmt: skip
