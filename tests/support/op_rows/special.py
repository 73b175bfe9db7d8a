"""Rows of ops/elementwise/ (erf.py, bessel.py, gamma.py, logarithm.py), against SciPy."""

import math

import numpy as np
from op_db import Error, Point, Row, Sample, binary, nonzero, normal, positive, uniform, unit
from scipy import special

from .arithmetic import bad_shapes
from .elementwise import row

HALVES = {"float16": 1e-2, "bfloat16": 6e-2}
inside, above_one = uniform(0.1, 0.9), uniform(1.3, 4.0)
between = uniform(-2.9, -2.1)  # two poles of gamma


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


def logit_samples(rng):
    found = [Sample(inside(rng, *shape), eps=eps) for shape in ((2, 3), (), (0,)) for eps in (None, 1e-3)]
    return [*found, Sample(np.array([0.05, 0.5, 0.97]), eps=0.1)]


def reference_logit(x, eps=None):
    x = x.astype(np.float64)
    return special.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def bessel_samples(*attributes):
    return lambda rng: [Sample(nonzero(rng, *s) * 2, **a) for a in attributes for s in ((2, 3), (), (0,), (2, 2, 3))]


def their_bessel(torch, x, order, scaled):
    """By the recurrence, in which PyTorch has orders 0 and 1."""
    below, found = (torch.special.i0e, torch.special.i1e) if scaled else (torch.special.i0, torch.special.i1)
    below, found = below(x), found(x)
    for k in range(1, order):
        below, found = found, below - 2 * k / x * found
    return found


def their_spherical(torch, x, order):
    below, found = torch.cos(x) / x, torch.sin(x) / x
    for k in range(order):
        below, found = found, (2 * k + 1) / x * found - below
    return found


def ratio(x, order):
    first = 1 / (np.sqrt(np.pi) * special.erfcx(x)) - x
    return first if order == 1 else (1 / first - 2 * x) / 4


def their_ratio(torch, x, order):
    first = 1 / (torch.pi**0.5 * torch.special.erfcx(x)) - x
    return first if order == 1 else (1 / first - 2 * x) / 4


def zero_or_one(rng):
    return [Sample(np.array([0.0, 1.0]))]


def log_term(name, reference, edge):
    """xlogy or xlog1py: 0 at x = 0 even where the logarithm is infinite."""
    return binary(name, reference, normal, positive, errors=[bad_shapes(name)], torch=f"torch.special.{name}",
                  tol=HALVES, points=[Point(Sample(np.zeros(2), edge), [0.0])])


ROWS = [
    row("erf", special.erf, points=[Point(Sample(np.array([0.0, 30.0])), [[2.0 / math.sqrt(math.pi), 0.0]])]),
    row("erfc", special.erfc, points=[Point(Sample(np.array([0.0, 30.0])), [[-2.0 / math.sqrt(math.pi), 0.0]])]),
    row("erfcx", special.erfcx, torch="torch.special.erfcx", tol={"float16": 2e-2, "bfloat16": 0.1}),
    row("erfinv", special.erfinv, unit, tol=HALVES, integer_samples=zero_or_one),
    row("ndtr", special.ndtr, torch="torch.special.ndtr", tol=HALVES),
    row("log_ndtr", special.log_ndtr, torch="torch.special.log_ndtr", tol=HALVES),
    Row("erfc_ratio", samples=lambda rng: [Sample(normal(rng, *shape) * 2, order=order) for order in (1, 2)
                                           for shape in ((2, 3), (), (0,), (2, 2, 3))],
        reference=ratio, torch=their_ratio, tol=HALVES),
    row("log_ndtr_slope", lambda x: np.exp(-x * x / 2 - special.log_ndtr(x)) / np.sqrt(2 * np.pi), tol=HALVES,
        torch=lambda torch, x: torch.exp(-x * x / 2 - torch.special.log_ndtr(x)) / (2 * torch.pi) ** 0.5),
    row("ndtri", special.ndtri, inside, torch="torch.special.ndtri", tol=HALVES, integer_samples=zero_or_one),
    row("i0", special.i0, nonzero, tol=HALVES, points=[Point(Sample(np.zeros(1)), [0.0])]),
    row("i0e", special.i0e, nonzero, torch="torch.special.i0e", tol=HALVES),
    row("i1", special.i1, nonzero, torch="torch.special.i1", tol=HALVES, points=[Point(Sample(np.zeros(1)), [0.5])]),
    row("i1e", special.i1e, nonzero, torch="torch.special.i1e", tol=HALVES, points=[Point(Sample(np.zeros(1)), [0.5])]),
    Row("higher_bessel", samples=bessel_samples({"order": 2, "scaled": False}, {"order": 3, "scaled": True}),
        reference=lambda x, order, scaled: (special.ive if scaled else special.iv)(order, x), torch=their_bessel,
        tol=HALVES),
    Row("spherical_bessel", samples=bessel_samples({"order": 1}, {"order": 2}),
        reference=lambda x, order: special.spherical_jn(order, abs(x)) * np.sign(x) ** order, torch=their_spherical,
        tol=HALVES),
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
    binary("logaddexp", np.logaddexp, numbers=False, errors=[bad_shapes("logaddexp")]),
    binary("logaddexp2", np.logaddexp2, numbers=False, errors=[bad_shapes("logaddexp2")]),
    log_term("xlogy", special.xlogy, 0.0),
    log_term("xlog1py", special.xlog1py, -1.0),
    row("entr", special.entr, positive, torch="torch.special.entr", tol=HALVES),
    Row("logit", samples=logit_samples, reference=reference_logit, tol={"float16": 3e-2, "bfloat16": 0.2},
        integer_samples=lambda rng: [Sample(np.array([0.0, 1.0]), eps=0.1)],
        points=[Point(Sample(np.array([0.05, 0.5, 0.97]), eps=0.1), [[0.0, 4.0, 0.0]]),
                Point(Sample(np.array([-1.0, 0.5, 2.0])), [[np.nan, 4.0, np.nan]])]),
]  # fmt: skip
