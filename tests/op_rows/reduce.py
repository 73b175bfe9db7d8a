"""Rows of ops/reduction/ (sum.py, logsumexp.py, norm.py, variance.py, minmax.py, cumulative.py)."""

import functools
import warnings

import numpy as np
from op_db import Error, Point, Row, Sample, distinct, nonzero, normal, positive
from scipy.special import logsumexp

TUPLES = (None, 0, -1, (0, 2), (-1, 0), ())
SINGLE = (0, 1, -1)
RANGE = Error(
    "range",
    lambda op, x: op(x(2, 3), dim=2),
    IndexError,
    r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)",
)
TWICE = Error("twice", lambda op, x: op(x(2, 3), dim=(0, -2)), RuntimeError, "dim 0 appears multiple times")


def over(dims, domain=normal, empty=True, zero_dim=True):
    """Samples of shape (2, 3, 4) reduced over each of `dims`, with and without keepdim; empty and 0-d ones."""

    def samples(rng):
        found = [Sample(domain(rng, 2, 3, 4), dim=dim, keepdim=keep) for dim in dims for keep in (False, True)]
        if empty:
            found += [Sample(domain(rng, 0, 3), dim=0), Sample(domain(rng, 2, 0), dim=0, keepdim=True)]
        else:
            found.append(Sample(domain(rng, 2, 0), dim=0))
        return [*found, Sample(domain(rng), dim=dims[0]), Sample(domain(rng, 3), dim=0)] if zero_dim else found

    return samples


def axis(dim):
    return None if dim == () else dim


def numpy_over(function, **options):
    """A NumPy reduction as a reference."""

    def reference(x, dim=None, keepdim=False):
        if x.ndim == 0:
            dim = None
        return np.asarray(function(x, axis=axis(dim), keepdims=keepdim, **options))

    return reference


def moment(name):
    """torch.var or torch.std with the arguments of ours; it warns about empty tensors."""

    def call(torch, x, dim=None, unbiased=None, keepdim=False, correction=None):
        correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
        with warnings.catch_warnings(action="ignore"):
            return getattr(torch, name)(x, dim, correction=correction, keepdim=keepdim)

    return call


def numpy_moment(function):
    def reference(x, dim=None, unbiased=None, keepdim=False, correction=None):
        less = (1 if unbiased in (None, True) else 0) if correction is None else correction
        return np.asarray(function(x, axis=axis(dim), keepdims=keepdim, ddof=less))

    return reference


def moment_samples(rng):
    return [
        *(Sample(normal(rng, 2, 3, 4), dim=dim, keepdim=keep) for dim in TUPLES[:-1] for keep in (False, True)),
        Sample(normal(rng, 5), correction=0),
        Sample(normal(rng, 5, 2), dim=0, unbiased=False),
        Sample(normal(rng, 5, 2), dim=0, correction=2),
        Sample(normal(rng), correction=0),
        Sample(normal(rng, 2, 0), dim=0, correction=0),
    ]


ORDERS = ("fro", 1, 2, 3, 2.5, 0.5, float("inf"), -float("inf"))


def norm_samples(rng):
    found = [
        Sample(nonzero(rng, 2, 3), p=p, dim=dim, keepdim=keep)
        for p in ORDERS
        for dim, keep in ((None, False), (1, False), ((0, 1), True))
    ]
    return [*found, Sample(nonzero(rng)), Sample(nonzero(rng, 0, 2), dim=0), Sample(nonzero(rng, 2, 3), p=0)]


def reference_norm(x, p="fro", dim=None, keepdim=False):
    p, size = 2 if p == "fro" else p, np.abs(x)
    if np.isinf(p):
        return np.asarray((np.max if p > 0 else np.min)(size, axis=dim, keepdims=keepdim))
    if p == 0:
        return np.asarray(np.sum(size != 0, axis=dim, keepdims=keepdim, dtype=np.float64))
    return np.asarray(np.sum(size**p, axis=dim, keepdims=keepdim) ** (1 / p))


def their_norm(torch, x, p="fro", dim=None, keepdim=False):
    return torch.linalg.vector_norm(x, 2 if p == "fro" else p, dim, keepdim)


ONLY_FLOATS = {"oracle_bool": "floating point only"}
HALVES = {"float16": 1e-2, "bfloat16": 6e-2}

SUMS = [
    Row("sum", samples=over(TUPLES), reference=numpy_over(np.sum), tol=HALVES, errors=[RANGE, TWICE]),
    Row(
        "mean",
        samples=lambda rng: [*over(TUPLES)(rng)[:-4], Sample(normal(rng)), Sample(normal(rng, 2, 0), dim=0)],
        reference=numpy_over(np.mean),
        tol=HALVES,
        integers=None,
        errors=[RANGE, TWICE, Error("keepdim", lambda op, x: op(x(2, 2), 0, 1), TypeError, "must be bool, not int"),
                Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "floating point")],
    ),
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
    Row(
        "logsumexp",
        samples=over((0, (0, 2), -1), empty=False),
        torch="torch.logsumexp",
        tol=HALVES,
        reference=lambda x, dim, keepdim=False: np.asarray(
            logsumexp(x, axis=dim if x.ndim else None, keepdims=keepdim)
        ),
        errors=[RANGE],
    ),
    Row(
        "norm",
        samples=norm_samples,
        reference=reference_norm,
        torch=their_norm,
        tol={"float16": 2e-2, "bfloat16": 0.1},
        integers=None,
        skip={"layouts": "a stretched array has ties"},
        points=[
            Point(Sample(np.zeros(3)), [0.0]),
            Point(Sample(np.array([2.0, -2.0, 1.0]), p=np.inf), [[0.5, -0.5, 0]]),
            Point(Sample(np.array([1.0, -1.0, 0.0]), p=-1), [0.0]),
        ],
        errors=[RANGE, Error("order", lambda op, x: op(x(2), p="nuc"), RuntimeError, "p is a number or 'fro'"),
                Error("empty", lambda op, x: op(x(2, 0), np.inf, 1), RuntimeError, "inf norm on an empty tensor")],
    ),
]


# ---- the largest and the smallest ----------------------------------------------------------------------


def empty_errors(name):
    return [
        RANGE,
        Error("nothing", lambda op, x: op(x(0)), RuntimeError, rf"{name}\(\): Expected reduction dim to be specified"),
        Error("empty dim", lambda op, x: op(x(2, 0), dim=1), IndexError, f"{name}.*dim 1 to have non-zero size"),
    ]


TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
TIED = {"layouts": "a stretched array has ties, where the first index counts"}


def flat_arg(function):
    def reference(x, dim=None, keepdim=False):
        return np.asarray(function(x, axis=None if x.ndim == 0 else dim, keepdims=keepdim), np.int64)

    return reference


def along(value, place):
    def reference(x, dim, keepdim=False):
        dim = dim if x.ndim else None
        return value(x, axis=dim, keepdims=keepdim), np.asarray(place(x, axis=dim, keepdims=keepdim), np.int64)

    return reference


def truth(function):
    def reference(x, dim=None, keepdim=False):
        return x != 0 if dim == () else numpy_over(function)(x, dim, keepdim)

    return reference


EXTREMES = [
    Row(
        "amax",
        samples=over(TUPLES, distinct, empty=False),
        reference=numpy_over(np.max),
        errors=empty_errors("amax"),
        points=[Point(Sample(TIES, dim=1), [[[0, 0.5, 0.5], [1 / 3] * 3]])],
    ),
    Row(
        "amin",
        samples=over(TUPLES, distinct, empty=False),
        reference=numpy_over(np.min),
        errors=empty_errors("amin"),
        points=[Point(Sample(TIES, dim=1), [[[1, 0, 0], [1 / 3] * 3]])],
    ),
    Row("argmax", samples=over((None, *SINGLE), distinct, empty=False), reference=flat_arg(np.argmax), errors=[RANGE]),
    Row("argmin", samples=over((None, *SINGLE), distinct, empty=False), reference=flat_arg(np.argmin), errors=[RANGE]),
    Row(
        "max_dim",
        samples=over(SINGLE, distinct, empty=False),
        reference=along(np.max, np.argmax),
        torch="torch.max",
        errors=[RANGE, Error("empty dim", lambda op, x: op(x(2, 0), 1), IndexError, "dim 1 to have non-zero size")],
    ),
    Row(
        "min_dim",
        samples=over(SINGLE, distinct, empty=False),
        reference=along(np.min, np.argmin),
        torch="torch.min",
        errors=[RANGE],
    ),
    Row("any", samples=over((None, 0, (0, 2), ())), reference=truth(np.any), integers="bool", errors=[RANGE]),
    Row("all", samples=over((None, 0, (0, 2), ())), reference=truth(np.all), integers="bool", errors=[RANGE]),
]


# ---- products and scans --------------------------------------------------------------------------------


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


SCANS = [
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
]

ROWS = [*SUMS, *EXTREMES, *SCANS]
