"""Rows of ops/shape/view.py."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from op_db import Error, Row, Sample, normal
from op_rows.shape.shared import over

from autograd_gpu.backend.arrays.dtypes import float64, int64, uint8

WINDOWS = [
    ((5,), {"dimension": 0, "size": 2, "step": 1}), ((2, 7), {"dimension": -1, "size": 3, "step": 2}),
    ((6, 2), {"dimension": 0, "size": 5, "step": 1}), ((2, 5, 3), {"dimension": 1, "size": 2, "step": 3}),
    ((), {"dimension": 0, "size": 1, "step": 1}), ((3,), {"dimension": 0, "size": 0, "step": 1}),
    ((0, 3), {"dimension": 1, "size": 2, "step": 1}),
]


def unfold(x, dimension, size, step):
    if not x.ndim:
        return x.reshape(1)[:size]
    if not size:
        return np.zeros((*x.shape[:dimension], x.shape[dimension] // step + 1, *x.shape[dimension + 1 :], 0), x.dtype)
    windows = sliding_window_view(x, size, dimension)
    return windows[(slice(None),) * (dimension % x.ndim) + (slice(None, None, step),)]


def unfold_backward_samples(rng):
    return [Sample(normal(rng, *unfold(np.zeros(shape), **attributes).shape), shape=shape, **attributes)
            for shape, attributes in WINDOWS]


def unfold_backward(g, shape, dimension, size, step):
    places = unfold(np.arange(int(np.prod(shape))).reshape(shape), dimension, size, step).astype(int)
    out = np.zeros(int(np.prod(shape)), g.dtype)
    np.add.at(out, places.reshape(-1), g.reshape(-1))
    return out.reshape(shape)


def their_unfold_backward(torch, g, shape, dimension, size, step):
    if not shape:
        return g.sum().to(g.dtype)
    return torch.ops.aten.unfold_backward(g, shape, dimension, size, step)


ROWS = [
    Row("reinterpret", reference=lambda x, dtype: x.copy().view(dtype), dtypes=("float64",),
        torch=lambda torch, x, dtype: x.view(getattr(torch, str(dtype))),
        skip={**dict.fromkeys(("dtypes", "integers", "oracle_dtypes"), "the result depends on the bytes"),
              "layouts": "the last dimension has to be contiguous"},
        samples=over(((2, 3), {"dtype": int64}), ((2, 3), {"dtype": uint8}), ((), {"dtype": int64}),
                     ((0, 2), {"dtype": int64}), ((2,), {"dtype": float64})),
        errors=[Error("0-d", lambda op, x: op(x(), uint8), RuntimeError, r"self.dim\(\) cannot be 0"),
                Error("stride", lambda op, x: op(x(2, 3).mT, uint8), RuntimeError, r"stride\(-1\) must be 1.*got 3"),
                Error("size", lambda op, x: op(x(3), float64), RuntimeError, "must be divisible by 2 .* but got 3"),
                Error("offset", lambda op, x: op(x(4)[1:3], float64), RuntimeError, "storage_offset.*divisible by 2")]),
    Row("unfold", samples=over(*WINDOWS), reference=unfold,
        torch=lambda torch, x, dimension, size, step: x.unfold(dimension, size, step),
        errors=[Error("size", lambda op, x: op(x(3), 0, 4, 1), RuntimeError, "dimension 0 is 3 but size is 4"),
                Error("step", lambda op, x: op(x(3), 0, 2, 0), RuntimeError, "step is 0 but must be > 0"),
                Error("negative", lambda op, x: op(x(3), 0, -1, 1), RuntimeError, "size is -1 but must be >= 0"),
                Error("dim", lambda op, x: op(x(3), 1, 2, 1), IndexError, "Dimension out of range")]),
    Row("unfold_backward", samples=unfold_backward_samples, reference=unfold_backward, torch=their_unfold_backward,
        tol={"float16": 1e-2, "bfloat16": 6e-2}, skip={"zero_dim": "windows have a dimension"}),
]
