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
        "Categorical", {"probs": WEIGHTS}, [[0, 1], [2, 0]],
        invalid=({"probs": 1.5}, {"probs": [-0.1, 0.5]}), outside=(3, -1, 0.5),
        make=lambda d, t: d.Categorical(probs=t["probs"]), noise=False,
    ),
]  # fmt: skip
