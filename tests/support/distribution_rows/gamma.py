"""Distributions that are made from gamma-distributed numbers, relaxed distributions, and mixtures."""

import scipy.stats as st

from .row import Row

NAN = float("nan")
A, B = [0.5, 3.0], [2.0, 0.7]
SHARES = [[[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], [[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]]]
NO_SHARES = ([0.5, 0.6, 0.1], [-0.5, 1.0, 0.5], [0.5, 0.5], [NAN, 0.5, 0.5], 1.0)


def mixture(d, t):
    return d.MixtureSameFamily(d.Categorical(logits=t["logits"]), d.Normal(t["loc"], t["scale"]))


def mixture_of_vectors(d, t):
    return d.MixtureSameFamily(d.Categorical(t["probs"]), d.Independent(d.Normal(t["loc"], t["scale"]), 1))


ROWS = [
    Row(
        "Gamma", {"concentration": A, "rate": B}, [[0.1, 3.0], [2.0, 0.5]], noise=False,
        invalid=({"concentration": 0.0}, {"rate": [1.0, -1.0]}, {"rate": NAN}), outside=(-1.0, NAN),
        scipy=lambda p: st.gamma(p["concentration"], scale=1 / p["rate"]),
    ),
    Row(
        "Chi2", {"df": [0.5, 3.0]}, [[0.1, 3.0], [2.0, 0.5]], noise=False, invalid=({"df": 0.0},),
        outside=(-1.0, NAN), scipy=lambda p: st.chi2(p["df"]),
    ),
    Row(
        "InverseGamma", {"concentration": [0.5, 3.0, 1.5], "rate": [2.0, 0.7, 1.0]}, [[0.1, 3.0, 1.0]], noise=False,
        invalid=({"concentration": 0.0}, {"rate": -1.0}), outside=(-1.0, 0.0, NAN),
        scipy=lambda p: st.invgamma(p["concentration"], scale=p["rate"]),
    ),
    Row(
        "Beta", {"concentration1": [0.5, 3.0], "concentration0": B}, [[0.1, 0.5], [0.9, 0.3]], noise=False,
        invalid=({"concentration1": 0.0}, {"concentration0": [1.0, -1.0]}), outside=(-0.1, 1.1, NAN),
        scipy=lambda p: st.beta(p["concentration1"], p["concentration0"]),
    ),
    Row(
        "Beta", {"concentration1": [0.5, 1.0], "concentration0": [0.7, 1.0]}, [[0.1, 0.5], [0.3, 0.2]], noise=False,
        scipy=lambda p: st.beta(p["concentration1"], p["concentration0"]), label="Beta without a peak",
    ),
    Row(
        "Beta", {"concentration1": [0.5, 3.0], "concentration0": [2.0, 4.0]}, [[0.1, 0.5], [0.3, 0.2]], noise=False,
        scipy=lambda p: st.beta(p["concentration1"], p["concentration0"]), label="Beta with a peak at 0",
    ),
    Row(
        "Dirichlet", {"concentration": [[0.5, 3.0, 1.2], [2.0, 1.0, 4.0]]}, SHARES, noise=False,
        invalid=({"concentration": 1.0}, {"concentration": [0.0, 1.0]}), outside=NO_SHARES,
    ),
    Row(
        "Dirichlet", {"concentration": [[0.5, 0.9, 0.2], [1.0, 1.0, 0.4]]}, SHARES, noise=False,
        label="Dirichlet at corners",
    ),
    Row(
        "StudentT", {"df": [0.7, 1.5, 4.0], "loc": [0.5, -1.0, 0.0], "scale": 2.0}, [[0.1, 3.0, -1.0], [2.0, 0.5, 0.0]],
        invalid=({"df": 0.0}, {"scale": -1.0}, {"loc": NAN}), outside=(NAN,), noise=False,
        scipy=lambda p: st.t(p["df"], p["loc"], p["scale"]),
    ),
    Row(
        "FisherSnedecor", {"df1": [3.0, 5.0], "df2": [4.5, 10.0]}, [[0.1, 3.0], [2.0, 0.5]], noise=False,
        invalid=({"df1": 0.0}, {"df2": [1.0, -1.0]}), outside=(0.0, NAN), scipy=lambda p: st.f(p["df1"], p["df2"]),
    ),
    Row(
        "RelaxedBernoulli", {"temperature": 0.7, "probs": [0.3, 0.9]}, [[0.1, 0.5], [0.9, 0.3]],
        invalid=({"probs": 1.5},), outside=(-0.1, 1.1, NAN),
    ),
    Row(
        "RelaxedBernoulli", {"temperature": 2.0, "logits": [0.3, -1.0]}, [[0.1, 0.5], [0.9, 0.3]],
        invalid=({"logits": NAN},), label="RelaxedBernoulli by logits",
    ),
    Row(
        "RelaxedOneHotCategorical", {"temperature": 0.7, "probs": [[0.3, 0.9, 0.4], [0.1, 0.1, 0.2]]}, SHARES,
        invalid=({"probs": 1.5}, {"probs": [-1.0, 0.5]}), outside=NO_SHARES,
    ),
    Row(
        "RelaxedOneHotCategorical", {"temperature": 2.0, "logits": [[0.3, -0.9, 0.4], [0.1, 0.1, 0.2]]}, SHARES,
        invalid=({"logits": NAN}, {"logits": [NAN, 0.5]}), label="RelaxedOneHotCategorical by logits",
    ),
    Row(
        "MixtureSameFamily",
        {"logits": [0.3, -0.9], "loc": [[0.3, -3.0], [2.0, 5.0]], "scale": [[0.5, 2.0], [1.0, 0.3]]},
        [[0.1, 2.5], [-2.0, 5.0]], make=mixture, outside=(NAN,),
        invalid=({"logits": [0.1, 0.2, 0.3]}, {"logits": [[0.1, 0.2]] * 3}),
    ),
    Row(
        "MixtureSameFamily",
        {"probs": [0.3, 0.9], "loc": [[[0.3, -3.0, 1.0], [2.0, 5.0, 0.0]]],
         "scale": [[[0.5, 2.0, 1.0], [1.0, 0.3, 2.0]]]},
        [[[0.1, 2.5, 0.0]], [[-2.0, 5.0, 1.0]]], make=mixture_of_vectors, outside=([NAN, 0.0, 0.0],),
        label="MixtureSameFamily of vectors",
    ),
]  # fmt: skip
