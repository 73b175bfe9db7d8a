"""Samples, references and errors that rows of several modules of ops/elementwise/ share."""

import numpy as np
from op_db import (
    Error,
    Point,
    Sample,
    bools,
    normal,
    unary,
    uniform,
)


def few(rng, *shape):
    """-1, 0 and 1: equal elements occur."""
    return np.asarray(rng.integers(-1, 2, size=shape).astype(np.float64))


def bad_shapes(name):
    text = r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1"
    return Error("shapes", lambda op, x: op(x(2, 3), x(4)), RuntimeError, rf"{name}: {text} .*\[2, 3\].*\[4\]")


def bad_type(name):
    return Error("a string", lambda op, x: op(x(2), "2"), TypeError, rf"{name}\(\): argument '\w+' must be Tensor")


def errors(name):
    return [bad_shapes(name), bad_type(name), Error("no operand", lambda op, x: op(x(2)), TypeError, f"{name}")]


def condition_samples(rng):
    shapes = [((2, 3),) * 3, ((3,), (2, 1), ()), ((2, 3), (3,), (2, 3)), ((), (), ()), ((0, 2), (2,), ())]
    tensors = [Sample(bools(rng, *c), normal(rng, *a), normal(rng, *b)) for c, a, b in shapes]
    return [*tensors, Sample(bools(rng, 4), normal(rng, 4), 0.5), Sample(bools(rng, 4), 0.5, normal(rng, 4))]


NOT_IN_TORCH = dict.fromkeys(("oracle_grad", "oracle_gradgrad"), "PyTorch has no derivative of it")


def row(op, reference, domain=normal, **fields):
    """A unary row with the two errors that every such op has."""
    errors = [
        Error("a string", lambda op, x: op("1"), TypeError, rf"{op}\(\): argument 'input' must be Tensor, not str"),
        Error("no argument", lambda op, x: op(), TypeError, op),
    ]
    return unary(op, reference, domain, errors=errors, **fields)


def zero_at(*points):
    """The derivative is exactly 0 at `points`."""
    return [Point(Sample(np.array(points)), [0.0])]


def zeros(rng):
    return [Sample(np.zeros((2, 3)))]


def small(rng):
    """Small whole numbers, where exp2 and the hyperbolic functions stay within float32."""
    return [Sample(np.array([[-2.0, -1.0], [0.0, 3.0]])), Sample(np.array(2.0))]


HALVES = {"float16": 1e-2, "bfloat16": 6e-2}
inside, above_one = uniform(0.1, 0.9), uniform(1.3, 4.0)


SPECIAL = np.array([[1.0, np.nan, np.inf], [-np.inf, 0.0, -2.0]])
WITH_NAN = {"gradcheck": "numerical derivatives at NaN", "gradgradcheck": "numerical derivatives at NaN"}
