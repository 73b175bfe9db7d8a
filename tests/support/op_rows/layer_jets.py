"""Rows of ops/layer_jets.py."""

import numpy as np
from op_db import Error, Row, Sample, normal, uniform

from .jets import DIAGONAL, FULL, HALVES, LAPLACIAN, ONE, derivatives, jet, local, their_jet
from .nn.linear_activation import FLOATS, theirs

SKIP = {"zero_dim": "it has a dimension for the elements", "integers": FLOATS, "oracle_dtypes": FLOATS}
SMOOTH = [("silu", ()), ("gelu", ("tanh",)), ("softplus", (1.0, 20.0)), ("sine", (2.0,))]
# Leading dimensions, whether all have the same stream, k, h, number of tangents, groups, whether they have seconds.
LAYERS = [
    ((3,), False, 2, 4, 2, FULL, True), ((2, 3), False, 3, 2, 2, DIAGONAL, True), ((4,), True, 3, 2, 2, FULL, False),
    ((3,), False, 1, 3, 1, ONE, False), ((2,), True, 2, 2, 2, LAPLACIAN, True), ((0,), False, 2, 3, 2, FULL, True),
    ((), False, 2, 3, 2, LAPLACIAN, True),
]  # fmt: skip


def cases(rng, h, lead, n):
    """Saved values, a bias and an activation: one that saves its result, and one that saves its input."""
    activation, parameters = SMOOTH[n % len(SMOOTH)]
    for_results = uniform(0.1, 0.9)(rng, *lead, h), None, {"activation": ("tanh", "sigmoid")[n % 2]}
    bias = normal(rng, h) if n % 3 else None
    return for_results, (normal(rng, *lead, h), bias, {"activation": activation, "parameters": parameters})


def layers(rng):
    return [
        Sample(saved, normal(rng, d + len(groups) * seconds, *(1,) * len(lead) if shared else lead, k),
               normal(rng, h, k), bias, **how, d=d, groups=groups)
        for n, (lead, shared, k, h, d, groups, seconds) in enumerate(LAYERS)
        for saved, bias, how in cases(rng, h, lead, n)
    ]  # fmt: skip


def layer(saved, stream, weight, bias, **how):
    before = stream @ weight.T
    return before, np.moveaxis(jet(saved, np.moveaxis(before, 0, -2), bias, **how), -2, 0)


def their_layer(torch, saved, stream, weight, bias, **how):
    before = stream @ weight.T
    return before, their_jet(torch, saved, before.movedim(0, -2), bias, **how).movedim(-2, 0)


def linear(rng):
    return [Sample(normal(rng, *shape, k), normal(rng, h, k))
            for shape, k, h in [((2, 3), 2, 4), ((3, 2, 3), 3, 2), ((2, 0), 2, 3), ((1,), 2, 3)]]


# ---- layer_terms ---------------------------------------------------------------------------------------


# Leading dimensions, whether all have the same adjoints, and tangents; o, k, h, d.
TERMS = [
    ((3,), False, False, 2, 2, 3, 2), ((2, 3), False, True, 1, 3, 2, 2), ((3,), True, False, 1, 2, 2, 3),
    ((2,), True, True, 2, 1, 3, 1), ((0,), False, False, 1, 2, 3, 2), ((), False, False, 1, 2, 3, 2),
]  # fmt: skip


def terms(rng):
    samples = []
    for n, (lead, shared, shared_tangents, o, k, h, d) in enumerate(TERMS):
        ones = (1,) * len(lead)
        for saved, bias, how in cases(rng, h, lead, n):
            adjoint = normal(rng, o, *(ones if shared else lead), k)
            tangents = normal(rng, d, *(ones if shared_tangents else lead), h)
            samples.append(Sample(adjoint, normal(rng, k, h), saved, tangents, bias, **how))
    return samples


def pulled(adjoint, weight, saved, tangents, bias, activation, parameters=()):
    f1, f2 = derivatives(saved if bias is None else saved + bias, activation, parameters)
    a = adjoint @ weight
    return a, a * f1, local(np.moveaxis(a, 0, -2), f2, np.moveaxis(tangents, 0, -2))


def their_terms(torch, adjoint, weight, saved, tangents, bias, activation, parameters=()):
    a = adjoint @ weight
    if activation in ("tanh", "sigmoid"):
        f1 = 1 - saved**2 if activation == "tanh" else saved * (1 - saved)
        f2 = f1 * (-2 * saved if activation == "tanh" else 1 - 2 * saved)
    else:
        z = saved if bias is None else saved + bias
        with torch.enable_grad():
            z = z if z.requires_grad else z.detach().requires_grad_()
            (f1,) = torch.autograd.grad(theirs(torch, activation, parameters)(z).sum(), z, create_graph=True)
            (f2,) = torch.autograd.grad(f1.sum(), z, create_graph=True)
    t = tangents.movedim(0, -2)
    return a, a * f1, torch.einsum("...oh,...h,...ih,...jh->...oij", a.movedim(0, -2), f2, t, t)


ROWS = [
    Row(
        "layer_jet",
        samples=layers,
        reference=layer,
        torch=their_layer,
        tol={**HALVES, "float64": 1e-7},
        skip=SKIP,
        errors=[
            Error("weight", lambda op, x: op(x(2, 3), x(1, 2, 4), x(3, 5), activation="tanh", d=1, groups=()),
                  RuntimeError, "layer_jet needs saved"),
            Error("rows", lambda op, x: op(x(2, 3), x(3, 2, 4), x(3, 4), activation="tanh", d=1, groups=ONE),
                  RuntimeError, "of 1 or 2 rows"),
            Error("lead", lambda op, x: op(x(2, 3), x(1, 3, 4), x(3, 4), activation="tanh", d=1, groups=ONE),
                  RuntimeError, "leading dimensions"),
        ],
    ),
    Row(
        "layer_linear",
        samples=linear,
        reference=lambda stream, weight: stream @ weight.T,
        torch=lambda torch, stream, weight: torch.nn.functional.linear(stream, weight),
        tol=HALVES,
        skip=SKIP,
        errors=[
            Error("weight", lambda op, x: op(x(2, 3, 4), x(3, 5)), RuntimeError, "layer_linear needs a stream"),
        ],
    ),
    Row(
        "layer_terms",
        samples=terms,
        reference=pulled,
        torch=their_terms,
        tol={**HALVES, "float64": 1e-7},
        skip=SKIP,
        errors=[
            Error("weight", lambda op, x: op(x(1, 2, 4), x(3, 3), x(2, 3), x(2, 2, 3), activation="tanh"),
                  RuntimeError, "layer_terms needs adjoints"),
            Error("bends", lambda op, x: op(x(1, 2, 4), x(4, 3), x(2, 3), x(2, 2, 3), activation="relu"),
                  RuntimeError, "no second derivative"),
        ],
    ),
]  # fmt: skip
