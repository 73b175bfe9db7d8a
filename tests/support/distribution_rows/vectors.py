"""Multivariate normal distributions, and distributions made of others."""

import scipy.stats as st

from .row import Row

NAN = float("nan")
LOC = [[0.5, -1.0, 2.0], [0.0, 0.3, -0.2]]
COVARIANCE = [[2.0, 0.3, -0.5], [0.3, 1.0, 0.2], [-0.5, 0.2, 1.5]]
FACTOR = [[1.4, 0.0], [0.2, 0.9], [-0.3, 0.5]]
TRIANGLE = [[[1.4, 0.0, 0.0], [0.2, 0.9, 0.0], [-0.3, 0.5, 1.1]], [[0.5, 0.0, 0.0], [0.1, 2.0, 0.0], [0.4, 0.0, 0.3]]]
POINTS = [[[0.1, 0.2, 0.3], [-1.0, 0.0, 1.0]], [[0.0, -1.0, 1.0], [0.5, 0.5, 0.5]]]


def independent(d, t):
    return d.Independent(d.Normal(t["loc"], t["scale"]), 1)


def squashed(d, t):
    transforms = [d.SigmoidTransform(), d.AffineTransform(1.0, -2.0)]
    return d.TransformedDistribution(d.Normal(t["loc"], t["scale"]), transforms)


def logistic(d, t):
    """The logistic distribution, as PyTorch's documents build it."""
    transforms = [d.SigmoidTransform().inv, d.AffineTransform(loc=t["loc"], scale=t["scale"])]
    return d.TransformedDistribution(d.Uniform(t["low"], t["high"]), transforms)


def of_shares(d, t):
    return d.TransformedDistribution(d.Normal(t["loc"], t["scale"]), d.StickBreakingTransform())


def of_matrices(d, t):
    shape = d.ReshapeTransform((4,), (2, 2))
    return d.TransformedDistribution(d.Independent(d.Normal(t["loc"], t["scale"]), 1), [d.ExpTransform(), shape])


ROWS = [
    Row(
        "MultivariateNormal", {"loc": LOC, "covariance_matrix": COVARIANCE}, POINTS,
        invalid=({"covariance_matrix": [[1.0, 2.0], [2.0, 1.0]], "loc": [0.0, 0.0]},
                 {"covariance_matrix": [[1.0, 0.5], [0.0, 1.0]], "loc": [0.0, 0.0]},
                 {"loc": 0.0}, {"covariance_matrix": [1.0, 2.0, 3.0]}),
        outside=([NAN, 0.0, 0.0], [0.0, 0.0], [[[0.0, 0.0, 0.0]] * 3], 1.0), label="MultivariateNormal by covariance",
    ),
    Row(
        "MultivariateNormal", {"loc": LOC, "precision_matrix": COVARIANCE}, POINTS,
        invalid=({"precision_matrix": [[1.0, 2.0], [2.0, 1.0]], "loc": [0.0, 0.0]},
                 {"precision_matrix": [1.0, 2.0, 3.0]}),
        label="MultivariateNormal by precision",
    ),
    Row(
        "MultivariateNormal", {"loc": [0.5, -1.0, 2.0], "scale_tril": TRIANGLE}, POINTS,
        invalid=({"scale_tril": [[1.0, 2.0], [0.0, 1.0]], "loc": [0.0, 0.0]}, {"scale_tril": [1.0, 2.0, 3.0]},
                 {"scale_tril": [[-1.0, 0.0], [0.0, 1.0]], "loc": [0.0, 0.0]}),
        label="MultivariateNormal by factor",
    ),
    Row(
        "LowRankMultivariateNormal", {"loc": LOC, "cov_factor": FACTOR, "cov_diag": [0.5, 1.0, 2.0]}, POINTS,
        invalid=({"loc": 0.0}, {"cov_factor": [1.0, 2.0, 3.0]}, {"cov_factor": [[1.0], [2.0]]},
                 {"cov_diag": [1.0, 2.0]}, {"cov_diag": [[1.0, 1.0, 1.0]] * 3}),
        outside=([NAN, 0.0, 0.0], [0.0, 0.0], 1.0),
    ),
    Row(
        "LowRankMultivariateNormal", {"loc": LOC[0], "cov_factor": [FACTOR, FACTOR], "cov_diag": [0.5, 1.0, 2.0]},
        POINTS, label="LowRankMultivariateNormal with a batch of factors",
    ),
    Row(
        "LogisticNormal", {"loc": LOC, "scale": [1.0, 2.0, 0.5]}, [[[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.2, 0.3]]],
        invalid=({"scale": [1.0, 0.0, 1.0]},), outside=([[0.5, 0.2, 0.2, 0.2]], [0.5, 0.5]),
    ),
    Row("LogisticNormal", {"loc": 0.5, "scale": 2.0}, [[0.1, 0.9]], label="LogisticNormal of numbers"),
    Row(
        "Independent", {"loc": LOC, "scale": [1.0, 2.0, 0.5]}, POINTS, make=independent,
        invalid=({"loc": 0.0, "scale": 1.0},), outside=([NAN, 0.0, 0.0],),
    ),
    Row(
        "TransformedDistribution", {"loc": [0.5, -1.0], "scale": [0.3, 2.0]}, [[0.1, -0.5], [0.9, 0.5]], make=squashed,
        probabilities=((0.01, 0.3), (0.5, 0.9)), label="TransformedDistribution of numbers, decreasing",
    ),
    Row(
        "TransformedDistribution", {"low": 0.0, "high": 1.0, "loc": [0.5, -1.0], "scale": [0.3, 2.0]},
        [[0.1, -0.5], [0.9, 0.5]], make=logistic, scipy=lambda p: st.logistic(p["loc"], p["scale"]),
        label="TransformedDistribution of uniform numbers",
    ),
    Row(
        "TransformedDistribution", {"loc": LOC, "scale": [1.0, 2.0, 0.5]},
        [[[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.2, 0.3]]], make=of_shares, invalid=({"loc": 0.0, "scale": 1.0},),
        outside=([[0.5, 0.2, 0.2, 0.2]], [0.5, 0.5]), label="TransformedDistribution of vectors",
    ),
    Row(
        "TransformedDistribution", {"loc": [[0.1, 0.2, 0.3, 0.4]], "scale": [0.5]}, [[[[1.0, 0.5], [2.0, 0.3]]]],
        make=of_matrices, more=("kl",),  # ReshapeTransforms are compared by their shapes
        label="TransformedDistribution of matrices",
    ),
]  # fmt: skip
