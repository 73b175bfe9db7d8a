"""Rows of ops/shape/concat.py."""

import numpy as np
from op_db import Error, Row, Sample, normal


def lists(*cases):
    """Samples of a list input: (shapes, attributes) each."""
    return lambda rng: [Sample([normal(rng, *shape) for shape in shapes], **attributes) for shapes, attributes in cases]


def block_diag(tensors):
    matrices = [np.atleast_2d(x) for x in tensors]
    out = np.zeros(np.sum([m.shape for m in matrices], axis=0))
    row = column = 0
    for m in matrices:
        out[row : row + m.shape[0], column : column + m.shape[1]] = m
        row, column = row + m.shape[0], column + m.shape[1]
    return out.astype(matrices[0].dtype)


ROWS = [
    Row("cat", reference=lambda tensors, dim=0: np.concatenate(tensors, axis=dim),
        skip={"zero_dim": "0-d tensors cannot be concatenated"},
        samples=lists((((2, 3), (1, 3)), {}), (((2, 1), (2, 3), (2, 0)), {"dim": -1}), (((2, 3),), {"dim": 1}),
                      (((0, 3), (2, 3)), {"dim": 0})),
        errors=[Error("sizes", lambda op, x: op([x(2, 3), x(2, 4)]), RuntimeError, "Sizes of tensors must match"),
                Error("ndim", lambda op, x: op([x(2, 3), x(2)]), RuntimeError, "same number of dimensions"),
                Error("0-d", lambda op, x: op([x(), x()]), RuntimeError, "zero-dimensional tensor"),
                Error("nothing", lambda op, x: op([]), RuntimeError, "non-empty list"),
                Error("no list", lambda op, x: op(x(2)), TypeError, "list or tuple of Tensors, not Tensor"),
                Error("dim", lambda op, x: op([x(2)], 1), IndexError, "Dimension out of range")]),
    Row("stack", reference=lambda tensors, dim=0: np.stack(tensors, axis=dim),
        samples=lists((((2, 3), (2, 3)), {}), (((2, 3), (2, 3)), {"dim": 1}), (((2, 3),), {"dim": -1}), (((), ()), {}),
                      (((0,), (0,)), {"dim": 1})),
        errors=[Error("sizes", lambda op, x: op([x(2), x(3)]), RuntimeError, "expects each tensor to be equal size"),
                Error("dim", lambda op, x: op([x(2)], 2), IndexError, "Dimension out of range")]),
    Row("stack_diagonally", reference=block_diag, torch=lambda torch, tensors: torch.block_diag(*tensors),
        samples=lists((((2, 3), (1, 2)), {}), (((), (3,), (2, 2)), {}), (((2, 0), (1, 1)), {}), (((2, 2),), {})),
        errors=[Error("3-d", lambda op, x: op([x(2), x(1, 1, 1)]), RuntimeError, "Input 1 has 3 dimensions")]),
]
