"""Rows of ops/jets.py."""

import numpy as np
from op_db import Error, Row, Sample, normal, uniform

from .nn.linear_activation import CURVED, FLOATS, KINKED, slope, theirs

FULL = (((0, 0),), ((0, 1),), ((1, 1),))
DIAGONAL = (((0, 0),), ((1, 1),))
LAPLACIAN = (((0, 0), (1, 1)),)
ONE = (((0, 0),),)
MIXED = (((0, 2), (1, 1)), ((2, 0),))  # of three tangents: no form that a kernel knows
STREAM = {"zero_dim": "it has a dimension for the elements", "integers": FLOATS, "oracle_dtypes": FLOATS}
# Leading dimensions of values and stream, h, number of tangents, groups, whether second tangents are given.
CASES = [
    ((3,), (3,), 4, 2, FULL, True), ((2, 3), (2, 3), 2, 2, DIAGONAL, True), ((), (), 3, 2, LAPLACIAN, True),
    ((4,), (), 3, 2, FULL, False), ((3,), (1,), 2, 1, ONE, True), ((2,), (3, 1), 2, 2, LAPLACIAN, False),
    ((), (3,), 2, 2, FULL, True), ((2,), (2,), 3, 3, MIXED, True), ((0,), (0,), 3, 2, FULL, True),
    ((2,), (), 0, 2, FULL, True),
]  # fmt: skip


def stream(rng, lead, h, d, groups, seconds):
    return normal(rng, *lead, d + len(groups) * seconds, h)


def chains(rng):
    return [
        Sample(normal(rng, *values, h), normal(rng, *values, h), stream(rng, lead, h, d, *rest), d=d, groups=rest[0])
        for values, lead, h, d, *rest in CASES
    ] + [Sample(normal(rng, 3), normal(rng, 2, 3), normal(rng, 2, 3), d=1, groups=ONE)]


def pushed(stack, f1, f2, stream, d, groups):
    """The stream behind a function with the derivatives f1 and f2; `stack` is NumPy's or PyTorch's."""
    t = [stream[..., i, :] for i in range(d)]
    carried = [stream[..., k, :] for k in range(d, stream.shape[-2])] or [0.0] * len(groups)
    seconds = [f1 * s + f2 * sum(t[i] * t[j] for i, j in group) for s, group in zip(carried, groups, strict=True)]
    return stack([f1 * tangent + 0.0 * f2 for tangent in t] + seconds, -2)


def their_stack(torch):
    return lambda parts, dim: torch.stack(torch.broadcast_tensors(*parts), dim)


def our_stack(parts, axis):
    return np.stack(np.broadcast_arrays(*parts), axis)


# ---- activation_jet --------------------------------------------------------------------------------------

RESULTS = {  # act' and act'' from the result
    "relu": lambda s: ((s > 0) * 1.0, (s > 0) * 0.0),
    "tanh": lambda s: (1 - s**2, -2 * s * (1 - s**2)),
    "sigmoid": lambda s: (s * (1 - s), s * (1 - s) * (1 - 2 * s)),
}


def jet_samples(rng):
    samples = []
    domain = uniform(0.1, 0.9)
    for n, (values, lead, h, d, *rest) in enumerate(CASES):
        shifted = [CURVED[n % len(CURVED)], CURVED[(n + 3) % len(CURVED)], *KINKED]
        for activation, parameters in shifted:
            bias = normal(rng, h) if n % 3 else None
            attributes = {"activation": activation, "parameters": parameters, "d": d, "groups": rest[0]}
            z = np.abs(normal(rng, *values, h)) + 0.5 if activation == "leaky_relu" else normal(rng, *values, h)
            bias = np.abs(bias) if bias is not None and activation == "leaky_relu" else bias
            samples.append(Sample(z, stream(rng, lead, h, d, *rest), bias, **attributes))
        for activation in ("tanh", "sigmoid", "relu"):
            attributes = {"activation": activation, "d": d, "groups": rest[0]}
            samples.append(Sample(domain(rng, *values, h), stream(rng, lead, h, d, *rest), None, **attributes))
    return samples


def derivatives(saved, activation, parameters):
    """act' and act'', by differences of fourth order where it takes z."""
    if activation in RESULTS:
        return RESULTS[activation](saved)
    step = 3e-3
    at = [slope(saved + k * step, activation, parameters) for k in (-2, -1, 1, 2)]
    return slope(saved, activation, parameters), (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * step)


def jet(saved, stream, bias, activation, d, groups, parameters=()):
    saved = saved if bias is None else saved + bias
    return pushed(our_stack, *derivatives(saved, activation, parameters), stream, d, groups)


def their_jet(torch, saved, stream, bias, activation, d, groups, parameters=()):
    if activation in RESULTS:
        return pushed(their_stack(torch), *RESULTS[activation](saved), stream, d, groups)
    z = saved if bias is None else saved + bias
    with torch.enable_grad():
        z = z if z.requires_grad else z.detach().requires_grad_()
        (f1,) = torch.autograd.grad(theirs(torch, activation, parameters)(z).sum(), z, create_graph=True)
        if activation == "leaky_relu":
            f1, f2 = f1.detach(), torch.zeros_like(f1)
        else:
            (f2,) = torch.autograd.grad(f1.sum(), z, create_graph=True)
    return pushed(their_stack(torch), f1, f2, stream, d, groups)


# ---- local_terms ---------------------------------------------------------------------------------------


def locals_(rng):
    cases = [
        ((3,), (3,), (3,), 2, 3, 4), ((2, 3), (2, 3), (), 1, 2, 3), ((), (), (), 2, 1, 3), ((1,), (3,), (3,), 1, 2, 2),
        ((3,), (), (2, 1), 2, 2, 3), ((0,), (0,), (), 2, 2, 3), ((2,), (2,), (2,), 2, 2, 0),
    ]  # fmt: skip
    return [
        Sample(normal(rng, *a, o, h), normal(rng, *f2, h), normal(rng, *t, d, h)) for a, f2, t, o, d, h in cases
    ]


def local(a, f2, t):
    return np.einsum("...oh,...h,...ih,...jh->...oij", a, f2, t, t)


def their_local(torch, a, f2, t):
    return torch.einsum("...oh,...h,...ih,...jh->...oij", a, f2, t, t)


HALVES = {"float16": 2e-2, "bfloat16": 0.15}

ROWS = [
    Row(
        "chain_stream",
        samples=chains,
        reference=lambda f1, f2, stream, d, groups: pushed(our_stack, f1, f2, stream, d, groups),
        torch=lambda torch, f1, f2, stream, d, groups: pushed(their_stack(torch), f1, f2, stream, d, groups),
        tol=HALVES,
        skip=STREAM,
        errors=[
            Error("no dimension", lambda op, x: op(x(), x(), x(1, 1), d=1, groups=ONE), RuntimeError, "reshape"),
            Error("h", lambda op, x: op(x(3), x(3), x(1, 2), d=1, groups=ONE), RuntimeError, "last sizes"),
            Error("size", lambda op, x: op(x(3), x(3), x(3, 3), d=1, groups=ONE), RuntimeError, "has size 2, or 1"),
            Error("groups", lambda op, x: op(x(3), x(3), x(3, 3), d=1, groups=FULL), RuntimeError, "0 to d - 1"),
            Error("rows", lambda op, x: op(x(2, 3), x(3, 3), x(2, 3), d=1, groups=ONE), RuntimeError, "not broadcast"),
        ],
    ),
    Row(
        "activation_jet",
        samples=jet_samples,
        reference=jet,
        torch=their_jet,
        tol={**HALVES, "float64": 1e-7},
        skip=STREAM,
        errors=[
            Error("bias", lambda op, x: op(x(3), x(2, 3), x(3), activation="tanh", d=1, groups=ONE), RuntimeError,
                  "bias must be None"),
            Error("bias", lambda op, x: op(x(3), x(2, 3), x(1), activation="silu", d=1, groups=ONE), RuntimeError,
                  r"of shape \(3,\)"),
        ],
    ),
    Row(
        "local_terms",
        samples=locals_,
        reference=local,
        torch=their_local,
        tol=HALVES,
        skip=STREAM,
        errors=[Error("h", lambda op, x: op(x(1, 2), x(3), x(1, 3)), RuntimeError, "local_terms needs")],
    ),
]
