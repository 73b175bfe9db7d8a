"""Rows of ops/reduction/cumulative.py."""

import itertools

import numpy as np
from op_db import Point, Row, Sample, distinct, normal, positive
from op_rows.reduction.shared import HALVES, NO_FUNCTION, RANGE, SINGLE, TIED, along_each, running
from scipy.special import logsumexp

ZEROS = np.array([[2.0, 0.0, 3.0, 0.0], [1.0, -2.0, 0.5, 3.0], [0.0, 0.0, 0.0, 4.0]])


def cumprod_samples(rng):
    result = along_each(positive)(rng)
    return [*result, Sample(ZEROS, dim=1), Sample(ZEROS, dim=-2), Sample(np.array([0.0]), dim=0)]


def jacobian(x, dim):
    """J[..., k, i] = the product of the first k + 1 factors without x_i, i <= k; x with `dim` last."""
    last = np.moveaxis(x, dim, -1)
    n = last.shape[-1]
    rows = [[np.prod(np.delete(last[..., : k + 1], i, -1), -1) if i <= k else np.zeros(last.shape[:-1])
             for i in range(n)] for k in range(n)]  # fmt: skip
    return np.moveaxis(np.array(rows).reshape(n, n, *last.shape[:-1]), (0, 1), (-2, -1))


def product_with(equation):
    def reference(h, x, dim):
        result = np.einsum(equation, jacobian(x, dim), np.moveaxis(h, dim, -1))
        return np.moveaxis(result, -1, dim)

    return reference


def written_out(torch, dim):
    """A running product of which every derivative is right where factors are 0."""
    return lambda x: torch.stack(list(itertools.accumulate(x.unbind(dim), torch.mul)), dim)


def their_cumprod(torch, x, dim):
    """PyTorch's second derivative is wrong where two factors are 0."""
    return written_out(torch, dim)(x) if x.requires_grad and (x == 0).sum() > 1 else torch.cumprod(x, dim)


def their_vjp(torch, h, x, dim):
    return torch.func.vjp(written_out(torch, dim), x)[1](h)[0]


def their_jvp(torch, h, x, dim):
    slopes = torch.func.vjp(written_out(torch, dim), x)[1]
    return torch.func.vjp(lambda u: slopes(u)[0], torch.zeros_like(h))[1](h)[0]


def zero_pairs(rng):
    results = [Sample(normal(rng, *x.shape), x, dim=dim) for x in (ZEROS, normal(rng, 2, 3)) for dim in (-1, -2)]
    return [*results, Sample(normal(rng, 0, 2), normal(rng, 0, 2), dim=-1)]


INNER = {"zero_dim": "cumprod handles it", "oracle_dtypes": NO_FUNCTION}

def cumsum_samples(rng):
    results = [Sample(normal(rng, 2, 3, 4), dim=dim, reverse=reverse) for dim in SINGLE for reverse in (False, True)]
    return [*results, Sample(normal(rng), dim=0), Sample(normal(rng, 0, 2), dim=0)]


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
    samples = []
    for dim in (-1, -2):
        for reverse in (False, True):
            x = normal(rng, 2, 3)
            samples.append(Sample(normal(rng, 2, 3), x, x.max() + positive(rng, 2, 3), dim=dim, reverse=reverse))
    empty = normal(rng, 0, 2)
    return [*samples, Sample(empty, empty, empty, dim=-1, reverse=False)]


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
    Row("cumprod", samples=cumprod_samples, reference=running(lambda x, dim: np.prod(x, dim)), tol=HALVES,
        errors=[RANGE], integer_samples=lambda rng: [Sample(ZEROS.round(), dim=1)], torch=their_cumprod),
    Row("cumprod_vjp", samples=zero_pairs, reference=product_with("...ki,...k->...i"), torch=their_vjp,
        integers="float64", tol={"float16": 2e-2, "bfloat16": 0.1}, skip=INNER),
    Row("cumprod_jvp", samples=zero_pairs, reference=product_with("...ki,...i->...k"), torch=their_jvp,
        integers="float64", tol={"float16": 2e-2, "bfloat16": 0.1}, skip=INNER),
]  # fmt: skip
