"""Activations of large arrays on the CPU, computed by blocks: the same numbers as those of small arrays."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu import rows
from autograd_gpu.nn import functional as F
from autograd_gpu.ops._support.blocks import BLOCK

pytestmark = pytest.mark.cpu
FUNCTIONS = (F.sigmoid, F.tanh, F.silu, F.gelu)
MANY = 4 * rows.SHARED_BLOCK + 3  # enough for two cores, with a remainder


def value_and_grad(function, x, g):
    x = x.detach().requires_grad_()
    out = function(x)
    (grad,) = ag.autograd.grad(out, x, g)
    return out.detach(), grad


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("dtype", [ag.float32, ag.float16], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_blocks_have_the_values_of_small_arrays(function, dtype, cores, monkeypatch):
    monkeypatch.setattr(rows, "cores", lambda: cores)
    ag.manual_seed(0)
    x, g = (ag.randn(MANY).mul(3).to(dtype) for _ in range(2))
    parts = [value_and_grad(function, a, b) for a, b in zip(x.split(BLOCK // 2), g.split(BLOCK // 2), strict=True)]
    for actual, expected in zip(value_and_grad(function, x, g), zip(*parts, strict=True), strict=True):
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual.float().numpy(), ag.cat(expected).float().numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_arrays_that_are_not_alike_are_computed_whole(function):
    ag.manual_seed(0)
    x, g = ag.randn(300, 700, dtype=ag.float64), ag.randn(700, dtype=ag.float64)
    plain = value_and_grad(function, x, g.expand(300, 700).contiguous())
    for same in (x, x.T.contiguous().T):
        others = value_and_grad(function, same, g.expand(300, 700))
        for actual, expected in zip(others, plain, strict=True):
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-12, atol=1e-14)
