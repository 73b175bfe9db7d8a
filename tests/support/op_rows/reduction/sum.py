"""Rows of ops/reduction/sum.py."""

import functools

import numpy as np
from op_db import Error, Row, Sample, normal, positive
from op_rows.elementwise.shared import few
from op_rows.reduction.shared import HALVES, RANGE, TUPLES, TWICE, numpy_over, over


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
    results = [Sample(normal(rng, 2, 4)), Sample(normal(rng, 3, 2), dim=-2), Sample(normal(rng, 2, 1))]
    return [*results, Sample(zeros), Sample(zeros, dim=-2), Sample(normal(rng, 0, 2))]


def their_exclusive_prod(torch, x, dim=-1):
    """The slopes of a product that is written out."""
    product, slopes = torch.func.vjp(lambda x: functools.reduce(torch.mul, x.unbind(dim)), x)
    return slopes(torch.ones_like(product))[0] + x * 0  # of one factor it is 1, whatever x is


ROWS = [
    Row("count_nonzero", samples=lambda rng: [Sample(few(rng, 2, 3, 4), dim=dim) for dim in (None, 0, -1, (0, 2))] + [
            Sample(few(rng)), Sample(few(rng, 0, 2), dim=0)],
        reference=lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim), np.int64), errors=[RANGE, TWICE]),
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
]  # fmt: skip
