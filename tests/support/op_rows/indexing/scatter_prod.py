"""Rows of ops/indexing/scatter_prod.py."""

import numpy as np
from op_db import Point, Row, Sample
from op_rows.indexing.scatter import sum_samples
from op_rows.indexing.shared import BLOCK_0D, grid


def order_samples(rng):
    """Indices without duplicates, of which the order is not defined."""
    rows = np.array([[2, 0, 3], [1, 3, 0]])
    results = [Sample(rng.permutation(5)[:size], shape=(5,), dim=-1) for size in (5, 3, 0)]
    return [*results, Sample(rows, shape=(2, 4), dim=-1), Sample(rows.T, shape=(4, 2), dim=-2)]


def scatter_order(index, shape, dim):
    places = np.arange(np.prod(shape)).reshape(shape)[grid(index, dim)].ravel()
    order = np.argsort(places)
    return np.sort(places), order, np.argsort(order)


def scatter_prod(x, index, src, dim):
    out = x.copy()
    np.multiply.at(out, grid(index, dim), src)
    return out


ZEROS = Sample(np.array([1.0, 3.0]), np.array([0, 0, 1, 1]), np.array([0.0, 0.0, 0.0, 2.0]), dim=-1)

ROWS = [
    Row("scatter_prod", samples=sum_samples, reference=scatter_prod, skip=BLOCK_0D,
        torch=lambda torch, x, index, src, dim: x.scatter_reduce(dim, index, src, "prod"),
        points=[Point(ZEROS, [np.array([0.0, 0.0]), np.array([0.0, 0.0, 6.0, 0.0])])],
        tol={"float16": 1e-2, "bfloat16": 6e-2}),
    Row("scatter_order", samples=order_samples, reference=scatter_order, torch=None,
        skip={"oracle": "PyTorch's scatter_reduce has no such step", "zero_dim": BLOCK_0D["zero_dim"],
              "dtypes": "takes no floats", "integers": "takes nothing else",
              "layouts": "a stretched index names other places"}),
]
