"""Distributions of matrices."""

from .row import Row

NAN = float("nan")
COVARIANCE = [[2.0, 0.3, -0.5], [0.3, 1.0, 0.2], [-0.5, 0.2, 1.5]]
TRIANGLE = [[1.4, 0.0, 0.0], [0.2, 0.9, 0.0], [-0.3, 0.5, 1.1]]
CORRELATIONS = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.6, 0.64]]
NO_MATRICES = ([[NAN, 0.0, 0.0]] * 3, [[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def lkj(d, t):
    return d.LKJCholesky(3, t["concentration"])


ROWS = [
    Row(
        "LKJCholesky", {"concentration": [0.7, 1.0, 3.0]}, [[CORRELATIONS] * 3], make=lkj, noise=False,
        outside=(*NO_MATRICES, TRIANGLE),
    ),
    Row(
        "Wishart", {"df": 4.5, "covariance_matrix": COVARIANCE}, [COVARIANCE], noise=False,
        invalid=({"df": 2.0}, {"covariance_matrix": [1.0, 2.0]}, {"covariance_matrix": [[1.0, 2.0], [2.0, 1.0]]}),
        outside=NO_MATRICES, differs=("kl",), label="Wishart by covariance",
    ),
    Row(
        "Wishart", {"df": 5.0, "precision_matrix": COVARIANCE}, [COVARIANCE], noise=False, differs=("kl",),
        label="Wishart by precision",
    ),
    Row(
        "Wishart", {"df": [3.5, 7.0], "covariance_matrix": COVARIANCE}, [[COVARIANCE, COVARIANCE]], noise=False,
        label="Wishart with a batch of df", differs=("kl",),
    ),
]  # fmt: skip
