"""Rows of ops/nn/linear_activation.py."""

import numpy as np
from op_db import Row, Sample, nonzero, normal, uniform
from scipy.special import erf, expit

SHAPES = ((3, 4), (2, 3, 2), (4,), (0, 3), (2, 0))
FLOATS = "linear_activation gives it floats of one dtype"
MATRIX = {"zero_dim": "it has columns", "integers": FLOATS, "oracle_dtypes": FLOATS}
CURVED = [("gelu", ("none",)), ("gelu", ("tanh",)), ("silu", ()), ("elu", (1.5,)), ("celu", (0.5,)),
          ("softplus", (2.0, 20.0)), ("sine", (3.0,))]  # fmt: skip
KINKED = [("leaky_relu", (0.1,))]
SATURATED = [("tanh", ()), ("sigmoid", ())]
VALUES = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "sigmoid": expit,
    "leaky_relu": lambda z, slope: np.where(z > 0, z, slope * z),
    "elu": lambda z, alpha: np.where(z > 0, z, alpha * np.expm1(z)),
    "celu": lambda z, alpha: np.where(z > 0, z, alpha * np.expm1(z / alpha)),
    "gelu": lambda z, kind: z / 2 * (1 + (erf(z / 2**0.5) if kind == "none" else np.tanh(inner(z)))),
    "silu": lambda z: z * expit(z),
    "softplus": lambda z, beta, threshold: np.log1p(np.exp(beta * z)) / beta,
    "sine": lambda z, frequency: np.sin(frequency * z),
}


def inner(z):
    return (2 / np.pi) ** 0.5 * (z + 0.044715 * z**3)


def theirs(torch, activation, parameters):
    """The activation in PyTorch."""
    if activation == "sine":
        return lambda z: torch.sin(parameters[0] * z)
    function = getattr(torch.nn.functional, activation)
    return lambda z: function(z, approximate=parameters[0]) if activation == "gelu" else function(z, *parameters)


def value(z, bias, activation, parameters=()):
    return VALUES[activation](z + bias, *parameters)


def their_value(torch, z, bias, activation, parameters=()):
    return theirs(torch, activation, parameters)(z + bias)


def samples(*cases, apart=False):
    """z and bias; `apart` keeps their sum away from a kink at 0."""
    small = uniform(-0.1, 0.1)
    return lambda rng: [
        Sample((nonzero if apart else normal)(rng, *shape), (small if apart else normal)(rng, shape[-1]),
               activation=activation, parameters=parameters)
        for activation, parameters in cases for shape in SHAPES
    ]  # fmt: skip


def sums(dz):
    return dz, dz.reshape(-1, dz.shape[-1]).sum(0) if dz.size else np.zeros(dz.shape[-1])


def slope(saved, activation, parameters):
    """act' from what is saved: by its formula of the result, else by a symmetric difference."""
    if activation in ("relu", "tanh", "sigmoid"):
        return {"relu": saved > 0, "tanh": 1 - saved**2, "sigmoid": saved * (1 - saved)}[activation]
    f, step = VALUES[activation], 1e-3  # fourth order: to 1e-12
    near = f(saved + step, *parameters) - f(saved - step, *parameters)
    far = f(saved + 2 * step, *parameters) - f(saved - 2 * step, *parameters)
    return (8 * near - far) / (12 * step)


def gradients(h, saved, bias=None, activation="", parameters=()):
    return sums(h * slope(saved if bias is None else saved + bias, activation, parameters))


def their_gradients(torch, h, saved, bias=None, activation="", parameters=()):
    if activation in ("relu", "tanh", "sigmoid"):
        slopes = {"relu": saved > 0, "tanh": 1 - saved**2, "sigmoid": saved * (1 - saved)}
        dz = h * slopes[activation]
    else:
        z, f = saved + bias, theirs(torch, activation, parameters)
        with torch.enable_grad():
            z = z if z.requires_grad else z.requires_grad_()
            (dz,) = torch.autograd.grad(f(z), z, h, create_graph=True)
    return dz, dz.sum_to_size(dz.shape[-1:])


def with_gradient(make):
    return lambda rng: [Sample(normal(rng, *s.args[0].shape), *s.args, **s.kwargs) for s in make(rng)]


def by_result(*cases, domain):
    return lambda rng: [
        Sample(normal(rng, *shape), domain(rng, *shape), None, activation=activation, parameters=parameters)
        for activation, parameters in cases for shape in SHAPES
    ]  # fmt: skip


def both(*makes):
    return lambda rng: [sample for make in makes for sample in make(rng)]


HALVES = {"float16": 2e-2, "bfloat16": 0.15}

ROWS = [
    Row(
        "bias_activation",
        samples=both(samples(*SATURATED), samples(("relu", ()), apart=True)),
        reference=value,
        torch=their_value,
        skip=MATRIX,
    ),
    Row(
        "bias_activation_by_sum",
        samples=both(samples(*CURVED), samples(*KINKED, apart=True)),
        reference=value,
        torch=their_value,
        tol=HALVES,
        skip=MATRIX,
    ),
    Row(
        "piecewise_linear_grad",
        samples=both(with_gradient(samples(*KINKED, apart=True)), by_result(("relu", ()), domain=nonzero)),
        reference=gradients,
        torch=their_gradients,
        tol=HALVES,
        skip=MATRIX,
    ),
    Row(
        "smooth_grad",
        samples=both(with_gradient(samples(*CURVED)), by_result(*SATURATED, domain=uniform(0.1, 0.9))),
        reference=gradients,
        torch=their_gradients,
        tol=HALVES,
        skip=MATRIX,
    ),
]
