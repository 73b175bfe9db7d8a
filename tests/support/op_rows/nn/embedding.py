"""Rows of ops/nn/embedding.py."""

import numpy as np
from op_db import Error, Row, Sample, indices, normal


def embedding_samples(rng):
    weight = normal(rng, 4, 3)
    return [
        Sample(indices(rng, 4, 2, 5), weight), Sample(np.asarray(2), weight), Sample(indices(rng, 4, 2), weight[:, :0]),
        Sample(np.array([1, 3, 1]), weight, padding_idx=1), Sample(np.array([3, 0, 3]), weight, padding_idx=-1),
    ]  # fmt: skip


ROWS = [
    Row("embedding", samples=embedding_samples, reference=lambda x, weight, padding_idx=None: weight[x],
        errors=[Error("float", lambda op, x: op(x(2), x(4, 3)), RuntimeError, "scalar types: Long, Int"),
                Error("range", lambda op, x: op(x(2, dtype="int64") * 4, x(4, 3)), IndexError,
                      "index out of range", by_value=True),
                Error("1-d", lambda op, x: op(x(2, dtype="int64"), x(4)), RuntimeError, "'weight' must be 2-D")],
        skip={"gradcheck": "row padding_idx has no gradient by definition", "gradgradcheck": "as gradcheck"}),
]
