"""Versions: each write counts, views share the count, and a node that saved the tensor notices."""

from __future__ import annotations

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


class TestInPlace:
    def test_values(self):
        t = ag.tensor([1.0, 2.0])
        with ag.no_grad():
            t.add_(1).mul_(2).sub_(ag.tensor([1.0, 0.0]), alpha=2).div_(2)
            assert t.tolist() == [1.0, 3.0]
            assert t.clamp_(0, 2).tolist() == [1.0, 2.0]
            t[0] = 5
            assert t.fill_(3).tolist() == [3.0, 3.0]
            assert t.zero_().tolist() == [0.0, 0.0]
            assert t.copy_(ag.tensor([7, 8])).tolist() == [7.0, 8.0]

    def test_each_bumps_the_version(self):
        t = ag.ones(2)
        calls = [("add_", 1), ("mul_", 2), ("sub_", 1), ("div_", 2), ("zero_",), ("fill_", 1), ("clamp_", 0, 1),
                 ("copy_", t), ("__setitem__", 0, 1)]
        for k, (name, *args) in enumerate(calls):
            getattr(t, name)(*args)
            assert t._version == k + 1

    def test_saved_tensor_modified(self):
        x, w = ag.ones(2, requires_grad=True), ag.ones(2)
        y = (x * w).sum()
        w.add_(1)
        message = r"modified by an inplace operation: \[autograd_gpu.float32 \[2\]\].*version 1; expected version 0"
        with pytest.raises(RuntimeError, match=message):
            y.backward()

    def test_modified_through_a_view(self):
        x, w = ag.ones(4, requires_grad=True), ag.ones(4)
        y = (x * w).sum()
        w[1:3].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_saved_output_modified(self):
        x = ag.ones(2, requires_grad=True)
        y = x.exp()
        with ag.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="output 0 of ExpBackward0, is at version 1"):
            y.sum().backward()

    def test_not_saved_may_change(self):
        x, w = ag.ones(2, requires_grad=True), ag.ones(2)
        y = (x + w).sum()
        w.add_(1)
        y.backward()
        assert x.grad.tolist() == [1.0, 1.0]

    def test_refusals(self):
        x = ag.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            x.add_(1)
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            x[0].add_(1)
        with pytest.raises(RuntimeError, match="can't be cast"):
            ag.ones(2, dtype=ag.int64).add_(1.5)
        with pytest.raises(RuntimeError, match="broadcast shape"):
            ag.ones(2).add_(ag.ones(3, 2))
        with pytest.raises(RuntimeError, match="single memory location"):
            ag.ones(1).expand(3).add_(1)


def test_gradient_handed_through_shares_the_version():
    x, w = leaf(1.0, 2.0), leaf(1.0, 2.0)
    g = ag.ones(2, dtype=ag.float64)
    y = (g * w).sum()
    (gx,) = grad(x + 1, x, g)
    gx.mul_(7)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_view_shares_the_version():
    t = ag.tensor([2.0, 4.0]).to(ag.float8_e5m2)
    t.reshape(2, 1).zero_()
    assert t._version == 1


def test_moving_a_module_is_noticed_by_a_graph_that_saved_it():
    layer = ag.nn.Linear(2, 2)
    x = ag.ones(1, 2, requires_grad=True)
    y = layer(x).sum()
    layer.double()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("key", [0, slice(2), None, [0, 1]])
def test_views_of_float8_share_the_version(key, device):
    codes = ag.ones(4, device=device).to(ag.float8_e4m3fn)
    part = codes[key]
    part.copy_(ag.zeros(*part.shape, device=device))
    assert codes._version == (0 if isinstance(key, list) else 1)
