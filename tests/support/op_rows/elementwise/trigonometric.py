"""Rows of ops/elementwise/trigonometric.py."""

import numpy as np
from op_db import nonzero, uniform, unit
from op_rows.elementwise.shared import row, small, zero_at, zeros

HALVES = {"float16": 1e-2, "bfloat16": 6e-2}
above_one = uniform(1.3, 3.0)

ROWS = [
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
]
