"""Rows of ops/elementwise/logarithm.py."""

import numpy as np
from op_db import Point, Row, Sample, binary, normal, positive
from op_rows.elementwise.shared import HALVES, bad_shapes, inside, row
from scipy import special


def logit_samples(rng):
    results = [Sample(inside(rng, *shape), eps=eps) for shape in ((2, 3), (), (0,)) for eps in (None, 1e-3)]
    return [*results, Sample(np.array([0.05, 0.5, 0.97]), eps=0.1)]


def reference_logit(x, eps=None):
    x = x.astype(np.float64)
    return special.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def log_term(name, reference, edge):
    """xlogy or xlog1py: 0 at x = 0 even where the logarithm is infinite."""
    return binary(name, reference, normal, positive, errors=[bad_shapes(name)], torch=f"torch.special.{name}",
                  tol=HALVES, points=[Point(Sample(np.zeros(2), edge), [0.0])])


ROWS = [
    binary("logaddexp", np.logaddexp, numbers=False, errors=[bad_shapes("logaddexp")]),
    binary("logaddexp2", np.logaddexp2, numbers=False, errors=[bad_shapes("logaddexp2")]),
    log_term("xlogy", special.xlogy, 0.0),
    log_term("xlog1py", special.xlog1py, -1.0),
    row("entr", special.entr, positive, tol=HALVES),
    Row("logit", samples=logit_samples, reference=reference_logit, tol={"float16": 3e-2, "bfloat16": 0.2},
        integer_samples=lambda rng: [Sample(np.array([0.0, 1.0]), eps=0.1)],
        points=[Point(Sample(np.array([0.05, 0.5, 0.97]), eps=0.1), [[0.0, 4.0, 0.0]]),
                Point(Sample(np.array([-1.0, 0.5, 2.0])), [[np.nan, 4.0, np.nan]])]),
]  # fmt: skip
