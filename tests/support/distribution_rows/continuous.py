"""Distributions of real numbers that are made from normal, uniform and exponential noise."""

import scipy.stats as st

from .row import Row

NAN, INF = float("nan"), float("inf")

ROWS = [
    Row(
        "Normal", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -3.0], [2.0, 0.5], [0.5, -1.0]],
        invalid=({"scale": [0.3, 0.0]}, {"scale": -1.0}, {"loc": NAN}), outside=(NAN,),
        scipy=lambda p: st.norm(p["loc"], p["scale"]),
    ),
    Row(
        "Uniform", {"low": [0.5, -1.0], "high": [1.0, 2.0]}, [[0.6, 0.5], [0.9, -0.5]],
        invalid=({"high": [1.0, -1.0]},), outside=(5.0, -3.0, NAN),
        scipy=lambda p: st.uniform(p["low"], p["high"] - p["low"]),
    ),
]  # fmt: skip
