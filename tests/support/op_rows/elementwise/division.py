"""Rows of ops/elementwise/division.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, binary, indices, nonzero, normal, uniform
from op_rows.elementwise.shared import NOT_IN_TORCH, errors


def remainder(torch, a, b):
    """By its definition where it is differentiated: PyTorch has no derivative of remainder by b."""
    tensors = [x for x in (a, b) if isinstance(x, torch.Tensor)]
    return a - b * torch.floor(a / b) if any(x.requires_grad for x in tensors) else torch.remainder(a, b)


def rounded(op):
    """The errors of a division whose integers stay integers."""
    zero = Error("by zero", lambda op, x: op(x(2, dtype="int64"), 0), RuntimeError, "ZeroDivisionError", by_value=True)
    return [*errors(op), zero]


def whole_pairs(rng):
    """Of every pair of signs, some that divide, and none by 0."""
    return [Sample(np.array([7.0, -7.0, 7.0, -7.0, 6.0, -6.0, 0.0]), np.array([4.0, 4.0, -4.0, -4.0, 3.0, 3.0, 5.0])),
            Sample(np.zeros((0, 2)), np.zeros(2)), Sample(np.zeros(0), 0)]


def integer_pairs(rng):
    shapes = [((2, 3), (2, 3)), ((), ()), ((0,), (0,)), ((2, 1), (3,))]
    return [Sample(indices(rng, 64, *a) - 20, indices(rng, 64, *b)) for a, b in shapes]


def integers(op):
    bad = [Error("floats", lambda op, x: op(x(2), x(2)), RuntimeError, "not implemented for floating point"),
           Error("shapes", lambda op, x: op(x(2, dtype="int64"), x(3, dtype="int64")), RuntimeError, op)]
    return Row(op, samples=integer_pairs, reference=getattr(np, op), integers="int64", errors=bad,
               skip={"dtypes": "integers only"},
               integer_samples=lambda rng: [Sample(normal(rng, 2, 3) * 9, normal(rng, 3) * 9)])


A, B = uniform(5.1, 5.9), uniform(2.1, 2.4)

ROWS = [
    binary("div", np.divide, normal, nonzero, errors=errors("div")),
    binary("floor_divide", np.floor_divide, A, B, errors=rounded("floor_divide"), skip=NOT_IN_TORCH,
           integer_samples=whole_pairs, points=[Point(Sample(np.array([6.0]), np.array([2.0])), [0.0, 0.0])]),
    binary("trunc_divide", lambda a, b: np.trunc(a / b).astype(np.result_type(a, b)), A, B,
           errors=rounded("trunc_divide"), integer_samples=whole_pairs,
           torch=lambda torch, a, b: torch.div(a, b, rounding_mode="trunc"),
           points=[Point(Sample(np.array([-6.0]), np.array([2.0])), [0.0, 0.0])]),
    binary("remainder", np.remainder, uniform(-5.9, -5.1), B, errors=rounded("remainder"),
           torch=remainder, integer_samples=whole_pairs,
           points=[Point(Sample(np.array([7.0, -7.0]), np.array([4.0, 4.0])), [1.0, [-1.0, 2.0]])]),
    binary("fmod", np.fmod, uniform(-5.9, -5.1), B, errors=rounded("fmod"), integer_samples=whole_pairs,
           points=[Point(Sample(np.array([7.0, -7.0]), np.array([4.0, 4.0])), [1.0, [-1.0, 1.0]])]),
    integers("gcd"),
    integers("lcm"),
]  # fmt: skip
