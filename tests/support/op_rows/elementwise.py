"""Rows of ops/elementwise/unary.py, ops/elementwise/rounding.py and ops/elementwise/trigonometric.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, fractional, nonzero, normal, positive, unary, uniform, unit


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


def round_samples(rng):
    digits = [Sample(fractional(rng, 5) * scale, decimals=n) for n, scale in ((1, 0.1), (2, 0.01), (-1, 10.0))]
    return [*digits, *(Sample(fractional(rng, *shape)) for shape in ((2, 3), (), (0,)))]


HALVES = {"float16": 1e-2, "bfloat16": 6e-2}
above_one = uniform(1.3, 3.0)

ROWS = [
    row("neg", np.negative),
    row("abs", np.absolute, nonzero, points=[Point(Sample(np.array([-2.0, 0.0, 0.5])), [[-1, 0, 1]])]),
    row("sign", np.sign, nonzero, points=zero_at(-1.0, 0.0, 2.0)),
    row("floor", lambda x: np.floor(x).astype(x.dtype), fractional, points=zero_at(1.0, 1.5)),
    row("ceil", lambda x: np.ceil(x).astype(x.dtype), fractional, points=zero_at(1.0, 1.5)),
    Row("round", samples=round_samples, reference=lambda x, decimals=0: np.round(x, decimals),
        integer_samples=lambda rng: [Sample(np.array([1.0, -2.0]))], points=zero_at(0.5, 1.0),
        errors=[Error("integers", lambda op, x: op(x(2, dtype="int64"), decimals=1), RuntimeError, "not implemented")]),
    row("trunc", lambda x: np.trunc(x).astype(x.dtype), fractional, points=zero_at(0.0, 1.0)),
    row("reciprocal", lambda x: 1.0 / x, nonzero, tol={"float16": 2e-2, "bfloat16": 0.1}),
    row("square", np.square),
    row("conj_physical", np.conj),
    row("sqrt", np.sqrt, positive),
    row("rsqrt", lambda x: 1.0 / np.sqrt(x), positive, tol={"float16": 1e-2}),
    row("exp", np.exp, points=[Point(Sample(np.array([-np.inf, 0.0])), [[0, 1]])], integer_samples=small),
    row("exp2", np.exp2, integer_samples=small),
    row("expm1", np.expm1, integer_samples=small),
    row("log", np.log, positive),
    row("log2", np.log2, positive),
    row("log10", np.log10, positive),
    row("log1p", np.log1p, positive),
    row("sin", np.sin),
    row("cos", np.cos),
    row("tan", np.tan, unit),
    row("asin", np.arcsin, unit, tol={"float16": 1e-2}),
    row("acos", np.arccos, unit, tol={"float16": 1e-2}),
    row("atan", np.arctan),
    row("sinh", np.sinh, integer_samples=small),
    row("cosh", np.cosh, integer_samples=small),
    row("asinh", np.arcsinh),
    row("acosh", np.arccosh, above_one, tol={"float16": 1e-2}),
    row("atanh", np.arctanh, unit, integer_samples=zeros, tol={"float16": 1e-2, "bfloat16": 6e-2}),
    row("deg2rad", np.deg2rad),
    row("rad2deg", np.rad2deg, tol=HALVES),
    row("sinc", np.sinc, nonzero, tol=HALVES, integer_samples=zeros, points=zero_at(0.0)),
    row("frac", lambda x: x - np.trunc(x), fractional, integer_samples=zeros),
    Row("frexp", samples=lambda rng: [Sample(fractional(rng, *shape)) for shape in ((2, 3), (), (0,))],
        reference=np.frexp, integers=None,
        errors=[Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "only supports float")]),
]
