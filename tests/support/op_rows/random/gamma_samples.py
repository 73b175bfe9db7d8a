"""Rows of ops/random/gamma_samples.py."""

import numpy as np
from op_db import Error, Row, Sample, positive, uniform
from op_rows.random.sampling import OTHER_NUMBERS, SHAPES, draw, draw_next, seeded
from scipy import special

from autograd_gpu.ops.random import gamma_samples

HELD = "a sample is a function of its parameter and of a random quantile: test_gamma_samples.py checks its gradient"
UNKNOWN = "the second derivative is not implemented, which test_gamma_samples.py checks"
WIDE = uniform(0.05, 30.0)
DRAWN = {
    **OTHER_NUMBERS, "oracle_grad": HELD, "oracle_gradgrad": UNKNOWN, "gradcheck": HELD, "gradgradcheck": UNKNOWN,
    "jvp": UNKNOWN,
}  # fmt: skip


def slope(alpha, z, logs=False):
    """By central differences of the quantile; the quantile is taken of the smaller tail."""
    z = np.exp(z) if logs else z
    lower, upper = special.gammainc(alpha, z), special.gammaincc(alpha, z)
    step = 1e-5 * alpha
    inverse = [
        np.where(lower < upper, special.gammaincinv(a, lower), special.gammainccinv(a, upper))
        for a in (alpha + step, alpha - step)
    ]
    return (inverse[0] - inverse[1]) / (2 * step) / (z if logs else 1)


def pairs(rng):
    shapes = ((2, 3), (2, 3)), ((), ()), ((0,), (0,)), ((3,), (2, 1))
    results = [Sample(WIDE(rng, *a), WIDE(rng, *b)) for a, b in shapes]
    return [*results, Sample(WIDE(rng, 4), np.log(WIDE(rng, 4)), logs=True)]


def slope_of_torch(torch, alpha, z, logs=False):
    alpha, z = torch.broadcast_tensors(alpha, z.exp() if logs else z)
    slope = torch._standard_gamma_grad(alpha.contiguous(), z.contiguous())
    return slope / z if logs else slope


def log_gammas(alpha):
    numbers = draw("standard_gamma", np.asarray(alpha + 1))
    return np.log(numbers) - draw_next("standard_exponential", alpha.shape) / alpha


INTEGERS = Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "not implemented for int64")

ROWS = [
    Row(
        "gamma_slope",
        samples=pairs,
        reference=slope,
        torch=slope_of_torch,
        constant=("alpha", "z"),
        tol={"float64": 1e-8},
        integers=None,
        skip={
            "oracle_forward": "PyTorch's differs by up to 5e-3, see test_gamma_samples.py",
            "oracle_grad": UNKNOWN,
            "oracle_gradgrad": UNKNOWN,
        },
        errors=[Error("integers", lambda op, x: op(*[x(2, dtype="int64")] * 2), RuntimeError, "not implemented")],
    ),
    Row(
        "standard_gamma",
        fn=seeded(gamma_samples.standard_gamma),
        samples=lambda rng: [Sample(positive(rng, *s)) for s in SHAPES],
        reference=lambda alpha: draw("standard_gamma", alpha),
        integers=None,
        skip=DRAWN,
        errors=[INTEGERS],
    ),
    Row(
        "random_log_gamma",
        fn=seeded(gamma_samples.random_log_gamma),
        samples=lambda rng: [Sample(positive(rng, *s)) for s in SHAPES],
        reference=log_gammas,
        torch=None,
        integers=None,
        skip={**DRAWN, "oracle": "PyTorch has no such function"},
        errors=[INTEGERS],
    ),
]
