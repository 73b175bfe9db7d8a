"""Rows of ops/reduction/minmax.py."""


import numpy as np
from op_db import Error, Point, Row, Sample, distinct
from op_rows.reduction.shared import RANGE, SINGLE, TIES, TUPLES, numpy_over, over


def empty_errors(name):
    return [
        RANGE,
        Error("nothing", lambda op, x: op(x(0)), RuntimeError, rf"{name}\(\): Expected reduction dim to be specified"),
        Error("empty dim", lambda op, x: op(x(2, 0), dim=1), IndexError, f"{name}.*dim 1 to have non-zero size"),
    ]


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


ROWS = [
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
        errors=[RANGE, Error("empty dim", lambda op, x: op(x(2, 0), 1), IndexError, "dim 1 to have non-zero size")],
    ),
    Row(
        "min_dim",
        samples=over(SINGLE, distinct, empty=False),
        reference=along(np.min, np.argmin),
        errors=[RANGE],
    ),
    Row("any", samples=over((None, 0, (0, 2), ())), reference=truth(np.any), integers="bool", errors=[RANGE]),
    Row("all", samples=over((None, 0, (0, 2), ())), reference=truth(np.all), integers="bool", errors=[RANGE]),
]
