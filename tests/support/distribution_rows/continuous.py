"""Distributions of real numbers that are made from normal, uniform and exponential noise."""

from types import SimpleNamespace

import numpy as np
import scipy.stats as st

from .row import Row

NAN = float("nan")


def wrapped(p):
    """The von Mises distribution on [-pi, pi), wherever its mean is."""
    d = st.vonmises(p["concentration"], p["loc"])
    return SimpleNamespace(pdf=d.pdf, cdf=lambda x: d.cdf(x) - d.cdf(-np.pi))



def by_odds(odds):
    """The continuous Bernoulli distribution."""
    return SimpleNamespace(pdf=None, cdf=lambda x: (odds**x - 1) / (odds - 1))


ROWS = [
    Row(
        "Normal", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -3.0], [2.0, 0.5], [0.5, -1.0]],
        invalid=({"scale": [0.3, 0.0]}, {"scale": -1.0}, {"loc": NAN}), outside=(NAN, [NAN, 0.0]),
        scipy=lambda p: st.norm(p["loc"], p["scale"]),
    ),
    Row(
        "Uniform", {"low": [0.5, -1.0], "high": [0.95, 2.0]}, [[0.6, 0.5], [0.9, -0.5]],
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
    Row(
        "Pareto", {"scale": [0.5, 1.5], "alpha": [2.5, 4.0]}, [[0.6, 3.0], [2.0, 1.6]],
        invalid=({"scale": [0.3, 0.0]}, {"alpha": -1.0}), outside=(0.2, NAN),
        scipy=lambda p: st.pareto(p["alpha"], scale=p["scale"]),
    ),
    Row(
        "GeneralizedPareto", {"loc": [0.5, -1.0, 0.0], "scale": [0.3, 2.0, 1.0], "concentration": [0.3, -0.4, 0.7]},
        [[0.6, 3.0, 0.1], [2.0, 0.5, 9.0]], invalid=({"scale": 0.0}, {"concentration": NAN}),
        outside=(-2.0, [1.0, 5.0, 1.0]), scipy=lambda p: st.genpareto(p["concentration"], p["loc"], p["scale"]),
    ),
    Row(
        "GeneralizedPareto", {"loc": 0.5, "scale": 2.0, "concentration": [0.01, -0.95]}, [[0.6, 2.0], [2.0, 0.7]],
        scipy=lambda p: st.genpareto(p["concentration"], p["loc"], p["scale"]), label="GeneralizedPareto with no tail",
    ),
    Row(
        "Kumaraswamy", {"concentration1": [0.5, 2.0], "concentration0": [3.0, 1.7]}, [[0.1, 0.5], [0.9, 0.3]],
        invalid=({"concentration1": -2.0}, {"concentration0": -1.0}), outside=(-0.1, 1.1, NAN), differs=("mode",),
        scipy=lambda p: SimpleNamespace(
            pdf=None, cdf=lambda x: 1 - (1 - x ** p["concentration1"]) ** p["concentration0"]),
    ),
    Row(
        "ContinuousBernoulli", {"probs": [0.3, 0.9]}, [[0.1, 0.5], [0.0, 1.0]], invalid=({"probs": NAN},),
        outside=(-0.1, 1.1, NAN),
        scipy=lambda p: by_odds(p["probs"] / (1 - p["probs"])),
    ),
    Row(
        "ContinuousBernoulli", {"logits": [-2.0, 7.0]}, [[0.1, 0.5], [0.9, 0.2]],
        invalid=({"logits": NAN},), label="ContinuousBernoulli by logits",
    ),
    Row(
        "VonMises", {"loc": [0.5, -1.0], "concentration": [0.3, 20.0]}, [[0.1, -0.7], [6.0, 2.5]],
        invalid=({"concentration": 0.0}, {"loc": NAN}), outside=(NAN,), single=("log_prob", "variance", "stddev"),
        scipy=wrapped,
    ),
]  # fmt: skip
