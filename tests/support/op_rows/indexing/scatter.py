"""Rows of ops/indexing/scatter.py."""

import numpy as np
from op_db import Point, Row, Sample, distinct, indices, normal
from op_rows.indexing.shared import ALONG, BLOCK_0D, grid


def scatter_samples(rng):
    """Indices without duplicates: which of two wins is not defined."""
    rows = np.array([[2, 0, 3], [1, 3, 0]])
    return [
        Sample(normal(rng, 2, 4), rows, normal(rng, 2, 3), dim=-1), Sample(normal(rng, 2, 4), rows, 2.5, dim=-1),
        Sample(normal(rng, 4, 2), rows.T, normal(rng, 3, 2), dim=-2),
        Sample(normal(rng, 3), np.zeros(0, np.int64), normal(rng, 0), dim=-1),
    ]  # fmt: skip


def sum_samples(rng):
    return [Sample(normal(rng, *shape), indices(rng, max(shape[dim], 1), *size), normal(rng, *size), dim=dim)
            for shape, size, dim in ALONG]


def extreme_samples(rng):
    samples = []
    for largest in (True, False):
        for shape, size, dim in ALONG:
            x, src = np.split(distinct(rng, 200), 2)
            x, src = x[: int(np.prod(shape))].reshape(shape), src[: int(np.prod(size))].reshape(size)
            samples.append(Sample(x, indices(rng, max(shape[dim], 1), *size), src, dim=dim, largest=largest))
    return samples


def scatter(x, index, src, dim):
    out = x.copy()
    out[grid(index, dim)] = src
    return out


def scatter_sum(x, index, src, dim):
    out = x.copy()
    np.add.at(out, grid(index, dim), src)
    return out


def scatter_counts(x, index, dim, first):
    out = np.full(x.shape, first)
    np.add.at(out, grid(index, dim), 1)
    return np.maximum(out, 1).astype(x.dtype)


def their_counts(torch, x, index, dim, first):
    counts = torch.full(x.shape, first).scatter_add(dim, index, torch.ones_like(index))
    return counts.clamp(min=1).to(x.dtype)


def scatter_extreme(x, index, src, dim, largest):
    out = x.copy()
    (np.maximum if largest else np.minimum).at(out, grid(index, dim), src)
    return out


EXTREMES = {True: "amax", False: "amin"}
TIES = Sample(np.array([1.0, 2.0]), np.array([0, 0, 1]), np.array([1.0, 1.0, 5.0]), dim=-1, largest=True)
ROWS = [
    Row("scatter_along", samples=scatter_samples, reference=scatter, skip=BLOCK_0D,
        torch=lambda torch, x, index, src, dim: torch.scatter(x, dim, index, src),
        integer_samples=lambda rng: [Sample(normal(rng, 4), np.array([2, 0]), normal(rng, 2), dim=-1)]),
    Row("scatter_sum", samples=sum_samples, reference=scatter_sum, skip=BLOCK_0D,
        torch=lambda torch, x, index, src, dim: torch.scatter_add(x, dim, index, src),
        tol={"float16": 1e-2, "bfloat16": 6e-2}),
    Row("scatter_counts", reference=scatter_counts, torch=their_counts, integers="int64",
        skip={**BLOCK_0D, "layouts": "a stretched index names other places"},
        samples=lambda rng: [Sample(*s.args[:2], first=i % 2, **s.kwargs) for i, s in enumerate(sum_samples(rng))]),
    Row("scatter_extreme", samples=extreme_samples, reference=scatter_extreme,
        skip={**BLOCK_0D, "layouts": "stretched inputs have ties"},
        torch=lambda torch, x, index, src, dim, largest: x.scatter_reduce(dim, index, src, EXTREMES[largest]),
        points=[Point(TIES, [np.array([1 / 3, 0.0]), np.array([1 / 3, 1 / 3, 1.0])])]),
]
