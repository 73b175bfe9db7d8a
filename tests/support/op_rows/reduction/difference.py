"""Rows of ops/reduction/difference.py."""

import numpy as np
from op_db import Row, Sample, normal


def difference(x, dim):
    return np.diff(x, axis=dim)


ROWS = [
    Row("scaled", samples=lambda rng: [
            Sample(normal(rng, *shape), **numbers) for shape in ((2, 3), (), (0,))
            for numbers in ({"factor": 0.3, "divisor": 2}, {"factor": 3}, {"divisor": 0.7})
        ],
        reference=lambda x, factor=1, divisor=1: x * factor / divisor,
        torch=lambda torch, x, factor=1, divisor=1: torch.div(x * factor, divisor)),
    Row("differences", samples=lambda rng: [Sample(normal(rng, *shape), dim=dim) for shape, dim in (
            ((2, 3, 4), -1), ((2, 3, 4), -2), ((1,), -1), ((0, 2), -2))],
        reference=difference, torch=lambda torch, x, dim: torch.diff(x, dim=dim), skip={"zero_dim": "diff refuses it"}),
]  # fmt: skip
