"""The nodes of a watched task run as those of any other: hooks, rules that add into a gradient, recorded rules."""

from __future__ import annotations

import pytest

import autograd_gpu as ag
from autograd_gpu.profiler import count, profile


def results():
    w, x = ag.ones(3, 3, requires_grad=True), ag.ones(2, 3)
    for _ in range(2):  # the second run adds into the gradient of the first
        (x @ w).tanh().sum().backward()
    y = (x @ w).exp()
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 3,))
    (g,) = ag.autograd.grad(y.sum(), w, create_graph=True)
    g.sum().backward()
    rows = x.clone().requires_grad_()
    sum(rows[i] * i for i in range(2)).sum().backward()
    return [w.grad, g, rows.grad]


@pytest.mark.parametrize("watched", [count, profile])
def test_watching_changes_nothing(watched):
    expected = results()
    with watched():
        watched_ones = results()
    assert all((a == b).all() for a, b in zip(watched_ones, expected, strict=True))
