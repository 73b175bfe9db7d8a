"""Rows of ops/nn/one_hot.py."""

import numpy as np
from op_db import Error, Row, Sample, indices

ONE_HOT = [((2, 2), 4), ((), 2), ((0,), 3), ((5,), -1)]

ROWS = [
    Row("one_hot", samples=lambda rng: [
            Sample(indices(rng, n if n > 0 else 4, *shape), num_classes=n) for shape, n in ONE_HOT],
        reference=lambda x, num_classes: np.eye(num_classes if num_classes > 0 else x.max() + 1, dtype=np.int64)[x],
        integers="int64",
        no_batch=lambda sample, batched: sample.kwargs["num_classes"] == -1,
        errors=[Error("dtype", lambda op, x: op(x(2)), RuntimeError, "only applicable to index tensor"),
                Error("range", lambda op, x: op(x(2, dtype="int64"), 1), RuntimeError,
                      "smaller than num_classes", by_value=True),
                Error("empty", lambda op, x: op(x(0, dtype="int64")), RuntimeError, "Can not infer")]),
]
