"""Rows of ops/shape/permute.py."""

from op_db import Error, Row
from op_rows.shape.shared import CUBE, EMPTY, over

ROWS = [
    Row("permute", reference=lambda x, dims: x.transpose(dims),
        samples=over((CUBE, {"dims": (2, 0, 1)}), (CUBE, {"dims": (-1, -3, -2)}), ((), {"dims": ()}),
                     (EMPTY, {"dims": (1, 0)})),
        errors=[Error("count", lambda op, x: op(x(2, 3), (0,)), RuntimeError, r"is not equal to len\(dims\) = 1"),
                Error("twice", lambda op, x: op(x(2, 3), (0, 0)), RuntimeError, "duplicate dims are not allowed"),
                Error("dim", lambda op, x: op(x(2, 3), (0, 2)), IndexError, "Dimension out of range")]),
    Row("transpose", reference=lambda x, dim0, dim1: x.swapaxes(dim0, dim1) if x.ndim else x,
        samples=over((CUBE, {"dim0": 0, "dim1": 2}), (CUBE, {"dim0": -2, "dim1": 0}), ((), {"dim0": 0, "dim1": -1}),
                     (EMPTY, {"dim0": 0, "dim1": 1})),
        errors=[Error("dim", lambda op, x: op(x(2, 3), 0, 2), IndexError, "Dimension out of range")]),
    Row("mT", reference=lambda x: x.swapaxes(-1, -2) if x.ndim else x,
        torch=lambda torch, x: x.mT if x.ndim else x,  # which warns
        samples=over((CUBE, {}), ((2, 3), {}), (EMPTY, {}), ((), {})),
        errors=[Error("vector", lambda op, x: op(x(3)), RuntimeError, "only supported on matrices")]),
]
