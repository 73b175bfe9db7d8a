"""Rows of ops/elementwise/bitwise.py."""

import numpy as np
from op_db import Error, Row, Sample, indices
from op_rows.elementwise.shared import few

FLOATING = Error("floating point", lambda op, x: op(*[x(2)] * 2), RuntimeError, "not implemented for floating point")
ONE = Error("floating point", lambda op, x: op(x(2)), RuntimeError, "not implemented for floating point")
SKIP = {"dtypes": "integers only"}


def whole(inputs):
    """Numbers that the checks of dtypes cast."""
    return lambda rng: [Sample(*(few(rng, 2, 3) for _ in range(inputs)))]


def pairs(rng):
    shapes = [((2, 3), (2, 3)), ((), ()), ((0,), (0,)), ((2, 1), (3,))]
    return [Sample(indices(rng, 64, *a), indices(rng, 64, *b)) for a, b in shapes]


def single(rng):
    return [Sample(indices(rng, 64, *shape)) for shape in ((2, 3), (), (0,))]


def shifts(rng):
    """By ordinary numbers of places, and by those that C leaves open."""
    shapes = [((2, 3), (2, 3)), ((), ()), ((0,), (0,)), ((2, 1), (3,))]
    results = [Sample(indices(rng, 64, *a) - 20, indices(rng, 8, *b)) for a, b in shapes]
    return [*results, Sample(np.array([5, -5, 5, -5]), np.array([-1, -1, 64, 64])), Sample(np.array([5, -3]), 2)]


def shift(name, reference):
    bools = Error("bools", lambda op, x: op(*[x(2, dtype="bool")] * 2), RuntimeError, "for bool")
    return Row(name, samples=shifts, reference=reference, integers="int64", errors=[FLOATING, bools], skip=SKIP,
               integer_samples=whole(2))


ROWS = [
    shift("bitwise_left_shift", np.left_shift),
    shift("bitwise_right_shift", np.right_shift),
    Row("bitwise_and", samples=pairs, reference=np.bitwise_and, integers="int64", errors=[FLOATING], skip=SKIP,
        integer_samples=whole(2)),
    Row("bitwise_or", samples=pairs, reference=np.bitwise_or, integers="int64", errors=[FLOATING], skip=SKIP,
        integer_samples=whole(2)),
    Row("bitwise_xor", samples=pairs, reference=np.bitwise_xor, integers="int64", errors=[FLOATING], skip=SKIP,
        integer_samples=whole(2)),
    Row("bitwise_not", samples=single, reference=np.bitwise_not, integers="int64", errors=[ONE], skip=SKIP,
        integer_samples=whole(1)),
]
