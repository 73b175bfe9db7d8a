"""Rows of ops/nn/activation.py."""

import numpy as np
from op_db import Point, Sample, binary, nonzero, normal, positive, unary, uniform
from op_rows.nn.shared import HALVES, NO_FUNCTION
from scipy.special import expit


def silu_slope(x):
    return expit(x) * (1 + x * (1 - expit(x)))


KINK = np.array([-1.0, 0.0, 2.0])
OUTPUTS = uniform(-0.9, 0.9)
PROBABILITIES = uniform(0.1, 0.9)

ROWS = [
    unary("relu", lambda x: np.maximum(x, 0), nonzero, points=[Point(Sample(KINK), [[0, 0, 1]])]),
    binary(
        "relu_grad",
        lambda h, out: h * (out > 0),
        normal,
        positive,
        numbers=False,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out: torch.where(out > 0, h, 0.0),
    ),
    unary("sigmoid", expit, points=[Point(Sample(np.array([-1e3, 1e3])), [0.0])]),
    binary(
        "sigmoid_grad",
        lambda h, out: h * out * (1 - out),
        normal,
        PROBABILITIES,
        numbers=False,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out: h * out * (1 - out),
    ),
    unary("tanh", np.tanh),
    binary(
        "tanh_grad",
        lambda h, out: h * (1 - out * out),
        normal,
        OUTPUTS,
        numbers=False,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out: h * (1 - out * out),
    ),
    unary("silu", lambda x: x * expit(x)),
    binary(
        "silu_grad",
        lambda h, x: h * silu_slope(x),
        numbers=False,
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, x: h * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
    ),
    unary("sine", np.sin, skip=NO_FUNCTION, torch=lambda torch, x: torch.sin(x)),
    unary("softsign", lambda x: x / (1 + np.abs(x)), nonzero),
]
