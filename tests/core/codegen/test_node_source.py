"""What a new node saves: what the rules of the inputs that require grad read."""

from __future__ import annotations

import pytest
from against_torch import both, leaf

import autograd_gpu as ag


def saved(node):
    return [name for name, _ in node.saved_by_name()]


def test_only_what_the_rules_of_the_wanted_inputs_read(device):
    a, w = ag.ones(2, 2, device=device), ag.ones(2, 2, device=device, requires_grad=True)
    assert saved((a * w).grad_fn) == ["a"]
    assert saved((w * w).grad_fn) == ["b", "a"]
    assert saved((a + w).grad_fn) == []
    assert saved(w.exp().grad_fn) == ["out"]
    assert saved(ag.addcmul(a, w, a).grad_fn) == ["b"]


def test_edges_shapes_and_the_mask_of_a_broadcast(device):
    a, w = ag.ones(3, 2, device=device), ag.ones(2, device=device, requires_grad=True)
    node = (a * w).grad_fn
    assert (node.edges, node.mask, node.shapes) == ((None, w._fn), 0b10, ((3, 2), (2,)))
    assert (w * w).grad_fn.shapes is None


@pytest.mark.parametrize("write", [lambda m, a, b: m.lerp(a, b, 0.25), lambda m, a, b: a.lerp(b, 0.75),
                                   lambda m, a, b: a.clone().lerp_(b, 0.25)])
def test_lerp_by_a_number_saves_no_tensor(write):
    def program(m):
        a, b = leaf(m), leaf(m)
        y = write(m, a, b).sum()
        y.backward()
        y.backward()
        return a.grad, b.grad, y.grad_fn.next_functions[0][0]._saved_weight

    assert both(program)[2] in (0.25, 0.75)
