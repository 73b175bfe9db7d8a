"""Rows of ops/activation.py, ops/probability.py and ops/noise.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, binary, nonzero, normal, positive, unary, uniform
from scipy.special import erf, expit, log_softmax, softmax

import autograd_gpu as ag

GELU = np.sqrt(2 / np.pi)


def gelu(x, approximate="none"):
    return x * 0.5 * (1 + (erf(x / np.sqrt(2)) if approximate == "none" else np.tanh(GELU * (x + 0.044715 * x**3))))


def gelu_slope(x, approximate="none"):
    if approximate == "none":
        return 0.5 * (1 + erf(x / np.sqrt(2))) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    t = np.tanh(GELU * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU * (1 + 3 * 0.044715 * x * x)


def silu_slope(x):
    return expit(x) * (1 + x * (1 - expit(x)))


def with_attributes(domain, *attributes, inputs=1):
    """Samples of several shapes, a large one among them, for each set of attributes."""
    shapes = ((2, 3), (), (0,), (30, 40))
    return lambda rng: [
        Sample(*(domain(rng, *s) for _ in range(inputs)), **given) for given in attributes for s in shapes
    ]


KINK = np.array([-1.0, 0.0, 2.0])
ELU = ({}, {"alpha": 2.5})
SOFTPLUS = ({}, {"beta": 2.0, "threshold": 1.5})
APPROXIMATE = ({}, {"approximate": "tanh"})
WRONG = Error(
    "approximate",
    lambda op, x: op(*[x(2)] * (2 if "grad" in str(op) else 1), approximate="no"),
    RuntimeError,
    "approximate argument must be either none or tanh",
)
OUTPUTS = uniform(-0.9, 0.9)
PROBABILITIES = uniform(0.1, 0.9)
NO_FUNCTION = {"oracle_dtypes": "torch has no such function"}
HALVES = {"float16": 1e-2, "bfloat16": 6e-2}


def functional(name):
    return f"torch.nn.functional.{name}"


ELEMENTWISE = [
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
    Row(
        "leaky_relu",
        samples=with_attributes(nonzero, {}, {"negative_slope": 0.3}),
        torch=functional("leaky_relu"),
        reference=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
        points=[Point(Sample(KINK), [[0.01, 0.01, 1]])],
    ),
    Row(
        "elu",
        samples=with_attributes(nonzero, *ELU),
        torch=functional("elu"),
        reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
        points=[Point(Sample(KINK * 1e3), [[0, 1, 1]])],
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
    unary("silu", lambda x: x * expit(x), torch=functional("silu")),
    binary(
        "silu_grad",
        lambda h, x: h * silu_slope(x),
        numbers=False,
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, x: h * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
    ),
    Row(
        "gelu", samples=with_attributes(normal, *APPROXIMATE), reference=gelu, torch=functional("gelu"), errors=[WRONG]
    ),
    Row(
        "gelu_grad",
        samples=with_attributes(normal, *APPROXIMATE, inputs=2),
        tol=HALVES,
        torch=None,
        reference=lambda h, x, approximate="none": h * gelu_slope(x, approximate),
    ),
    Row(
        "softplus",
        samples=with_attributes(normal, *SOFTPLUS),
        torch=functional("softplus"),
        tol=HALVES,
        reference=lambda x, beta=1.0, threshold=20.0: np.where(
            x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta
        ),
    ),
]


# ---- softmax -------------------------------------------------------------------------------------------

SHAPES = (((2, 3), 0), ((2, 3), -1), ((2, 3, 4), 1), ((), 0), ((2, 0), 1), ((0, 3), 1))
NEGATIVE = (((2, 3), -2), ((2, 3), -1), ((2, 3, 4), -2), ((), -1), ((2, 0), -1), ((0, 3), -1))
RANGE = Error("range", lambda op, x: op(x(2, 3), dim=2), IndexError, "Dimension out of range")


def matrix(rng):
    return [Sample(normal(rng, 2, 3), dim=1)]


def on(function):
    """A SciPy function as a reference; 0-d tensors have one dimension, and SciPy takes no empty ones."""

    def reference(x, dim):
        return np.asarray(function(x.reshape(x.shape or 1), axis=dim).reshape(x.shape)) if x.size else x

    return reference


def total(x, dim):
    return np.sum(x, axis=dim, keepdims=True) if x.ndim else x


def softmax_grad(h, out, dim):
    return out * (h - total(h * out, dim))


def log_softmax_grad(h, out, dim):
    return h - np.exp(out) * total(h, dim)


def grad_samples(function):
    def samples(rng):
        return [Sample(normal(rng, *s), on(function)(normal(rng, *s), dim), dim=dim) for s, dim in NEGATIVE]

    return samples


SOFTMAX = [
    Row(
        "softmax",
        samples=lambda rng: [Sample(normal(rng, *s), dim=dim) for s, dim in SHAPES],
        reference=on(softmax),
        errors=[RANGE],
        integer_samples=matrix,
    ),
    Row(
        "log_softmax",
        samples=lambda rng: [Sample(normal(rng, *s), dim=dim) for s, dim in SHAPES],
        reference=on(log_softmax),
        errors=[RANGE],
        integer_samples=matrix,
    ),
    Row(
        "softmax_grad",
        samples=grad_samples(softmax),
        reference=softmax_grad,
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out, dim: out * (h - (h * out).sum(dim, keepdim=True)),
    ),
    Row(
        "log_softmax_grad",
        samples=grad_samples(log_softmax),
        reference=log_softmax_grad,
        tol=HALVES,
        skip=NO_FUNCTION,
        torch=lambda torch, h, out, dim: h - out.exp() * h.sum(dim, keepdim=True),
    ),
]


# ---- dropout -------------------------------------------------------------------------------------------


def seeded_dropout(x, p):
    ag.manual_seed(5)
    return ag.ops.noise.random_dropout(x, p)


def same_dropout(x, p):
    ag.manual_seed(5)
    mask = ag.backend.to_numpy(ag.random.bernoulli_mask(x.shape, 1 - p))
    return np.where(mask, x / (1 - p) if p < 1 else 0.0, 0.0)


NOISE = [
    Row(
        "random_dropout",
        fn=seeded_dropout,
        reference=same_dropout,
        torch=None,
        tol=HALVES,
        samples=lambda rng: [Sample(normal(rng, *s), p=p) for s in ((4, 5), (), (0, 2)) for p in (0.3, 1.0)],
    ),
]

ROWS = [*ELEMENTWISE, *SOFTMAX, *NOISE]
