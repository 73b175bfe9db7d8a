"""Spreads and norms of numbers whose squares float32 cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from against_torch import torch
from op_db import values

import autograd_gpu as ag

SCALES = [1e19, 3e19, 1e30, 1e-20, 1e-23, 1e-30, 1.0]
FORMS = [{}, {"dim": 0}, {"dim": 1, "keepdim": True}, {"dim": (0, 1), "correction": 0}]


@pytest.mark.cpu
@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale", SCALES)
def test_std_and_var_on_the_cpu(scale, dtype):
    """PyTorch adds squares up in float64 there."""
    data = np.random.default_rng(0).normal(size=(7, 40)) * scale
    data[:, 1] /= scale  # beside columns in another range
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    for name in ("std", "var"):
        for form in FORMS:
            x = ag.tensor(data, dtype=getattr(ag, dtype), requires_grad=True)
            t = torch.tensor(data, dtype=getattr(torch, dtype), requires_grad=True)
            y, z = getattr(ag, name)(x, **form), getattr(torch, name)(t, **form)
            np.testing.assert_allclose(values(y), z.detach().double().numpy(), rtol=tolerance)
            assert y.dtype == x.dtype
            if name == "std":
                (g,), (h,) = ag.autograd.grad(y.sum(), x), torch.autograd.grad(z.sum(), t)
                np.testing.assert_allclose(values(g), h.double().numpy(), rtol=3 * tolerance, atol=3 * tolerance)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@np.errstate(all="ignore")
def test_few_numbers_and_none(device):
    for data in ([1.0, 2.0], [3.0, 3.0], [5.0], [], [np.nan, 1.0], [np.inf, 1.0], [1e-30, 1e30]):
        for name in ("std", "var"):
            result = values(getattr(ag, name)(ag.tensor(data, dtype=ag.float32, device=device)))
            expected = getattr(torch, name)(torch.tensor(data)).numpy()
            if device == "cpu" or max(data, default=0) < 1e30:  # on CUDA squares are float32's, as in PyTorch
                np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_constants_have_no_spread(device):
    x = ag.full((3, 50), 7.0, device=device, requires_grad=True)
    y = ag.std(x, 1)
    (g,) = ag.autograd.grad(y.sum(), x)
    assert not values(y).any()
    assert not values(g).any()


def test_a_norm_that_is_zero_has_no_gradient(device):
    """Squares of 1e-30 are 0 in float32, as in PyTorch."""
    x = ag.tensor([[1e-30, 0.0], [3.0, 4.0]], dtype=ag.float32, device=device, requires_grad=True)
    y = ag.linalg.vector_norm(x, dim=1)
    (g,) = ag.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = ag.autograd.grad(g.sum(), x)
    assert values(y).tolist() == [0, 5]
    np.testing.assert_allclose(values(g), [[0, 0], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(values(h), [[0, 0], [0.032, -0.024]], rtol=1e-5, atol=1e-9)
