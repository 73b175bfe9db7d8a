"""Rows of ops/elementwise/gamma.py."""

import numpy as np
from op_db import Error, Row, Sample, binary, positive
from op_rows.elementwise.shared import HALVES, above_one, bad_shapes, row
from scipy import special


def unknown(op, name):
    def call(op, x):
        first = x(2).requires_grad_()
        op(first, x(2)).sum().backward()

    return Error(f"by {name}", call, NotImplementedError, f"the derivative of {op} by {name} is not implemented")


def two(op, reference, a, b, first, **fields):
    """Of a first operand by which there is no derivative: constant in the checks, and the second one a tensor."""
    both = binary(op, reference, a, b).samples
    return Row(op, samples=lambda rng: [s for s in both(rng) if isinstance(s.args[1], np.ndarray)], reference=reference,
               constant=(first,), errors=[bad_shapes(op), unknown(op, first)], torch=f"torch.special.{op}", **fields)


def polygamma_samples(rng):
    return [Sample(x, n=n) for n in (0, 1, 2, 5) for x in (positive(rng, 2, 3), positive(rng), positive(rng, 0))]


ROWS = [
    row("lgamma", special.gammaln, positive, tol=HALVES),
    row("digamma", special.digamma, positive, tol=HALVES),
    Row("polygamma", samples=polygamma_samples, reference=lambda x, n: special.polygamma(n, x),
        torch=lambda torch, x, n: torch.polygamma(n, x), tol={"float16": 6e-2, "bfloat16": 0.5, "float32": 5e-5},
        errors=[Error("negative", lambda op, x: op(x(2), -1), RuntimeError, "does not support negative n")]),
    Row("mvlgamma", samples=lambda rng: [Sample(2 + positive(rng, *shape), p=p) for p in (1, 3)
                                         for shape in ((2, 3), (), (0,))],
        reference=lambda x, p: np.vectorize(special.multigammaln, otypes=[float])(x, p), tol=HALVES,
        integer_samples=lambda rng: [Sample(np.array([4.0, 7.0]), p=3)],
        errors=[Error("dimension", lambda op, x: op(x(2), 0), RuntimeError, "p has to be greater than or equal to 1")]),
    two("zeta", special.zeta, above_one, positive, "x", tol=HALVES, integer_samples=lambda rng: [
        Sample(np.array([2.0, 3.0]), np.array([1.0, 4.0]))]),
    two("gammainc", special.gammainc, positive, positive, "a", tol=HALVES),
    two("gammaincc", special.gammaincc, positive, positive, "a", tol=HALVES),
]  # fmt: skip
