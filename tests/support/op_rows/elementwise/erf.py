"""Rows of ops/elementwise/erf.py."""

import math

import numpy as np
from op_db import Point, Row, Sample, normal, unit
from op_rows.elementwise.shared import HALVES, inside, row
from scipy import special


def ratio(x, order):
    first = 1 / (np.sqrt(np.pi) * special.erfcx(x)) - x
    return first if order == 1 else (1 / first - 2 * x) / 4


def their_ratio(torch, x, order):
    first = 1 / (torch.pi**0.5 * torch.special.erfcx(x)) - x
    return first if order == 1 else (1 / first - 2 * x) / 4


def zero_or_one(rng):
    return [Sample(np.array([0.0, 1.0]))]


ROWS = [
    row("erf", special.erf, points=[Point(Sample(np.array([0.0, 30.0])), [[2.0 / math.sqrt(math.pi), 0.0]])]),
    row("erfc", special.erfc, points=[Point(Sample(np.array([0.0, 30.0])), [[-2.0 / math.sqrt(math.pi), 0.0]])]),
    row("erfcx", special.erfcx, tol={"float16": 2e-2, "bfloat16": 0.1}),
    row("erfinv", special.erfinv, unit, tol=HALVES, integer_samples=zero_or_one),
    row("ndtr", special.ndtr, tol=HALVES),
    row("log_ndtr", special.log_ndtr, tol=HALVES),
    Row("erfc_ratio", samples=lambda rng: [Sample(normal(rng, *shape) * 2, order=order) for order in (1, 2)
                                           for shape in ((2, 3), (), (0,), (2, 2, 3))],
        reference=ratio, torch=their_ratio, tol=HALVES),
    row("log_ndtr_slope", lambda x: np.exp(-x * x / 2 - special.log_ndtr(x)) / np.sqrt(2 * np.pi), tol=HALVES,
        torch=lambda torch, x: torch.exp(-x * x / 2 - torch.special.log_ndtr(x)) / (2 * torch.pi) ** 0.5),
    row("ndtri", special.ndtri, inside, tol=HALVES, integer_samples=zero_or_one),
]  # fmt: skip
