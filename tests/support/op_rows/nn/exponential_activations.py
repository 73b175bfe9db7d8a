"""Rows of ops/nn/exponential_activations.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, nonzero, normal
from op_rows.nn.shared import HALVES, NO_FUNCTION, with_attributes
from scipy.special import expit

ALPHA = ({}, {"alpha": 2.5})
KINK = np.array([-1e3, 0.0, 1e3])
SCALE, NEGATIVE = 1.0507009873554805, 1.7580993408473766


def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)


def their_softplus_grad(torch, h, x, beta=1.0, threshold=20.0):
    return torch.where(x * beta > threshold, h, h * torch.sigmoid(x * beta))


UNKNOWN = Point(Sample(np.full(64, np.nan)), [np.nan])  # PyTorch's code for few elements gives 1

ROWS = [
    Row(
        "elu",
        samples=with_attributes(nonzero, *ALPHA),
        reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
        points=[Point(Sample(KINK), [[0, 1, 1]]), Point(Sample(KINK, alpha=2.0), [[0, 2, 1]]), UNKNOWN],
    ),
    Row(
        "celu",
        samples=with_attributes(nonzero, *ALPHA),
        reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        points=[Point(Sample(KINK, alpha=2.0), [[0, 1, 1]]), UNKNOWN],
        errors=[Error("alpha", lambda op, x: op(x(2), 0.0), RuntimeError, "alpha cannot be 0 for CELU")],
    ),
    Row(
        "elu_grad",
        samples=with_attributes(nonzero, *ALPHA, inputs=2),
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, x, alpha=1.0: torch.where(x > 0, h, h * alpha * torch.exp(x)),
        reference=lambda h, x, alpha=1.0: h * np.where(x > 0, 1, alpha * np.exp(x)),
    ),
    Row(
        "celu_grad",
        samples=with_attributes(nonzero, *ALPHA, inputs=2),
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, x, alpha=1.0: torch.where(x > 0, h, h * torch.exp(x / alpha)),
        reference=lambda h, x, alpha=1.0: h * np.where(x > 0, 1, np.exp(x / alpha)),
    ),
    Row(
        "selu",
        samples=with_attributes(nonzero, {}),
        reference=lambda x: np.where(x > 0, SCALE * x, NEGATIVE * np.expm1(x)),
        points=[Point(Sample(KINK), [[0, NEGATIVE, SCALE]]), UNKNOWN],
    ),
    Row(
        "softplus",
        samples=with_attributes(normal, {}, {"beta": 2.0, "threshold": 1.5}),
        tol=HALVES,
        reference=softplus,
    ),
    Row(
        "softplus_grad",
        samples=with_attributes(normal, {}, {"beta": 2.0, "threshold": 1.5}, inputs=2),
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=their_softplus_grad,
        reference=lambda h, x, beta=1.0, threshold=20.0: h * np.where(x * beta > threshold, 1, expit(x * beta)),
    ),
    Row(
        "logsigmoid",
        samples=with_attributes(normal, {}),
        reference=lambda x: -np.logaddexp(0, -x),
        points=[Point(Sample(KINK), [[1, 0.5, 0]])],
    ),
    Row(
        "mish",
        samples=with_attributes(normal, {}),
        tol=HALVES,
        reference=lambda x: x * np.tanh(softplus(x)),
        points=[Point(Sample(KINK), [[0, 0.6, 1]])],
    ),
]
