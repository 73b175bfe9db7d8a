"""Distributions of integers and of one-hot vectors."""

import numpy as np
import scipy.stats as st

from .row import Row

NAN = float("nan")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normalized(weights):
    return weights / weights.sum(-1, keepdims=True)


WEIGHTS = [[0.1, 0.2, 0.7], [1.0, 2.0, 1.0]]
LOGITS = [[0.5, -1.0, 0.3], [0.0, 2.0, -0.5]]
VECTORS = [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]

ROWS = [
    Row(
        "Bernoulli", {"probs": [0.3, 0.9]}, [[1.0, 0.0], [0.0, 1.0]],
        invalid=({"probs": 1.5}, {"probs": [-0.1, 0.5]}, {"probs": NAN}), outside=(0.5, NAN, 2.0),
        scipy=lambda p: st.bernoulli(p["probs"]),
    ),
    Row(
        "Bernoulli", {"logits": [0.3, -2.0]}, [[1.0, 0.0], [0.0, 1.0]], invalid=({"logits": NAN},), outside=(0.5,),
        scipy=lambda p: st.bernoulli(sigmoid(p["logits"])), label="Bernoulli by logits",
    ),
    Row(
        "Geometric", {"probs": [0.3, 0.9]}, [[1.0, 0.0], [4.0, 1.0]],
        invalid=({"probs": 1.5}, {"probs": [0.0, 0.5]}), outside=(0.5, NAN, -1.0),
        scipy=lambda p: st.geom(p["probs"], loc=-1),
    ),
    Row(
        "Geometric", {"logits": [0.3, -2.0]}, [[1.0, 0.0], [4.0, 1.0]], invalid=({"logits": NAN},), outside=(-1.0,),
        scipy=lambda p: st.geom(sigmoid(p["logits"]), loc=-1), label="Geometric by logits",
    ),
    Row(
        "Poisson", {"rate": [0.3, 7.5]}, [[1.0, 0.0], [4.0, 11.0]], invalid=({"rate": -1.0}, {"rate": NAN}),
        outside=(0.5, NAN, -1.0), scipy=lambda p: st.poisson(p["rate"]),
    ),
    Row(
        "Binomial", {"total_count": 5, "probs": [0.3, 0.9]}, [[1.0, 0.0], [4.0, 5.0]],
        invalid=({"probs": 1.5}, {"total_count": -1}), outside=(0.5, NAN, 6.0, -1.0),
        scipy=lambda p: st.binom(p["total_count"], p["probs"]),
    ),
    Row(
        "Binomial", {"total_count": [4, 40], "logits": [0.3, -2.0]}, [[1.0, 0.0], [4.0, 15.0]],
        invalid=({"logits": NAN},), outside=([5.0, 0.0],),
        scipy=lambda p: st.binom(p["total_count"], sigmoid(p["logits"])), label="Binomial by logits",
    ),
    Row(
        "NegativeBinomial", {"total_count": [3.0, 0.5], "probs": [0.3, 0.8]}, [[1.0, 0.0], [4.0, 5.0]],
        invalid=({"probs": 1.0}, {"total_count": -1.0}), outside=(0.5, NAN, -1.0),
        scipy=lambda p: st.nbinom(p["total_count"], 1 - p["probs"]),
    ),
    Row(
        "NegativeBinomial", {"total_count": 4, "logits": [0.3, -2.0]}, [[1.0, 0.0], [4.0, 5.0]],
        invalid=({"logits": NAN},), outside=(-1.0,),
        scipy=lambda p: st.nbinom(p["total_count"], 1 - sigmoid(p["logits"])), label="NegativeBinomial by logits",
    ),
    Row(
        "Categorical", {"probs": WEIGHTS}, [[0, 1], [2, 0]], invalid=({"probs": 1.5}, {"probs": [-0.1, 0.5]}),
        outside=(3, -1, 0.5, [1, 3]), scipy=lambda p: st.rv_discrete(values=(range(3), normalized(p["probs"]))),
    ),
    Row(
        "Categorical", {"logits": LOGITS[0]}, [[0, 1], [2, 0]], invalid=({"logits": 1.5}, {"logits": [NAN, 0.5]}),
        outside=(3, NAN), scipy=lambda p: st.rv_discrete(values=(range(3), normalized(np.exp(p["logits"])))),
        label="Categorical by logits",
    ),
    Row(
        "OneHotCategorical", {"probs": WEIGHTS}, VECTORS, invalid=({"probs": 1.5}, {"probs": [-0.1, 0.5]}),
        outside=([0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0], 1.0, [1.0, 0.0]),
    ),
    Row(
        "OneHotCategorical", {"logits": LOGITS}, VECTORS, invalid=({"logits": [NAN, 0.5]},),
        label="OneHotCategorical by logits",
    ),
    Row("OneHotCategoricalStraightThrough", {"probs": normalized(np.array(WEIGHTS))}, VECTORS, noise=False),
    Row(
        "Multinomial", {"probs": WEIGHTS}, [[[1.0, 0.0, 4.0], [2.0, 2.0, 1.0]]], options={"total_count": 5},
        invalid=({"probs": 1.5}, {"probs": [-0.1, 0.5]}), outside=([2.0, 2.0, 2.0], [-1.0, 3.0, 2.0], [1.0, 4.0]),
        single=("entropy", "perplexity"),
    ),
    Row(
        "Multinomial", {"logits": LOGITS}, [[[1.0, 0.0, 1.0], [2.0, 0.0, 0.0]]], options={"total_count": 2},
        single=("entropy", "perplexity"), label="Multinomial by logits",
    ),
    Row(
        "MixtureSameFamily", {"probs": [[0.2, 0.8], [0.5, 0.5]], "rate": [[1.0, 9.0], [3.0, 0.5]]},
        [[0.0, 1.0], [9.0, 3.0]],
        make=lambda d, t: d.MixtureSameFamily(d.Categorical(t["probs"]), d.Poisson(t["rate"])),
        outside=(-1.0, 0.5), label="MixtureSameFamily of Poisson",
    ),
]  # fmt: skip
