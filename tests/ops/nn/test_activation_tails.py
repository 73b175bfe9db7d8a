"""Activations made of a sigmoid or a normal distribution, far from 0: relative errors of values and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from op_db import values
from scipy import special

import autograd_gpu as ag
from autograd_gpu.autograd import grad
from autograd_gpu.nn import functional as F

FAR = np.array([-86.0, -60, -40, -30.0, -25.0, -20.0, -17.0, -15.0, -12.0, -10.5, -9.0, -7.0, -5.0, -3.0, -1.7, -0.99])
POINTS = np.concatenate([FAR, [-0.3, -1e-2, -1e-4, 1e-4, 1e-2, 0.3, 1.0, 2.0, 5.0, 10.0, 17.0, 25.0, 40.0, 80.0]])
TOLERANCES = {"float32": 5e-6, "float64": 3e-13}  # relative
SCALE, CUBIC = np.sqrt(8 / np.pi), 0.044715


def sigmoids(x):
    return special.expit(x), special.expit(-x)


def silu(x):
    s, rest = sigmoids(x)
    return x * s, s * (1 + x * rest), s * rest * (2 + x * (rest - s))


def gelu(x):
    below, density = special.ndtr(x), np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return x * below, below + x * density, density * (2 - x * x)


def gelu_tanh(x):
    u, du = SCALE * (x + CUBIC * x**3), SCALE * (1 + 3 * CUBIC * x * x)
    s, rest = sigmoids(u)
    bend = s * rest * (2 * du + x * (SCALE * 6 * CUBIC * x + (rest - s) * du * du))
    return x * s, s * (1 + x * rest * du), bend


def mish(x):
    """With t = tanh(log(1 + exp(x))): t' = (1 - t * t) * sigmoid(x)."""
    e = np.exp(x)
    t = e * (e + 2) / (e * (e + 2) + 2)
    left = 4 * (1 + e) ** 2 / (1 + (1 + e) ** 2) ** 2  # 1 - t * t
    return x * t, t + x * special.expit(x) * left


def logsigmoid(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-abs(x))), special.expit(-x)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), special.expit(x), special.expit(x) * special.expit(-x)


def by_tanh(x):
    return F.gelu(x, approximate="tanh")


EXACT = [(F.silu, silu), (F.gelu, gelu), (by_tanh, gelu_tanh), (F.mish, mish), (F.logsigmoid, logsigmoid)]
CASES = [*EXACT, (lambda x: F.softplus(x, threshold=np.inf), softplus), (ag.sigmoid, lambda x: (special.expit(x),)),
         (lambda x: ag.logaddexp(x, ag.zeros_like(x)), softplus)]


def check(actual, expected, dtype, what):
    """Where the dtype holds the exact value with all its digits."""
    normal = np.abs(expected) > 4 * np.finfo(dtype).tiny
    np.testing.assert_allclose(actual[normal], expected[normal], rtol=TOLERANCES[dtype], atol=0, err_msg=what)


@pytest.mark.parametrize("many", [1, 40])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("function", "reference"), CASES, ids=[reference.__name__ for _, reference in CASES])
def test_relative_errors(function, reference, dtype, many, device):
    """Of few elements, and of as many as are computed in another way."""
    points = np.tile(POINTS.astype(dtype), many)
    x = ag.tensor(points, device=device, requires_grad=True)
    exact = reference(points.astype(np.float64))
    results = [function(x)]
    for _ in exact[1:]:
        results += ag.autograd.grad(results[-1].sum(), x, create_graph=True)
    for order, (ours, expected) in enumerate(zip(results, exact, strict=True)):
        check(values(ours), expected, dtype, f"derivative {order}")


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_glu(dtype, device):
    gates = FAR.astype(dtype)
    x = ag.tensor(np.concatenate([np.full(FAR.size, 1.5, dtype), gates]), device=device, requires_grad=True)
    out = F.glu(x)
    (g,) = ag.autograd.grad(out.sum(), x)
    s, rest = sigmoids(gates.astype(np.float64))
    check(values(out), 1.5 * s, dtype, "value")
    check(values(g), np.concatenate([s, 1.5 * s * rest]), dtype, "gradient")


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_linear_with_an_activation(activation, device):
    """The fused op uses the same formulas."""
    x = ag.tensor(np.float32(FAR[:, None]), device=device, requires_grad=True)
    one, zero = ag.ones(1, 1, device=device), ag.zeros(1, device=device)
    y = F.linear_activation(x, one, zero, activation)
    (g,) = ag.autograd.grad(y.sum(), x)
    value, slope, _ = {"silu": silu, "gelu": gelu}[activation](values(x))
    check(values(y), value, "float32", "value")
    check(values(g), slope, "float32", "gradient")


def test_ends(device):
    x = ag.tensor([-np.inf, -1e30, 1e30, np.inf, np.nan], device=device)
    for function in (F.gelu, F.silu, by_tanh):
        with np.errstate(all="ignore"):
            result = values(function(ag.cat([x] * 100)))[:5]
        assert np.isnan(result[[0, 4]]).all()  # -inf * 0, as in PyTorch
        assert result[1:4].tolist() == [0, np.float32(1e30), np.inf]


@pytest.mark.parametrize("count", [4, 2000])
def test_relu_lets_the_gradient_through_at_every_nan(count):
    """Also at those whose sign bit is set, as that of inf - inf is."""
    x = ag.tensor(np.copysign(np.full(count, np.nan), -1.0), requires_grad=True)
    assert grad(ag.relu(x).sum(), x)[0].tolist() == [1.0] * count


@pytest.mark.parametrize("function", [F.elu, F.celu, F.selu])
def test_second_derivatives_at_the_joint_are_zero(function, device):
    x = ag.tensor([0.0, -1.0], device=device, requires_grad=True)
    (slope,) = grad(function(x).sum(), x, create_graph=True)
    (bend,) = grad(slope.sum(), x)
    assert bend[0] == 0
    assert bend[1] > 0.3
