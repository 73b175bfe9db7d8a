"""Rows of ops/nn/gelu.py."""

import numpy as np
from op_db import Error, Row, normal
from op_rows.nn.shared import HALVES, NO_FUNCTION, with_attributes
from scipy.special import erf

GELU = np.sqrt(2 / np.pi)


def gelu(x, approximate="none"):
    return x * 0.5 * (1 + (erf(x / np.sqrt(2)) if approximate == "none" else np.tanh(GELU * (x + 0.044715 * x**3))))


def gelu_slope(x, approximate="none"):
    if approximate == "none":
        return 0.5 * (1 + erf(x / np.sqrt(2))) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    t = np.tanh(GELU * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU * (1 + 3 * 0.044715 * x * x)


def their_gelu_grad(torch, h, x, approximate="none"):
    """Of gelu in terms of functions that PyTorch differentiates twice more."""

    def smooth(x):
        inner = GELU * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + (torch.erf(x / np.sqrt(2)) if approximate == "none" else torch.tanh(inner)))

    return torch.func.vjp(smooth, x)[1](h)[0]


APPROXIMATE = ({}, {"approximate": "tanh"})
WRONG = Error(
    "approximate",
    lambda op, x: op(*[x(2)] * (2 if "grad" in str(op) else 1), approximate="no"),
    RuntimeError,
    "approximate argument must be either none or tanh",
)

ROWS = [
    Row(
        "gelu", samples=with_attributes(normal, *APPROXIMATE), reference=gelu, errors=[WRONG]
    ),
    Row(
        "gelu_grad",
        samples=with_attributes(normal, *APPROXIMATE, inputs=2),
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=their_gelu_grad,
        reference=lambda h, x, approximate="none": h * gelu_slope(x, approximate),
    ),
]
