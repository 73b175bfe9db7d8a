"""The main jobs on CUDA give the CPU's numbers: training a small network, and the Hessian."""

import math
from collections import Counter

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, profiler
from benchmarks.hessian_calls import by_loop, by_transform
from benchmarks.models import make_weights, sequential
from benchmarks.train_mlp import eager_step

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]

SIZES = (784, 32, 16, 10)


def plain(tensor):
    return backend.to_numpy(tensor.detach().array)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_the_training_step_of_the_benchmark(optimizer, device):
    steps = {where: eager_step(ag, make_weights(SIZES), 8, optimizer, where) for where in ("cpu", device)}
    for _ in range(5):
        losses = {where: float(step()) for where, step in steps.items()}
        assert losses[device] == pytest.approx(losses["cpu"], rel=1e-5)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_training_with_gradient_accumulation(optimizer, device):
    """Two backward passes per step, so that the weights' second products are added by cuBLAS."""
    trained = {}
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(2, 8, 12)).astype(np.float32), rng.integers(0, 3, (2, 8))) for _ in range(4)]
    for where in ("cpu", device):
        model = sequential(ag, make_weights((12, 9, 3)), "Tanh", where)
        update = getattr(ag.optim, optimizer)(model.parameters(), lr=0.05)
        for x, y in batches:
            update.zero_grad()
            for half, labels in zip(x, y, strict=True):
                logits = model(ag.tensor(half, device=where))
                ag.nn.functional.cross_entropy(logits, ag.tensor(labels, device=where)).backward()
            update.step()
        trained[where] = [plain(p) for p in model.parameters()]
    for ours, reference in zip(trained[device], trained["cpu"], strict=True):
        np.testing.assert_allclose(ours, reference, rtol=2e-5, atol=2e-6)


def rows_of_batches(products):
    """The products with a batch of matrices as further rows: cuBLAS takes rows without a common stride as a batch."""
    return Counter([(math.prod(shape[:-2]), *shape[-2:]) for shape in products.elements()])


@pytest.mark.parametrize("activation", ["ReLU", "Tanh"])
@pytest.mark.parametrize("with_backward", [False, True])
@pytest.mark.parametrize("method", ["loop", "push", "pull"])
def test_the_hessian_of_the_benchmark(method, activation, with_backward, device):
    by = by_loop("hessian", with_backward) if method == "loop" else by_transform("hessian", method)
    result, products = {}, {}
    x = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32)
    for where in ("cpu", device):
        model = sequential(ag, make_weights((5, 16, 16, 3)), activation, where)
        by(ag, model, ag.tensor(x, device=where, requires_grad=True), None)  # looks for second derivatives
        with profiler.count() as counts:
            hessian, pred = by(ag, model, ag.tensor(x, device=where, requires_grad=True), None)
            if with_backward:
                ((hessian**2).mean() + (pred**2).mean()).backward()
        assert hessian.shape == (6, 3, 5, 5)
        gradients = [plain(p.grad) for p in model.parameters() if p.grad is not None] if with_backward else []
        result[where], products[where] = [plain(hessian), plain(pred), *gradients], counts.matmuls
    if method != "pull":  # its terms are one kernel or several products
        assert rows_of_batches(products[device]) == rows_of_batches(products["cpu"])
    for ours, reference in zip(result[device], result["cpu"], strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-6)
