"""Rows of ops/nn/similarity.py."""

import numpy as np
from op_db import Point, Row, Sample, positive

ROWS = [
    Row(
        "lift",
        samples=lambda rng: [Sample(positive(rng, *s), low=0.1) for s in ((2, 3), (), (0,))],
        reference=lambda x, low: np.maximum(x, low),
        torch=lambda torch, x, low: x + (torch.clamp(x, low) - x).detach(),
        skip={"oracle_dtypes": "torch promotes by the number", "integers": "it guards a divisor"},
        points=[Point(Sample(np.array([0.0, 0.1, 1.0]), low=0.1), [1])],
    ),
]
