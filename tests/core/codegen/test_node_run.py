"""The generated runs of a node: which rules they call, and what they free."""

from __future__ import annotations

import pytest
from against_torch import both, leaf

import autograd_gpu as ag


def const(m):
    return m.tensor([3.0, 4.0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_only_the_needed_rules_run(device, create_graph):
    a, b = (ag.ones(2, 2, device=device, requires_grad=True) for _ in range(2))
    y = (a @ b).sum()
    with ag.profiler.count() as counted:
        ag.autograd.grad(y, a, create_graph=create_graph)
    assert sum(counted.matmuls.values()) == 1
    assert [rule for rule in counted.rules if rule.startswith("matmul")] == ["matmul.grad_a"]


@pytest.mark.parametrize("use", [lambda m, a: m.lerp(a, const(m), const(m)), lambda m, a: a * 2, lambda m, a: a**2,
                                 lambda m, a: 2**a])
def test_what_saves_a_tensor_is_freed(use):
    def program(m):
        y = use(m, leaf(m)).sum()
        y.backward()
        y.backward()

    kind, text = both(program)
    assert kind is RuntimeError
    assert "secondtime" in text
