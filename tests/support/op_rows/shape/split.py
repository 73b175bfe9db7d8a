"""Rows of ops/shape/split.py."""

import numpy as np
from op_db import Error, Row
from op_rows.shape.shared import NO_0D, over


def split(x, split_sizes, dim=0):
    return tuple(np.split(x, np.cumsum(split_sizes)[:-1], axis=dim))


def unbind(x, dim=0):
    return tuple(np.moveaxis(x, dim, 0))


ROWS = [
    Row("split_with_sizes", reference=split, skip=NO_0D,
        torch=lambda torch, x, split_sizes, dim=0: torch.split_with_sizes(x, list(split_sizes), dim),
        samples=over(((5, 2), {"split_sizes": (2, 3)}), ((2, 5), {"split_sizes": (1, 0, 4), "dim": -1}),
                     ((3,), {"split_sizes": (3,)}), ((0, 2), {"split_sizes": (0, 0)})),
        errors=[Error("sum", lambda op, x: op(x(3), (1, 1)), RuntimeError, "sum exactly to 3"),
                Error("0-d", lambda op, x: op(x(), (1,)), RuntimeError, "at least a 1-dimensional tensor")]),
    Row("unbind", reference=unbind, skip=NO_0D,
        samples=over(((3, 2), {}), ((2, 3, 2), {"dim": 1}), ((2, 1), {"dim": -1}), ((3,), {}), ((2, 0), {})),
        errors=[Error("0-d", lambda op, x: op(x()), IndexError, "tensor has no dimensions")]),
]
