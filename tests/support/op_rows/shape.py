"""Rows of ops/shape/ (reshape.py, permute.py, rearrange.py, concat.py, split.py)."""

import numpy as np
from op_db import Error, Row, Sample, indices, normal


def over(*cases):
    """Samples of one input: (shape, attributes) each."""
    return lambda rng: [Sample(normal(rng, *shape), **attributes) for shape, attributes in cases]


def lists(*cases):
    """Samples of a list input: (shapes, attributes) each."""
    return lambda rng: [Sample([normal(rng, *shape) for shape in shapes], **attributes) for shapes, attributes in cases]


def method(name):
    """PyTorch's method of that name, all attributes in order."""
    return lambda torch, x, **attributes: getattr(x, name)(*attributes.values())


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


def block_diag(tensors):
    matrices = [np.atleast_2d(x) for x in tensors]
    out = np.zeros(np.sum([m.shape for m in matrices], axis=0))
    row = column = 0
    for m in matrices:
        out[row : row + m.shape[0], column : column + m.shape[1]] = m
        row, column = row + m.shape[0], column + m.shape[1]
    return out.astype(matrices[0].dtype)


def split(x, split_sizes, dim=0):
    return tuple(np.split(x, np.cumsum(split_sizes)[:-1], axis=dim))


def unbind(x, dim=0):
    return tuple(np.moveaxis(x, dim, 0))


NO_0D = {"zero_dim": "a 0-d tensor has no dimension to work on"}
CUBE, EMPTY = (2, 3, 4), (0, 3)

SHAPE = [
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
    Row("mT", reference=lambda x: x.swapaxes(-1, -2), torch=lambda torch, x: x.mT, skip=NO_0D,
        samples=over((CUBE, {}), ((2, 3), {}), (EMPTY, {})),
        errors=[Error("vector", lambda op, x: op(x(3)), RuntimeError, "only supported on matrices")]),
]

REARRANGE = [
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

JOIN = [
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

ROWS = [*SHAPE, *REARRANGE, *JOIN]
