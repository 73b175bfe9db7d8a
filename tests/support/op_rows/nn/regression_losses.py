"""Rows of ops/nn/regression_losses.py."""

import warnings

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.nn.shared import HALVES, REDUCTIONS, WRONG, finish, their

from autograd_gpu.core.declare.op import RECORD


def apart(rng, *shape):
    """Differences from the normal target that stay away from 0 and from 1."""
    return rng.choice([-1.0, 1.0], size=shape) * rng.choice([0.5, 1.7], size=shape) * rng.uniform(0.9, 1.1, size=shape)


def pairs(rng):
    """(input, target) of equal shapes, with every reduction; and broadcasting ones."""
    samples = []
    for shape in ((2, 3), (), (4,)):
        target = normal(rng, *shape)
        samples += [Sample(target + apart(rng, *shape), target, reduction=r) for r in REDUCTIONS]
    target = normal(rng, 3)
    samples += [Sample(target + apart(rng, 2, 3), target, reduction=r) for r in REDUCTIONS]
    return [*samples, *(Sample(normal(rng, 0, 3), normal(rng, 0, 3), reduction=r) for r in ("sum", "none"))]


def huber(input, target, reduction="mean", delta=1.0):
    size = np.abs(input - target)
    return finish(np.where(size < delta, 0.5 * size**2, delta * (size - 0.5 * delta)), reduction)


def quiet(name):
    """The op, without the warning about the samples that broadcast."""

    def call(*args, **attributes):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using a target size", UserWarning)
            return getattr(RECORD, name)(*args, **attributes)

    return call


ROWS = [
    Row(
        "mse_loss",
        samples=pairs,
        fn=quiet("mse_loss"),
        torch=their("mse_loss"),
        tol=HALVES,
        errors=[WRONG],
        reference=lambda input, target, reduction="mean": finish((input - target) ** 2, reduction),
    ),
    Row(
        "l1_loss",
        samples=pairs,
        fn=quiet("l1_loss"),
        torch=their("l1_loss"),
        tol=HALVES,
        errors=[WRONG],
        integer_samples=lambda rng: [Sample(normal(rng, 3), normal(rng, 3))],
        reference=lambda input, target, reduction="mean": finish(np.abs(input - target), reduction),
    ),
    Row(
        "huber_loss",
        fn=quiet("huber_loss"),
        samples=lambda rng: [*pairs(rng), Sample(normal(rng, 3), normal(rng, 3) + 0.3, delta=5.0)],
        reference=huber,
        torch=their("huber_loss"),
        tol=HALVES,
        errors=[
            WRONG,
            Error("delta", lambda op, x: op(x(2), x(2), delta=0.0), RuntimeError, "non-positive values for delta"),
        ],
    ),
]
