"""Rows of ops/nn/piecewise_activations.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, binary, nonzero, normal, uniform
from op_rows.elementwise.shared import condition_samples
from op_rows.nn.shared import HALVES, NO_FUNCTION, with_attributes

KINK = np.array([-1.0, 0.0, 2.0])
WIDE = uniform(-6, 6)


def limited(x, min_val=-1.0, max_val=1.0):
    return np.clip(x, min_val, max_val)


def kinks(*points, **attributes):
    """A sample at these points, and beside them."""
    return Sample(np.array([*points, np.nan]), **attributes)


def their_hardsigmoid(torch, x):
    """Written out: torch.nn.functional.hardsigmoid's derivative is that of float32, and has none itself."""
    return torch.nn.functional.relu6(x + 3) / 6 if x.is_floating_point() else torch.nn.functional.hardsigmoid(x)


def their_chosen(torch, x, condition, a, b):
    result = torch.where(condition, a, b)
    return result + 0 * x.sum() if x.requires_grad else result  # with a share of x, as the gradient of theirs has


def choices(rng):
    return [Sample(normal(rng, *s.args[0].shape), *s.args) for s in condition_samples(rng)]


ROWS = [
    Row(
        "chosen",
        samples=choices,
        reference=lambda x, condition, a, b: np.where(condition, a, b),
        torch=their_chosen,
        points=[Point(Sample(KINK, KINK > 0, np.array([1.0, np.nan, 2.0]), np.array([np.inf, 3.0, 1.0])),
                      [0, [0, 0, 1], [1, 1, 0]])],
        errors=[Error("shapes", lambda op, x: op(x(2), x(2, dtype="bool"), x(3), 0.0), RuntimeError, "chosen")],
    ),
    Row(
        "leaky_relu",
        samples=with_attributes(nonzero, {}, {"negative_slope": 0.3}),
        reference=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
        points=[Point(Sample(KINK), [[0.01, 0.01, 1]])],
    ),
    Row(
        "leaky_relu_grad",
        samples=with_attributes(nonzero, {}, {"negative_slope": 0.3}, inputs=2),
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, x, negative_slope=0.01: torch.where(x > 0, h, h * negative_slope) + 0 * x,
        reference=lambda h, x, negative_slope=0.01: np.where(x > 0, h, h * negative_slope),
        points=[Point(Sample(np.ones(3), KINK), [[0.01, 0.01, 1], 0])],
    ),
    binary(
        "prelu_kernel",
        lambda x, weight: np.where(x > 0, x, x * weight),
        nonzero,
        numbers=False,
        tol=HALVES,
        torch=lambda torch, x, weight: torch.where(x > 0, x, x * weight),
        skip={"oracle_dtypes": "torch.where promotes"},
        points=[Point(Sample(KINK, np.array([0.5])), [[0.5, 0.5, 1], -1])],
    ),
    Row(
        "hardtanh",
        samples=with_attributes(WIDE, {}, {"min_val": -0.5, "max_val": 3.0}),
        reference=limited,
        integers="int64",
        integer_samples=lambda rng: [Sample(np.array([-2, 1, 5]), min_val=-1, max_val=3)],
        skip={"oracle_bool": "bool has no limits"},
        points=[Point(kinks(-1, 0, 1), [[0, 1, 0, 1]])],
        errors=[
            Error("order", lambda op, x: op(x(2), 1.0, -1.0), ValueError, "min_val cannot be greater than max_val"),
            Error("bool", lambda op, x: op(x(2, dtype="bool")), RuntimeError, "Bool inputs not supported for hardtanh"),
            Error("unsigned", lambda op, x: op(x(2, dtype="uint8")), RuntimeError, "unsigned type with negative"),
        ],
    ),
    Row(
        "hardsigmoid",
        samples=with_attributes(WIDE, {}),
        torch=their_hardsigmoid,
        reference=lambda x: np.clip(x + 3, 0, 6) / 6,
        points=[Point(Sample(np.array([-3.0, 0.0, 3.0])), [[0, 1 / 6, 0]])],
    ),
    Row(
        "hardswish",
        samples=with_attributes(WIDE, {}),
        reference=lambda x: x * np.clip(x + 3, 0, 6) / 6,
        tol=HALVES,
        points=[Point(Sample(np.array([-3.0, 0.0, 3.0])), [[0, 0.5, 1]]), Point(Sample(np.full(64, np.nan)), [np.nan])],
    ),
    Row(
        "hardshrink",
        samples=with_attributes(WIDE, {}, {"lambd": 1.5}),
        reference=lambda x, lambd=0.5: np.where(np.abs(x) > lambd, x, 0.0),
        points=[Point(kinks(-0.5, 0, 0.5), [[0, 0, 0, 1]])],
    ),
    Row(
        "softshrink",
        samples=with_attributes(WIDE, {}, {"lambd": 1.5}),
        reference=lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
        tol=HALVES,
        points=[Point(kinks(-0.5, 0, 0.5), [[0, 0, 0, 1]])],
        errors=[Error("negative", lambda op, x: op(x(2), -1.0), RuntimeError, "lambda must be greater or equal to 0")],
    ),
    Row(
        "threshold",
        samples=with_attributes(WIDE, {"threshold": 0.5, "value": 7.0}),
        reference=lambda x, threshold, value: np.where(x > threshold, x, value),
        integers="int64",
        integer_samples=lambda rng: [Sample(np.array([-2, 1, 5]), threshold=1, value=3)],
        skip={"oracle_bool": "torch's result is a bool of a number"},
        points=[Point(kinks(0.0, 0.5, 1.0, threshold=0.5, value=7.0), [[0, 0, 1, 1]])],
    ),
]
