"""Rows of ops/shape/diagonal.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.shape.shared import CUBE, EMPTY, NO_0D, over


def diagonal_backward(g, shape, offset=0, dim1=0, dim2=1):
    out = np.zeros(shape, g.dtype)
    view = out.diagonal(offset, dim1, dim2)
    view.flags.writeable = True
    view[...] = g
    return out


def their_diagonal_backward(torch, g, shape, offset=0, dim1=0, dim2=1):
    return torch.diagonal_scatter(torch.zeros(shape, dtype=g.dtype), g, offset, dim1, dim2)


def diagonal_set(x, src, offset=0, dim1=0, dim2=1):
    out = x.copy()
    view = out.diagonal(offset, dim1, dim2)
    view.flags.writeable = True
    view[...] = src
    return out


def set_samples(rng):
    return [
        Sample(normal(rng, 3, 4), normal(rng, 3)), Sample(normal(rng, 3, 4), normal(rng, 2), offset=-1),
        Sample(normal(rng, 2, 3, 4), normal(rng, 3, 2), offset=1, dim1=0, dim2=2), Sample(normal(rng, 3, 3), 1.5),
        Sample(normal(rng, 0, 3), normal(rng, 0)),
    ]  # fmt: skip


def their_diagonal_set(torch, x, src, offset=0, dim1=0, dim2=1):
    if isinstance(src, float):
        src = torch.full_like(torch.diagonal(x, offset, dim1, dim2), src)
    if src.dtype != x.dtype:
        raise TypeError("its diagonal_scatter converts, the op does not")
    return torch.diagonal_scatter(x, src, offset, dim1, dim2)


ROWS = [
    Row("diagonal", reference=lambda x, offset=0, dim1=0, dim2=1: x.diagonal(offset, dim1, dim2), skip=NO_0D,
        samples=over(((3, 4), {}), ((3, 4), {"offset": 1}), (CUBE, {"offset": -1, "dim1": 2, "dim2": 0}), (EMPTY, {}),
                     (CUBE, {"offset": 7})),
        errors=[Error("same", lambda op, x: op(x(2, 3), 0, 1, -1), RuntimeError, "dimensions cannot be identical"),
                Error("dim", lambda op, x: op(x(3)), IndexError, "Dimension out of range")]),
    Row("diagonal_backward", reference=diagonal_backward, torch=their_diagonal_backward, skip=NO_0D,
        samples=over(((3,), {"shape": (3, 4)}), ((2, 3), {"shape": (4, 2, 3), "offset": 1, "dim1": 2, "dim2": 0}),
                     ((0,), {"shape": (0, 3)}))),
    *[Row(name, reference=lambda x, diagonal=0, name=name: getattr(np, name)(x, diagonal), skip=NO_0D,
          samples=over(((3, 4), {}), (CUBE, {"diagonal": 1}), ((3, 3), {"diagonal": -1}), (EMPTY, {})),
          errors=[Error("vector", lambda op, x: op(x(3)), RuntimeError, f"{name}: input tensor must have at least 2")])
      for name in ("tril", "triu")],
    Row("diagonal_set", samples=set_samples, reference=diagonal_set, torch=their_diagonal_set, skip=NO_0D,
        integer_samples=lambda rng: set_samples(rng)[:1],
        errors=[Error("size", lambda op, x: op(x(2, 3), x(3)), RuntimeError, r"src size = \[3\], slice size = \[2\]"),
                Error("dtypes", lambda op, x: op(x(2, 2), x(2, dtype="float64")), RuntimeError, "same dtype")]),
]
