"""Rows of ops/shape/rearrange.py."""

import numpy as np
from op_db import Error, Row, Sample, indices
from op_rows.shape.shared import CUBE, EMPTY, NO_0D, method, over

ROWS = [
    Row("flip", reference=lambda x, dims: np.flip(x, dims) if x.ndim else x,
        samples=over(((3, 4), {"dims": (0,)}), (CUBE, {"dims": (0, -1)}), ((), {"dims": (0,)}),
                     (EMPTY, {"dims": (1,)})),
        errors=[Error("twice", lambda op, x: op(x(2, 3), (0, 0)), RuntimeError, "dim 0 appears multiple times"),
                Error("dim", lambda op, x: op(x(2), (1,)), IndexError, "Dimension out of range")]),
    Row("roll", reference=lambda x, shifts, dims=None: np.roll(x, shifts, dims),
        samples=over(((3, 4), {"shifts": 1}), ((3, 4), {"shifts": -2, "dims": 0}), ((), {"shifts": 1}),
                     (CUBE, {"shifts": (1, -1), "dims": (0, -1)}), ((0,), {"shifts": 1, "dims": 0})),
        errors=[Error("counts", lambda op, x: op(x(3), (1, 2), (0,)), RuntimeError, "must align"),
                Error("no dims", lambda op, x: op(x(3), (1, 2)), RuntimeError, "must align. shifts: 2, dims:0"),
                Error("0-d", lambda op, x: op(x(), 1, 0), IndexError, "tensor has no dimensions")]),
    Row("repeat", reference=lambda x, sizes: np.tile(x, sizes), torch=method("repeat"),
        samples=over(((2, 3), {"sizes": (2, 2)}), ((2, 3), {"sizes": (2, 1, 3)}), ((), {"sizes": (2,)}),
                     ((0, 2), {"sizes": (2, 1)}), ((2,), {"sizes": (1,)}), ((2,), {"sizes": (0,)})),
        errors=[Error("few", lambda op, x: op(x(2, 3), (2,)), RuntimeError, "can not be smaller than number of")]),
    Row("repeat_elements", reference=lambda x, repeats, dim: np.repeat(x, repeats, dim), skip=NO_0D,
        torch=lambda torch, x, repeats, dim: torch.repeat_interleave(x, repeats, dim),
        samples=over(((2, 3), {"repeats": 2, "dim": -1}), (CUBE, {"repeats": 3, "dim": -2}),
                     (EMPTY, {"repeats": 2, "dim": -1}), ((3,), {"repeats": 0, "dim": -1}))),
    Row("repeat_positions", reference=lambda counts, total=None: np.repeat(np.arange(counts.size), counts.reshape(-1)),
        samples=lambda rng: [Sample(indices(rng, 5, 3)), Sample(indices(rng, 5, 6)), Sample(np.array([1, 4]), total=5),
                             Sample(indices(rng, 5)), Sample(np.zeros(0, np.int64))],
        torch=lambda torch, counts, total=None: torch.repeat_interleave(counts.reshape(-1)), integers="int64",
        no_batch=lambda sample, batched: "total" not in sample.kwargs,
        skip={"layouts": "a stretched vector has another total"},
        errors=[Error("range", lambda op, x: op(-x(2, dtype="int64")), RuntimeError,
                      "can not be negative", by_value=True),
                Error("float", lambda op, x: op(x(2)), RuntimeError, "has to be Long or Int tensor"),
                Error("matrix", lambda op, x: op(x(2, 2, dtype="int64")), RuntimeError, "0-dim or 1-dim tensor"),
                Error("range", lambda op, x: op(x(2, dtype="int64"), 5), RuntimeError,
                      "expected 2 but got 5", by_value=True)]),
]
