"""Rows of ops/nn/softmax.py."""

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.nn.shared import HALVES, NO_FUNCTION
from scipy.special import log_softmax, softmax

SHAPES = (((2, 3), 0), ((2, 3), -1), ((2, 3, 4), 1), ((), 0), ((2, 0), 1), ((0, 3), 1))
NEGATIVE = (((2, 3), -2), ((2, 3), -1), ((2, 3, 4), -2), ((), -1), ((2, 0), -1), ((0, 3), -1))
RANGE = Error("range", lambda op, x: op(x(2, 3), dim=2), IndexError, "Dimension out of range")


def matrix(rng):
    return [Sample(normal(rng, 2, 3), dim=1)]


def on(function):
    """A SciPy function as a reference; 0-d tensors have one dimension, and SciPy takes no empty ones."""

    def reference(x, dim):
        return np.asarray(function(x.reshape(x.shape or 1), axis=dim).reshape(x.shape)) if x.size else x

    return reference


def total(x, dim):
    return np.sum(x, axis=dim, keepdims=True) if x.ndim else x


def softmax_grad(h, out, dim):
    return out * (h - total(h * out, dim))


def log_softmax_grad(h, out, dim):
    return h - np.exp(out) * total(h, dim)


def grad_samples(function):
    def samples(rng):
        return [Sample(normal(rng, *s), on(function)(normal(rng, *s), dim), dim=dim) for s, dim in NEGATIVE]

    return samples


ROWS = [
    Row(
        "softmax",
        samples=lambda rng: [Sample(normal(rng, *s), dim=dim) for s, dim in SHAPES],
        reference=on(softmax),
        errors=[RANGE],
        integer_samples=matrix,
    ),
    Row(
        "safe_softmax",
        samples=lambda rng: [Sample(normal(rng, *s), dim=dim) for s, dim in SHAPES[:-1] if s],
        reference=on(softmax),
        integer_samples=matrix,
        skip={"zero_dim": "attention has at least two dimensions"},
    ),
    Row(
        "log_softmax",
        samples=lambda rng: [Sample(normal(rng, *s), dim=dim) for s, dim in SHAPES],
        reference=on(log_softmax),
        errors=[RANGE],
        integer_samples=matrix,
    ),
    Row(
        "softmax_grad",
        samples=grad_samples(softmax),
        reference=softmax_grad,
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out, dim: out * (h - (h * out).sum(dim, keepdim=True)),
    ),
    Row(
        "log_softmax_grad",
        samples=grad_samples(log_softmax),
        reference=log_softmax_grad,
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out, dim: h - out.exp() * h.sum(dim, keepdim=True),
    ),
]
