"""Rows of ops/nn/activation.py, ops/nn/glu.py, ops/nn/softmax.py and ops/nn/dropout.py."""

import numpy as np
from op_db import Error, Point, Row, Sample, binary, nonzero, normal, positive, unary, uniform
from scipy.special import erf, expit, log_softmax, softmax

import autograd_gpu as ag
from autograd_gpu.backend.kernels import Mask, mask_reference

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


def silu_slope(x):
    return expit(x) * (1 + x * (1 - expit(x)))


def gated(x, dim=-1):
    a, b = np.split(x, 2, dim)
    return a * expit(b)


def with_attributes(domain, *attributes, inputs=1):
    """Samples of several shapes, a large one among them, for each set of attributes."""
    shapes = ((2, 3), (), (0,), (30, 40))
    return lambda rng: [
        Sample(*(domain(rng, *s) for _ in range(inputs)), **given) for given in attributes for s in shapes
    ]


KINK = np.array([-1.0, 0.0, 2.0])
GLU = (((4,), -1), ((2, 6), 1), ((4, 3), 0), ((2, 4, 3), -2), ((0, 4), 1), ((2, 3, 100), -1))
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
        skip=NO_FUNCTION,
        torch=their_gelu_grad,
        reference=lambda h, x, approximate="none": h * gelu_slope(x, approximate),
    ),
    unary("softsign", lambda x: x / (1 + np.abs(x)), nonzero, torch=functional("softsign")),
    unary("tanhshrink", lambda x: x - np.tanh(x), torch=functional("tanhshrink"), tol=HALVES),
    Row(
        "glu",
        samples=lambda rng: [Sample(normal(rng, *s), dim=d) for s, d in GLU],
        reference=gated,
        torch=functional("glu"),
        tol=HALVES,
        skip={"zero_dim": "it has no halves"},
        errors=[
            Error("odd", lambda op, x: op(x(2, 3)), RuntimeError, "Halving dimension must be even, but dimension 1"),
            Error("0-d", lambda op, x: op(x()), RuntimeError, "glu does not support 0-dimensional tensors"),
            Error("range", lambda op, x: op(x(2, 4), 2), IndexError, "Dimension out of range"),
        ],
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
        "safe_softmax",
        samples=lambda rng: [Sample(normal(rng, *s), dim=dim) for s, dim in SHAPES[:-1] if s],
        reference=on(softmax),
        torch="torch.softmax",
        integer_samples=matrix,
        skip={"zero_dim": "attention has at least two dimensions"},
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


LOWEST = -1.7580993408473766  # the limit of selu


def seeded(name):
    """The op after a fixed seed, so that it draws the same numbers at every call."""

    def call(x, **attributes):
        ag.manual_seed(5)
        return getattr(ag.ops.nn.dropout, name)(x, **attributes)

    return call


def same_mask(x, p, channels=False):
    ag.manual_seed(5)
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if channels else x.shape
    return ag.backend.to_numpy(ag.random.bernoulli_mask(shape, 1 - p))


def same_dropout(x, p, channels=False):
    return np.where(same_mask(x, p, channels), x / (1 - p) if p < 1 else 0.0, 0.0)


def same_alpha_dropout(x, p, channels=False):
    kept = np.where(same_mask(x, p, channels), x, LOWEST)
    return (kept - LOWEST * p) / np.sqrt((LOWEST**2 * p + 1) * (1 - p)) if p < 1 else x * 0


def same_slopes(shape, lower=1 / 8, upper=1 / 3):
    ag.manual_seed(5)
    return ag.random.uniform(shape, np.float32, None, lower, upper).numpy(force=True)


def same_rrelu(x, **bounds):
    return np.where(x > 0, x, x * same_slopes(x.shape, **bounds))


# PyTorch's arithmetic with the numbers that we draw.


def their_dropout(torch, x, p, channels=False):
    return x * torch.tensor(same_mask(x, p, channels)) / (1 - p) if p < 1 else x * 0


def their_alpha_dropout(torch, x, p, channels=False):
    kept = torch.where(torch.tensor(same_mask(x, p, channels)), x, LOWEST)
    return (kept - LOWEST * p) / np.sqrt((LOWEST**2 * p + 1) * (1 - p)) if p < 1 else x * 0


def their_rrelu(torch, x, **bounds):
    return torch.where(x > 0, x, x * torch.tensor(same_slopes(x.shape, **bounds)).to(x.dtype))


def drops(rng):
    whole = [Sample(normal(rng, *s), p=p) for s in ((4, 5), (), (0, 2)) for p in (0.3, 1.0)]
    return [*whole, *(Sample(normal(rng, *s), p=0.4, channels=True) for s in ((4, 5), (2, 3, 4), (2, 3, 2, 2)))]


def masks(rng):
    """Bits for elements, for channels, and fewer than the tensor has elements."""
    several = [((4, 5), 20, 1), ((), 1, 1), ((0, 2), 0, 1), ((2, 3, 4), 6, 4), ((3, 2, 5), 10, 1), ((2, 3, 2, 2), 3, 4)]
    return [Sample(normal(rng, *s), mask=Mask(7, 3, 0.6, *bits), scale=1.5) for s, *bits in several]


def same_bits(x, mask):
    return np.resize(np.repeat(mask_reference(mask), mask.each), x.shape)


DRAWN = {**NO_FUNCTION, "batch": "each example draws its own numbers, see test_batched_shapes"}
NOISE = [
    Row(
        "masked_scale",
        reference=lambda x, mask, scale: np.where(same_bits(x, mask), x * scale, 0.0),
        torch=lambda torch, x, mask, scale: x * torch.tensor(same_bits(x, mask)) * scale,
        skip=NO_FUNCTION,
        tol=HALVES,
        samples=masks,
    ),
    Row(
        "random_dropout",
        fn=seeded("random_dropout"),
        reference=same_dropout,
        torch=their_dropout,
        skip=DRAWN,
        tol=HALVES,
        samples=drops,
    ),
    Row(
        "random_alpha_dropout",
        fn=seeded("random_alpha_dropout"),
        reference=same_alpha_dropout,
        torch=their_alpha_dropout,
        skip=DRAWN,
        tol=HALVES,
        samples=drops,
    ),
    Row(
        "random_rrelu",
        fn=seeded("random_rrelu"),
        reference=same_rrelu,
        torch=their_rrelu,
        skip=DRAWN,
        tol={"float16": 2e-2, "bfloat16": 0.1},
        samples=with_attributes(nonzero, {}, {"lower": 0.5, "upper": 0.9}),
        errors=[Error("bounds", lambda op, x: op(x(2), lower=0.5, upper=0.1), RuntimeError, "Lower bound should be")],
    ),
]

ROWS = [*ELEMENTWISE, *SOFTMAX, *NOISE]
