"""Distributions of real numbers that are made from normal, uniform and exponential noise."""

import numpy as np
import scipy.stats as st

from .row import Row

NAN, INF = float("nan"), float("inf")

ROWS = [
    Row(
        "Normal", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -3.0], [2.0, 0.5], [0.5, -1.0]],
        invalid=({"scale": [0.3, 0.0]}, {"scale": -1.0}, {"loc": NAN}), outside=(NAN, [NAN, 0.0]),
        scipy=lambda p: st.norm(p["loc"], p["scale"]),
    ),
    Row(
        "Uniform", {"low": [0.5, -1.0], "high": [1.0, 2.0]}, [[0.6, 0.5], [0.9, -0.5]],
        invalid=({"high": [1.0, -1.0]},), outside=(5.0, -3.0, NAN),
        scipy=lambda p: st.uniform(p["low"], p["high"] - p["low"]),
    ),
    Row(
        "Uniform", {"low": 0.5, "high": 2.0}, [0.6, 0.9], label="Uniform of positive numbers",
        scipy=lambda p: st.uniform(0.5, 1.5),
    ),
    Row(
        "Exponential", {"rate": [0.5, 3.0]}, [[0.6, 0.5], [0.0, 2.5]], invalid=({"rate": 0.0},), outside=(-1.0, NAN),
        scipy=lambda p: st.expon(scale=1 / p["rate"]),
    ),
    Row(
        "Laplace", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -3.0], [2.0, 0.5]],
        invalid=({"scale": [0.3, 0.0]}, {"loc": NAN}), outside=(NAN,), scipy=lambda p: st.laplace(p["loc"], p["scale"]),
    ),
    Row(
        "Cauchy", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -3.0], [2.0, 0.5], [0.5, -1.0]],
        invalid=({"scale": [0.3, 0.0]}, {"loc": NAN}), outside=(NAN,), scipy=lambda p: st.cauchy(p["loc"], p["scale"]),
    ),
    Row(
        "Gumbel", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -3.0], [2.0, 0.5]],
        invalid=({"scale": [0.3, 0.0]}, {"loc": NAN}), outside=(NAN,),
        scipy=lambda p: st.gumbel_r(p["loc"], p["scale"]),
    ),
    Row(
        "Weibull", {"scale": [0.5, 2.0], "concentration": [1.5, 3.0]}, [[0.1, 3.0], [2.0, 0.5]],
        invalid=({"scale": [0.3, 0.0]}, {"concentration": -1.0}), outside=(-1.0, NAN),
        scipy=lambda p: st.weibull_min(p["concentration"], scale=p["scale"]),
    ),
    Row(
        "LogNormal", {"loc": [0.5, -1.0], "scale": [0.3, 0.8]}, [[0.1, 3.0], [2.0, 0.5]],
        invalid=({"scale": [0.3, 0.0]}, {"loc": NAN}), outside=(-1.0, 0.0, NAN),
        scipy=lambda p: st.lognorm(p["scale"], scale=np.exp(p["loc"])),
    ),
    Row(
        "HalfNormal", {"scale": [0.3, 2.0]}, [[0.1, 3.0], [2.0, 0.5]], invalid=({"scale": [0.3, 0.0]},),
        outside=(-1.0, NAN), scipy=lambda p: st.halfnorm(scale=p["scale"]),
    ),
    Row(
        "HalfCauchy", {"scale": [0.3, 2.0]}, [[0.1, 3.0], [2.0, 0.5]], invalid=({"scale": [0.3, 0.0]},),
        outside=(-1.0, NAN), scipy=lambda p: st.halfcauchy(scale=p["scale"]),
    ),
]  # fmt: skip
