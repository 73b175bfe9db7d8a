"""Rows of ops/elementwise/arithmetic.py."""

import numpy as np
from op_db import (
    Error,
    Point,
    Row,
    Sample,
    binary,
    elementwise,
    nonzero,
    normal,
    positive,
    uniform,
)
from op_rows.elementwise.shared import NOT_IN_TORCH, bad_shapes, condition_samples, errors, few


def whole_factor(name, call):
    return Error(f"float {name}", lambda op, x: call(op, x(2, dtype="int64")), RuntimeError,
                 f"argument {name} must not be a floating point number")


def with_keyword(**keyword):
    """Samples of three tensor shapes with a keyword, besides those without it."""

    def samples(rng):
        shapes = [((2, 3), (2, 3)), ((3,), (2, 1)), ((), (2,)), ((0, 2), (2,))]
        pairs = [Sample(nonzero(rng, *a), nonzero(rng, *b), **k) for a, b in shapes for k in ({}, keyword)]
        numbers = [Sample(nonzero(rng, 2), 1.5, **keyword), Sample(1.5, nonzero(rng, 2)), Sample(nonzero(rng, 2), 2)]
        return pairs + numbers

    return samples


def ternary(**keyword):
    """Samples x, a, b with b away from zero, with and without a keyword."""

    def samples(rng):
        shapes = [((2, 3),) * 3, ((3,), (2, 1), (2, 3)), ((2, 3), (), (3,)), ((), (), ()), ((0, 2), (2,), ())]
        return [
            Sample(normal(rng, *x), normal(rng, *a), nonzero(rng, *b), **k) for x, a, b in shapes for k in ({}, keyword)
        ]

    return samples


def lerp_samples(rng):
    tensors = elementwise("lerp", None, normal, normal, normal, numbers=True).samples(rng)
    return [*tensors, Sample(normal(rng, 2), normal(rng, 2), 0), Sample(normal(rng, 2), normal(rng, 2), 1)]


def power_samples(rng):
    both = binary("pow", np.power, positive, uniform(-2.0, 2.0)).samples(rng)
    exponents = [Sample(nonzero(rng, 2, 3), n) for n in (2, 3, 2.0, 3.0, 1, 1.0, -1.0, -2.0)]
    return [*both, *exponents, Sample(positive(rng, 3), 0.5), Sample(2, normal(rng, 3)), Sample(nonzero(rng, 3), 0)]


def power_integers(rng):
    return [Sample(np.array([2.0, -3.0, 0.0]), np.array([3.0, 2.0, 0.0])), Sample(np.array([2.0, -3.0]), 2)]


def step_samples(rng):
    shapes = [((2, 3), (2, 3)), ((3,), (2, 1)), ((), ()), ((0, 2), (2,))]
    return [Sample(nonzero(rng, *a), normal(rng, *b)) for a, b in shapes]


def step(x, values):
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


ROWS = [
    Row("add", samples=with_keyword(alpha=0.5), reference=lambda a, b, alpha=1: a + alpha * b,
        errors=[*errors("add"), whole_factor("alpha", lambda op, x: op(x, x, alpha=0.5))],
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3)), Sample(few(rng, 3), 2, alpha=3)]),
    Row("sub", samples=with_keyword(alpha=0.5), reference=lambda a, b, alpha=1: a - alpha * b,
        errors=[*errors("sub"), Error("bools", lambda op, x: op(*[x(2, dtype="bool")] * 2), RuntimeError, "two bool"),
                whole_factor("alpha", lambda op, x: op(x, x, alpha=0.5))],
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3)), Sample(few(rng, 3), 2, alpha=3)]),
    binary("mul", np.multiply, errors=errors("mul")),
    Row("pow", samples=power_samples, reference=np.power, integer_samples=power_integers, errors=errors("pow"),
        tol={"float16": 2e-2, "bfloat16": 0.15},
        points=[Point(Sample(np.zeros(3), np.array([1.0, 2.0, 0.0])), [[1.0, 0.0, 0.0], 0.0]),
                Point(Sample(np.zeros(2), 0), [0.0]), Point(Sample(np.array([0.0, -2.0]), 2), [[0.0, -4.0]]),
                Point(Sample(np.zeros(1), 1.0), [1.0]), Point(Sample(0, np.array([0.0, 1.0])), [0.0])]),
    binary("hypot", np.hypot, nonzero, numbers=False, errors=[bad_shapes("hypot")]),
    binary("copysign", np.copysign, nonzero, errors=errors("copysign"),
           points=[Point(Sample(np.array([0.0, -2.0]), np.array([-1.0, -0.0])), [[0.0, 1.0], 0.0])]),
    binary("nextafter", np.nextafter, nonzero, numbers=False, errors=[bad_shapes("nextafter")],
           tol={"bfloat16": 6e-2}, skip=NOT_IN_TORCH),
    Row("heaviside", samples=step_samples, reference=step, skip=NOT_IN_TORCH,
        integer_samples=lambda rng: [Sample(few(rng, 4), few(rng, 4))],
        points=[Point(Sample(np.array([-1.0, 0.0, 1.0]), np.array([0.5])), [0.0, [1.0]])],
        errors=[bad_shapes("heaviside"),
                Error("dtypes", lambda op, x: op(x(2), x(2, dtype="int64")), RuntimeError, "same dtype")]),
    binary("atan2", np.arctan2, nonzero, errors=errors("atan2"), tol={"float16": 1e-2},
           points=[Point(Sample(np.array([0.0, 0.0]), np.array([0.0, 2.0])), [[0.0, 0.5], 0.0])]),
    Row("lerp", samples=lerp_samples, reference=lambda a, b, weight: a + weight * (b - a),
        errors=[Error("shapes", lambda op, x: op(x(2), x(3), 0.5), RuntimeError, "lerp")]),
    Row("addcmul", samples=ternary(value=-0.5), reference=lambda x, a, b, value=1: x + value * a * b,
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3), few(rng, 3), value=2)],
        errors=[Error("shapes", lambda op, x: op(x(2), x(3), x(1)), RuntimeError, "addcmul"),
                whole_factor("value", lambda op, x: op(x, x, x, value=0.5))]),
    Row("addcdiv", samples=ternary(value=-0.5), reference=lambda x, a, b, value=1: x + value * a / b,
        tol={"float16": 1e-2},
        errors=[Error("shapes", lambda op, x: op(x(2), x(3), x(1)), RuntimeError, "addcdiv")]),
    Row("where", samples=condition_samples, reference=np.where,
        points=[Point(Sample(np.array([True, False]), np.array([1.0, np.nan]), np.array([np.inf, 1.0])),
                      [[1, 0], [0, 1]])],
        errors=[Error("shapes", lambda op, x: op(x(2, dtype="bool"), x(3), 0.0), RuntimeError, "where")]),
]
