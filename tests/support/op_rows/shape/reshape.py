"""Rows of ops/shape/reshape.py."""

import numpy as np
from op_db import Error, Row
from op_rows.shape.shared import method, over


def sum_to(x, shape):
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


def expand(x, shape):
    lead = len(shape) - x.ndim
    return np.broadcast_to(x, [x.shape[i - lead] if n == -1 else n for i, n in enumerate(shape)])


def squeeze(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = [d % max(x.ndim, 1) for d in (dim if isinstance(dim, tuple) else (dim,))]
    return x.reshape([n for i, n in enumerate(x.shape) if n != 1 or i not in dims])


ROWS = [
    Row("expand", reference=expand, torch=method("expand"),
        samples=over(((2, 1, 3), {"shape": (4, 2, 5, 3)}), ((2, 3), {"shape": (2, 3)}), ((3,), {"shape": (2, -1)}),
                     ((), {"shape": (2, 2)}), ((0, 1), {"shape": (0, 3)}), ((1,), {"shape": (0,)})),
        errors=[Error("other size", lambda op, x: op(x(3), (4,)), RuntimeError, r"expanded size of the tensor \(4\)"),
                Error("too few", lambda op, x: op(x(2, 3), (3,)), RuntimeError, r"number of sizes provided \(1\)"),
                Error("-1 in front", lambda op, x: op(x(3), (-1, 3)), RuntimeError, "leading, non-existing")]),
    Row("sum_to", reference=sum_to, torch=method("sum_to_size"), tol={"float16": 1e-2, "bfloat16": 1e-1},
        skip={"oracle_dtypes": "it sums gradients: an integer keeps its dtype where nothing is summed"},
        samples=over(((4, 2, 5, 3), {"shape": (2, 1, 3)}), ((2, 3), {"shape": (2, 3)}), ((2, 3), {"shape": (1, 1)}),
                     ((), {"shape": ()}), ((0, 3), {"shape": (1, 3)}), ((2, 3), {"shape": (3,)}))),
    Row("reshape", reference=lambda x, shape: x.reshape(shape),
        samples=over(((2, 6), {"shape": (3, 4)}), ((2, 6), {"shape": (3, -1, 2)}), ((), {"shape": (1, 1)}),
                     ((1,), {"shape": ()}), ((0, 3), {"shape": (3, 0, 2)}),
                     ((0, 3), {"shape": (-1,)})),
        errors=[Error("size", lambda op, x: op(x(2, 3), (4,)), RuntimeError, r"'\[4\]' is invalid for input of size 6"),
                Error("two -1", lambda op, x: op(x(4), (-1, -1)), RuntimeError, "only one dimension can be inferred"),
                Error("-2", lambda op, x: op(x(4), (-2, 2)), RuntimeError, "invalid shape dimension -2"),
                Error("ambiguous", lambda op, x: op(x(0), (-1, 0)), RuntimeError, "ambiguous")]),
    Row("squeeze", reference=squeeze,
        samples=over(((1, 2, 1), {}), ((1, 2, 1), {"dim": 0}), ((1, 2, 1), {"dim": 1}), ((1, 2, 1), {"dim": (0, -1)}),
                     ((), {"dim": 0}), ((1, 0), {})),
        errors=[Error("dim", lambda op, x: op(x(2), 3), IndexError, "Dimension out of range")]),
    Row("unsqueeze", reference=lambda x, dim: np.expand_dims(x, dim),
        samples=over(((2, 3), {"dim": 0}), ((2, 3), {"dim": 1}), ((2, 3), {"dim": -1}), ((), {"dim": 0}),
                     ((0,), {"dim": -2})),
        errors=[Error("dim", lambda op, x: op(x(2), 3), IndexError, r"in range of \[-2, 1\], but got 3")]),
]
