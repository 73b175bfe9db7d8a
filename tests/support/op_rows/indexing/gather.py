"""Rows of ops/indexing/gather.py."""

import numpy as np
from op_db import Row, Sample, indices, normal
from op_rows.indexing.shared import ALONG, BLOCK_0D, grid


def gather_samples(rng):
    return [Sample(normal(rng, *shape), indices(rng, max(shape[dim], 1), *size), dim=dim) for shape, size, dim in ALONG]


def gather_backward_samples(rng):
    return [Sample(normal(rng, *size), indices(rng, max(shape[dim], 1), *size), dim=dim, shape=shape)
            for shape, size, dim in ALONG]


def gather_backward(g, index, dim, shape):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, grid(index, dim), g)
    return out


def their_gather_backward(torch, g, index, dim, shape):
    return torch.zeros(shape, dtype=g.dtype).scatter_add(dim, index, g)


ROWS = [
    Row("gather_along", samples=gather_samples, reference=lambda x, index, dim: x[grid(index, dim)], skip=BLOCK_0D,
        torch=lambda torch, x, index, dim: torch.gather(x, dim, index)),
    Row("gather_along_backward", samples=gather_backward_samples, reference=gather_backward, skip=BLOCK_0D,
        torch=their_gather_backward, tol={"float16": 1e-2, "bfloat16": 1e-1}),
]
