"""Rows of ops/elementwise/bessel.py."""

import numpy as np
from op_db import Point, Row, Sample, nonzero
from op_rows.elementwise.shared import HALVES, row
from scipy import special


def bessel_samples(*attributes):
    return lambda rng: [Sample(nonzero(rng, *s) * 2, **a) for a in attributes for s in ((2, 3), (), (0,), (2, 2, 3))]


def their_bessel(torch, x, order, scaled):
    """By the recurrence, in which PyTorch has orders 0 and 1."""
    below, result = (torch.special.i0e, torch.special.i1e) if scaled else (torch.special.i0, torch.special.i1)
    below, result = below(x), result(x)
    for k in range(1, order):
        below, result = result, below - 2 * k / x * result
    return result


def their_spherical(torch, x, order):
    below, result = torch.cos(x) / x, torch.sin(x) / x
    for k in range(order):
        below, result = result, (2 * k + 1) / x * result - below
    return result


ROWS = [
    row("i0", special.i0, nonzero, tol=HALVES, points=[Point(Sample(np.zeros(1)), [0.0])]),
    row("i0e", special.i0e, nonzero, tol=HALVES),
    row("i1", special.i1, nonzero, tol=HALVES, points=[Point(Sample(np.zeros(1)), [0.5])]),
    row("i1e", special.i1e, nonzero, tol=HALVES, points=[Point(Sample(np.zeros(1)), [0.5])]),
    Row("higher_bessel", samples=bessel_samples({"order": 2, "scaled": False}, {"order": 3, "scaled": True}),
        reference=lambda x, order, scaled: (special.ive if scaled else special.iv)(order, x), torch=their_bessel,
        tol=HALVES),
    Row("spherical_bessel", samples=bessel_samples({"order": 1}, {"order": 2}),
        reference=lambda x, order: special.spherical_jn(order, abs(x)) * np.sign(x) ** order, torch=their_spherical,
        tol=HALVES),
]  # fmt: skip
