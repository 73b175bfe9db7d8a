"""Modes of a thread and functions of autograd inside of the function transforms."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func

X = np.random.default_rng(0).normal(size=(3, 4))


def cubes(x):
    return (x**3).sum()


def per_example(device):
    return func.vmap(func.grad(cubes))(ag.tensor(X)).numpy(force=True)


def test_saved_tensor_hooks_leave_levels_alone(device):
    with ag.autograd.graph.save_on_cpu():
        np.testing.assert_allclose(per_example(device), 3 * X**2)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_anomaly_mode(device):
    with ag.autograd.set_detect_anomaly(True):
        np.testing.assert_allclose(per_example(device), 3 * X**2)
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"):
            func.vmap(func.grad(lambda x: (x.sqrt() * 0).sum()))(ag.zeros(3, 4))


def test_factories_are_constants(device):
    def run(x):
        return x @ ag.eye(4, dtype=x.dtype) + ag.arange(4) + ag.linspace(0, 1, 4)

    expected = X + np.arange(4) + np.linspace(0, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(func.vmap(run)(ag.tensor(X)).numpy(force=True), expected, rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"requires_grad_.. .*inside of a function being transformed"):
        func.vmap(lambda x: x + ag.zeros(4, requires_grad=True))(ag.tensor(X))


@pytest.mark.parametrize("differentiate", [
    lambda loss, w: ag.autograd.grad(loss, w)[0],
    lambda loss, w: loss.backward(),
], ids=["grad", "backward"])  # fmt: skip
def test_autograd_refuses_lifted_tensors(differentiate, device):
    w = ag.ones(4, dtype=ag.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"(element 0 of tensors belongs to|called inside of) a function transform"):
        func.vmap(lambda x: differentiate((x * w).sum(), w))(ag.tensor(X))
    with pytest.raises(RuntimeError, match=r"(element 0 of tensors belongs to|called inside of) a function transform"):
        func.vmap(func.grad(lambda x: differentiate((x * x).sum(), x)))(ag.tensor(X))


def test_float8(device):
    codes = ag.ones(3, 4).to(ag.float8_e4m3fn)
    with pytest.raises(RuntimeError, match="inside of a function transform float8_e4m3fn cannot be converted"):
        func.vmap(lambda x: x.to(ag.float32))(codes)
    with pytest.raises(RuntimeError, match="cannot be converted to float8_e4m3fn"):
        func.vmap(lambda x: x.to(ag.float8_e4m3fn))(ag.ones(3, 4))
