"""Powers with numbers of both signs, with every kind of number and exponent, and how long they take."""

from __future__ import annotations

import timeit

import numpy as np
import pytest
from against_torch import torch
from op_db import values

import autograd_gpu as ag

EDGES = [0.0, 1.0, 2.0, 0.5, 3.0, 2.5, 7.3, 1e-20, 1e20, 3e38, 1e-38, 1e-45, np.inf]
BASES = np.array([*EDGES, *(-x for x in EDGES), np.nan] * 8)  # enough of them for the way that large arrays take
WHOLE = [0, 1, 2, 3, 4, 5, 6, 7, 31, 100, 101, -1, -2, -3, -4, -5, -6, -7, -31, -100, 3.0, -3.0, 5.0, 1.0, -1.0]
OTHER = [2.5, -1.5, 300.5, np.inf, -np.inf, np.nan]
TOLERANCES = {"float64": 1e-13, "float32": 1e-6, "float16": 4e-3, "bfloat16": 2e-2}  # relative


def assert_same(actual, expected, tolerance, least=0.0):
    """`least`: where the dtype's numbers lie far apart."""
    actual, expected = values(actual), expected.detach().double().numpy()
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=least)
    shown = ~np.isnan(expected) & (np.abs(expected) > least)
    np.testing.assert_array_equal(np.signbit(actual[shown]), np.signbit(expected[shown]))


@np.errstate(all="ignore")
@pytest.mark.parametrize("exponent", [*WHOLE, *OTHER])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_numbers_as_exponents(dtype, exponent, device):
    if dtype in ("float16", "bfloat16") and np.isfinite(exponent) and abs(exponent) > 256:
        pytest.skip("PyTorch rounds the exponent first")
    x = ag.tensor(BASES, dtype=getattr(ag, dtype), device=device, requires_grad=True)
    t = torch.tensor(BASES, dtype=getattr(torch, dtype), requires_grad=True)
    ours, theirs = x**exponent, t**exponent
    least = 4 * float(torch.finfo(t.dtype).tiny)  # below it the dtype has fewer digits
    assert_same(ours, theirs, TOLERANCES[dtype], least)
    (gradient,) = ag.autograd.grad(ours.sum(), x)
    (expected,) = torch.autograd.grad(theirs.sum(), t)
    assert_same(gradient, expected, 4 * TOLERANCES[dtype], least)


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_tensors_as_exponents(dtype, device):
    exponents = np.array([*WHOLE, *OTHER, 2.0**24, 1e30, -1e30, 0.5])
    base, exponent = [np.ravel(a).astype(dtype) for a in np.meshgrid(BASES[:27], exponents)]
    result = ag.pow(ag.tensor(base, device=device), ag.tensor(exponent, device=device))
    assert_same(result, torch.tensor(np.power(base, exponent)), TOLERANCES[dtype])
    for number in (-2.0, 3.0):
        result = ag.pow(number, ag.tensor(exponent, device=device))
        assert_same(result, torch.tensor(np.power(exponent.dtype.type(number), exponent)), TOLERANCES[dtype])


def test_a_row_of_exponents_and_one_for_all(device):
    x = ag.tensor(np.linspace(-3, 3, 300).reshape(100, 3), device=device, requires_grad=True)
    y = x ** ag.tensor([2.0, 3.0, -1.0], dtype=ag.float64, device=device)
    assert values(y)[0].tolist() == pytest.approx([9.0, values(x)[0, 1] ** 3, 1 / values(x)[0, 2]])
    (g,) = ag.autograd.grad((x ** ag.tensor(3.0, dtype=ag.float64, device=device)).sum(), x)
    np.testing.assert_allclose(values(g), 3 * values(x) ** 2, rtol=1e-14)


def test_second_derivatives(device):
    x = ag.tensor(np.linspace(-2.1, 2.3, 200), device=device, requires_grad=True)
    for n in (3, -1, 5):
        (g,) = ag.autograd.grad((x**n).sum(), x, create_graph=True)
        (h,) = ag.autograd.grad(g.sum(), x)
        np.testing.assert_allclose(values(h), n * (n - 1) * values(x) ** (n - 2), rtol=1e-13)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_negative_numbers_take_no_longer(dtype):
    """Their powers by np.power take 50 to 140 times as long as those of positive numbers."""
    signed = ag.tensor(np.random.default_rng(0).normal(size=100_000).astype(dtype), requires_grad=True)
    positive, ones = signed.detach().abs().requires_grad_(), ag.ones_like(signed)

    def seconds(x, n):
        return min(timeit.repeat(lambda: (x**n).backward(ones), number=1, repeat=20))

    for n in (3, -1, -3, 5, 2.0, ag.tensor(3.0, dtype=signed.dtype)):
        assert seconds(signed, n) < 8 * seconds(positive, n), n
