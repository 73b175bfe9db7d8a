"""Rows of ops/linalg/distance.py."""

import numpy as np
from op_db import Error, Row, Sample, normal


def point_samples(rng):
    shapes = [((2, 3), (4, 3)), ((2, 1, 2, 3), (3, 4, 3)), ((0, 2), (3, 2)), ((1, 3), (27, 3)), ((2, 0), (3, 0))]
    return [Sample(normal(rng, *a), normal(rng, *b) + 4) for a, b in shapes]


def euclidean(x1, x2):
    return np.sqrt(((x1[..., :, None, :] - x2[..., None, :, :]) ** 2).sum(-1))


def their_euclidean(torch, x1, x2):
    """torch.cdist, which is compared by test_composites.py, has no second derivative."""
    return torch.linalg.vector_norm(x1[..., :, None, :] - x2[..., None, :, :], dim=-1)


def difference_samples(rng):
    shapes = ((3, 2), (4, 3, 2), (3, 0))
    return [Sample(normal(rng, *shape), np.array([0, 2, 2]), np.array([1, 1, 0])) for shape in shapes]


ROWS = [
    Row("row_differences", samples=difference_samples, torch=lambda torch, x, i, j: x[..., i, :] - x[..., j, :],
        reference=lambda x, i, j: x[..., i, :] - x[..., j, :], skip={"zero_dim": "there are no rows"}),
    Row("euclidean_distances", samples=point_samples, reference=euclidean, torch=their_euclidean,
        skip={"zero_dim": "matrices only"},
        tol={"float16": 2e-2, "bfloat16": 0.1}, errors=[
            Error("columns", lambda op, x: op(x(2, 3), x(2, 4)), RuntimeError, "euclidean_distances")]),
]  # fmt: skip
