"""Samples, references and errors that rows of several modules of ops/reduction/ share."""

import numpy as np
from op_db import Error, Sample, normal

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
        results = [Sample(domain(rng, 2, 3, 4), dim=dim, keepdim=keep) for dim in dims for keep in (False, True)]
        if empty:
            results += [Sample(domain(rng, 0, 3), dim=0), Sample(domain(rng, 2, 0), dim=0, keepdim=True)]
        else:
            results.append(Sample(domain(rng, 2, 0), dim=0))
        return [*results, Sample(domain(rng), dim=dims[0]), Sample(domain(rng, 3), dim=0)] if zero_dim else results

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


HALVES = {"float16": 1e-2, "bfloat16": 6e-2}
TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
TIED = {"layouts": "a stretched array has ties, where the first index counts"}


def along_each(domain, **options):
    """Samples of three dimensions along each of them, a 0-d and an empty one."""

    def samples(rng):
        results = [Sample(domain(rng, 2, 3, 4), dim=dim, **options) for dim in SINGLE]
        return [*results, Sample(domain(rng), dim=0, **options), Sample(domain(rng, 0, 2), dim=0, **options)]

    return samples


def running(function):
    """`function` of the first 1, 2, ... elements."""

    def reference(x, dim):
        if not x.ndim:
            return x
        parts = [function(np.take(x, range(i + 1), dim), dim) for i in range(x.shape[dim])]
        return np.stack(parts, dim) if parts else np.zeros(x.shape)

    return reference


NO_FUNCTION = "torch has no such function"
