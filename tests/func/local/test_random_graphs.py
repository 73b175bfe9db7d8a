"""300 random graphs: every method against forward over reverse mode, and against PyTorch where that is installed."""

import warnings

import numpy as np
import pytest
from random_graphs import RandomGraph
from selection import first

import autograd_gpu as ag
from autograd_gpu import func

pytestmark = pytest.mark.cpu

TOLERANCE = 1e-9


def close(actual, expected, what):
    if hasattr(expected, "numpy"):
        expected = expected.numpy(force=True)
    scale = 1 + abs(expected).max(initial=0)
    np.testing.assert_allclose(actual.numpy(force=True), expected, rtol=TOLERANCE, atol=TOLERANCE * scale, err_msg=what)


def gradient(h, w):
    """The gradient of the sum of squares of h; zeros if h has no graph, as a Hessian that is zero by structure."""
    if not h.requires_grad:
        return ag.zeros_like(w)
    return ag.autograd.grad((h**2).sum(), w, allow_unused=True, materialize_grads=True)[0]


@pytest.mark.parametrize("seed", first(range(300), 60))
def test_methods_agree(seed):
    graph = RandomGraph(seed)
    x, w = ag.tensor(graph.x), ag.tensor(graph.w, requires_grad=True)
    f = graph.function(ag, w)
    expected = func.hessian(f, method="nested")(x)
    back = gradient(expected, w)
    for method in ("push", "pull"):
        value, jacobian, second = func.value_and_derivatives(f, method=method)(x)
        close(value, f(x), method)
        close(jacobian, func.jacrev(f)(x), method)
        close(second, expected, method)
        assert bool((second == second.mT).all())
        close(func.hessian_diagonal(f, method=method)(x), expected.diagonal(0, -2, -1), method)
        close(func.laplacian(f, method=method)(x), expected.diagonal(0, -2, -1).sum(-1), method)
        close(gradient(second, w), back, f"{method}, backward")


@pytest.mark.parametrize("seed", first(range(0, 300, 5), 20))
def test_batches_agree(seed):
    graph = RandomGraph(seed)
    f = graph.function(ag, ag.tensor(graph.w))
    rows = ag.tensor(np.random.default_rng(seed).normal(size=(3, graph.d)))
    expected = ag.stack([func.hessian(f, method="nested")(row) for row in rows])
    for method in ("push", "pull"):
        close(func.vmap(func.hessian(f, method=method))(rows), expected, method)


@pytest.mark.parametrize("seed", range(300))
def test_pytorch_agrees(seed):
    torch = pytest.importorskip("torch")
    graph = RandomGraph(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of its own parts
        expected = torch.func.hessian(graph.function(torch, torch.tensor(graph.w)))(torch.tensor(graph.x))
    close(func.hessian(graph.function(ag, ag.tensor(graph.w)))(ag.tensor(graph.x)), expected, "PyTorch")
