"""Rows of ops/arithmetic.py."""

import numpy as np
from op_db import (
    Error,
    Point,
    Row,
    Sample,
    binary,
    bools,
    elementwise,
    nonzero,
    normal,
    positive,
    unary,
    uniform,
)


def few(rng, *shape):
    """-1, 0 and 1: equal elements occur."""
    return np.asarray(rng.integers(-1, 2, size=shape).astype(np.float64))


def special(rng):
    """NaN and infinities among ordinary numbers."""
    values = np.array([[1.0, np.nan, -np.inf], [np.inf, 0.0, -2.0]])
    return [Sample(values), Sample(values[:0]), Sample(values[0, 1])]


def remainder(torch, a, b):
    """By its definition where it is differentiated: PyTorch has no derivative of remainder by b."""
    tensors = [x for x in (a, b) if isinstance(x, torch.Tensor)]
    return a - b * torch.floor(a / b) if any(x.requires_grad for x in tensors) else torch.remainder(a, b)


def bad_shapes(name):
    return Error("shapes", lambda op, x: op(x(2, 3), x(4)), RuntimeError, rf"{name}.*\[2, 3\].*\[4\]")


def bad_type(name):
    return Error("a string", lambda op, x: op(x(2), "2"), TypeError, rf"{name}\(\): argument '\w+' must be Tensor")


def errors(name):
    return [bad_shapes(name), bad_type(name), Error("no operand", lambda op, x: op(x(2)), TypeError, f"{name}")]


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


def clamp_samples(rng):
    def x(*shape):
        return np.asarray(rng.choice([-2.0, -0.4, 0.3, 1.7], size=shape)) + rng.uniform(-0.1, 0.1, size=shape)

    limits = [{"min": -1.0, "max": 1.0}, {"min": 0.0}, {"max": 0.5}, {"min": -1, "max": 1}]
    return [Sample(x(*shape), **limit) for shape in ((2, 3), (), (0, 2)) for limit in limits]


def clamp(x, min=None, max=None):
    return np.clip(x, min, max).astype(x.dtype)


def condition_samples(rng):
    shapes = [((2, 3),) * 3, ((3,), (2, 1), ()), ((2, 3), (3,), (2, 3)), ((), (), ()), ((0, 2), (2,), ())]
    tensors = [Sample(bools(rng, *c), normal(rng, *a), normal(rng, *b)) for c, a, b in shapes]
    return [*tensors, Sample(bools(rng, 4), normal(rng, 4), 0.5), Sample(bools(rng, 4), 0.5, normal(rng, 4))]


def truth(rng):
    return [
        Sample(bools(rng, 4), bools(rng, 4)), Sample(few(rng, 2, 3), few(rng, 3)), Sample(few(rng), few(rng, 2)),
        Sample(bools(rng, 0, 2), bools(rng, 2)), Sample(few(rng, 3), True), Sample(bools(rng, 3), few(rng, 3)),
    ]  # fmt: skip


COMPARED = [
    binary(name, getattr(np, numpy), few, errors=errors(name))
    for name, numpy in [("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                        ("ge", "greater_equal")]
]  # fmt: skip

ROWS = [
    Row("add", samples=with_keyword(alpha=0.5), reference=lambda a, b, alpha=1: a + alpha * b, errors=errors("add"),
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3)), Sample(few(rng, 3), 2, alpha=3)]),
    Row("sub", samples=with_keyword(alpha=0.5), reference=lambda a, b, alpha=1: a - alpha * b, errors=errors("sub"),
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3)), Sample(few(rng, 3), 2, alpha=3)]),
    binary("mul", np.multiply, errors=errors("mul")),
    binary("div", np.divide, normal, nonzero, errors=errors("div")),
    Row("pow", samples=power_samples, reference=np.power, integer_samples=power_integers, errors=errors("pow"),
        tol={"float16": 2e-2, "bfloat16": 0.15},
        points=[Point(Sample(np.zeros(3), np.array([1.0, 2.0, 0.0])), [[1.0, 0.0, 0.0], 0.0]),
                Point(Sample(np.zeros(2), 0), [0.0]), Point(Sample(np.array([0.0, -2.0]), 2), [[0.0, -4.0]]),
                Point(Sample(np.zeros(1), 1.0), [1.0]), Point(Sample(0, np.array([0.0, 1.0])), [0.0])]),
    binary("floor_divide", np.floor_divide, uniform(5.1, 5.9), uniform(2.1, 2.4), errors=errors("floor_divide"),
           skip=dict.fromkeys(("oracle_grad", "oracle_gradgrad"), "PyTorch has no derivative of it"),
           points=[Point(Sample(np.array([6.0]), np.array([2.0])), [0.0, 0.0])]),
    binary("remainder", np.remainder, uniform(-5.9, -5.1), uniform(2.1, 2.4), errors=errors("remainder"),
           torch=remainder,
           points=[Point(Sample(np.array([7.0, -7.0]), np.array([4.0, 4.0])), [1.0, [-1.0, 2.0]])]),
    binary("maximum", np.maximum, errors=errors("maximum"),
           points=[Point(Sample(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), [[0.5, 0, 1], [0.5, 1, 0]])]),
    binary("minimum", np.minimum, errors=errors("minimum"),
           points=[Point(Sample(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), [[0.5, 1, 0], [0.5, 0, 1]])]),
    binary("atan2", np.arctan2, nonzero, errors=errors("atan2"), tol={"float16": 1e-2}),
    Row("lerp", samples=lerp_samples, reference=lambda a, b, weight: a + weight * (b - a),
        errors=[Error("shapes", lambda op, x: op(x(2), x(3), 0.5), RuntimeError, "lerp")]),
    Row("addcmul", samples=ternary(value=-0.5), reference=lambda x, a, b, value=1: x + value * a * b,
        integer_samples=lambda rng: [Sample(few(rng, 3), few(rng, 3), few(rng, 3), value=2)],
        errors=[Error("shapes", lambda op, x: op(x(2), x(3), x(1)), RuntimeError, "addcmul")]),
    Row("addcdiv", samples=ternary(value=-0.5), reference=lambda x, a, b, value=1: x + value * a / b,
        tol={"float16": 1e-2},
        errors=[Error("shapes", lambda op, x: op(x(2), x(3), x(1)), RuntimeError, "addcdiv")]),
    Row("where", samples=condition_samples, reference=np.where,
        points=[Point(Sample(np.array([True, False]), np.array([1.0, np.nan]), np.array([np.inf, 1.0])),
                      [[1, 0], [0, 1]])],
        errors=[Error("shapes", lambda op, x: op(x(2, dtype="bool"), x(3), 0.0), RuntimeError, "where")]),
    Row("clamp", samples=clamp_samples, reference=clamp,
        integer_samples=lambda rng: [Sample(few(rng, 4), min=0, max=2), Sample(few(rng, 4), max=0)],
        points=[Point(Sample(np.array([-1.0, 0.0, 1.0, 1.5]), min=-1.0, max=1.0), [[1, 1, 1, 0]])],
        errors=[Error("neither min nor max", lambda op, x: op(x(2)), RuntimeError, "clamp: At least one of"),
                Error("a list", lambda op, x: op([1.0], 0.0), TypeError, "clamp.*must be Tensor, not list")]),
    *COMPARED,
    Row("logical_and", samples=truth, reference=np.logical_and, errors=errors("logical_and")),
    Row("logical_or", samples=truth, reference=np.logical_or, errors=errors("logical_or")),
    unary("logical_not", np.logical_not, few),
    Row("isnan", samples=special, reference=np.isnan, integer_samples=lambda rng: [Sample(few(rng, 3))]),
    Row("isfinite", samples=special, reference=np.isfinite, integer_samples=lambda rng: [Sample(few(rng, 3))]),
]
