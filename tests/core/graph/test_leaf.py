"""AccumulateGrad: the node of a leaf, which it holds weakly, and the sum in the leaf's `.grad`."""

import gc

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.graph.leaf import AccumulateGrad


def node_of(leaf):
    return ag.autograd.graph.get_gradient_edge(leaf).node


def test_one_node_for_all_uses_of_a_leaf(device):
    x = ag.ones(2, device=device, requires_grad=True)
    (a, _), (b, _) = (x * 2).grad_fn.next_functions[0], x.exp().grad_fn.next_functions[0]
    assert type(a) is AccumulateGrad
    assert a is b is node_of(x)
    assert (a.shape, a.dtype, a.topological_nr) == ((2,), x.dtype, 0)


def test_the_leaf_is_held_weakly(device):
    x = ag.ones(2, device=device, requires_grad=True)
    node = node_of(x)
    assert node.variable is x
    del x
    gc.collect()
    assert node.variable is None
    assert node.shape is None
    assert node._input_metadata == []


def test_a_first_gradient_is_taken_over_and_a_second_added(device):
    x = ag.ones(2, device=device, requires_grad=True)
    node = node_of(x)
    g = ag.tensor([1.0, 2.0], device=device)
    node.accumulate(x, g, False)
    assert x.grad is g
    node.accumulate(x, ag.ones(2, device=device), False)
    assert x.grad is g
    assert g._version == 1
    np.testing.assert_array_equal(g.numpy(force=True), [2, 3])


def test_a_recorded_sum_is_out_of_place(device):
    x = ag.ones(2, device=device, requires_grad=True)
    first = x.grad = ag.ones(2, device=device)
    node_of(x).accumulate(x, ag.ones(2, device=device), True)
    assert x.grad is not first
    assert first.tolist() == [1, 1]


def test_another_shape_is_refused_and_loses_nothing(device):
    x = ag.ones(2, device=device, requires_grad=True)
    node_of(x).accumulate(x, ag.ones(2, device=device), False)
    with pytest.raises(RuntimeError, match=r"of shape \[3\] cannot be added to its .grad of shape \[2\]"):
        node_of(x).accumulate(x, ag.ones(3, device=device), False)
    assert x.grad.tolist() == [1, 1]


def test_hooks_outlive_the_leaf(device):
    """A leaf that is gone leaves its post-accumulate hooks another tensor with its memory."""
    seen = []
    x = ag.ones(2, device=device, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append((leaf.tolist(), leaf.grad.tolist())))
    y = (x * 3).sum()
    del x
    gc.collect()
    y.backward()
    assert seen == [([1, 1], [3, 3])]
