"""Rows of ops/elementwise/clamp.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, binary
from op_rows.elementwise.shared import errors, few

NAN = np.nan
ORDERED = np.array([1.0, 2.0, 3.0, NAN, 1.0]), np.array([1.0, 3.0, 2.0, 1.0, NAN])


def clamp_samples(rng):
    def x(*shape):
        return np.asarray(rng.choice([-2.0, -0.4, 0.3, 1.7], size=shape)) + rng.uniform(-0.1, 0.1, size=shape)

    limits = [(-1.0, 1.0), (0.0, None), (None, 0.5), (-1, 1)]
    numbers = [Sample(x(*shape), *limit) for shape in ((2, 3), (), (0, 2)) for limit in limits]
    low, high = np.array([-1.0, 0.0, -0.7]), np.array([[0.9], [-0.8]])  # one is below its limit from above
    tensors = [Sample(x(2, 3), low, high), Sample(x(2, 3), low, None), Sample(x(3), None, high), Sample(x(), low, high)]
    return [*numbers, *tensors, Sample(x(2, 3), low, 1.0), Sample(x(0, 3), low, high[:1]), Sample(x(3), low[0], None)]


def clamp(x, min=None, max=None):
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def their_clamp(torch, x, min=None, max=None):
    """PyTorch takes two numbers or two tensors, and its derivatives want an x of the full shape."""
    tensors = [t for t in (min, max) if isinstance(t, torch.Tensor)]
    if tensors and isinstance(max, float):
        max = torch.tensor(max, dtype=x.dtype)
    return torch.clamp(torch.broadcast_tensors(x, *tensors)[0], min, max)


ROWS = [
    binary("maximum", np.maximum, errors=errors("maximum"),
           points=[Point(Sample(*ORDERED), [[0.5, 0, 1, 1, 1], [0.5, 1, 0, 1, 1]])]),
    binary("minimum", np.minimum, errors=errors("minimum"),
           points=[Point(Sample(*ORDERED), [[0.5, 1, 0, 1, 1], [0.5, 0, 1, 1, 1]])]),
    binary("fmax", np.fmax, errors=errors("fmax"),
           points=[Point(Sample(*ORDERED), [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]])]),
    binary("fmin", np.fmin, errors=errors("fmin"),
           points=[Point(Sample(*ORDERED), [[1, 1, 0, 0, 1], [0, 0, 1, 1, 0]])]),
    Row("clamp", samples=clamp_samples, reference=clamp, torch=their_clamp,
        integer_samples=lambda rng: [Sample(few(rng, 4), 0, 2), Sample(few(rng, 4), None, 0),
                                     Sample(few(rng, 4), few(rng, 4), None)],
        points=[Point(Sample(np.array([-1.0, 0.0, 1.0, 1.5]), -1.0, 1.0), [[1, 1, 1, 0]]),
                Point(Sample(np.array([-1.0, 0.0, 2.0]), np.array([-1.0, 0.5, 0.0]), np.array([1.0, 1.0, 1.0])),
                      [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
                Point(Sample(np.zeros(1), np.ones(1), np.array([-1.0])), [[0], [0], [1]])],
        errors=[Error("neither min nor max", lambda op, x: op(x(2)), RuntimeError, "clamp: At least one of"),
                Error("shapes", lambda op, x: op(x(2), x(3)), RuntimeError, "clamp"),
                Error("a list", lambda op, x: op([1.0], 0.0), TypeError, "clamp.*must be Tensor, not list")]),
]  # fmt: skip
