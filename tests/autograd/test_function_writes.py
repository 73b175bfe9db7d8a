"""Custom Functions that write to their inputs, or give views of them or the inputs themselves."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import Double

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad

W = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def leaf(device):
    return ag.tensor(W / 6, device=device, requires_grad=True)


@pytest.fixture
def weight(device):
    return ag.tensor(W, device=device)


class FirstRow(Function):
    @staticmethod
    def forward(ctx, x):
        return x[0]

    @staticmethod
    def backward(ctx, g):
        return ag.stack([g, ag.zeros_like(g)])


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_mark_dirty(leaf, weight):
    x = leaf * 1
    row = x[0]
    assert Double.apply(x) is x
    assert x.grad_fn.name() == "DoubleBackward"
    assert Double.apply(row) is row
    assert x.grad_fn.name() == "CopySlices"
    (gradient,) = grad((x * weight).sum(), leaf)
    np.testing.assert_allclose(gradient.numpy(force=True), W * [[4], [2]])


def test_mark_dirty_refusals(leaf):
    with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad has been used in an in-place"):
        Double.apply(leaf)
    with pytest.raises(RuntimeError, match=r"^a view of a leaf Variable that requires grad is being used"):
        Double.apply(leaf[0])
    part = (leaf * 1).unbind(0)[0]
    with pytest.raises(RuntimeError, match="Output 0 of UnbindBackward0 is a view and is being modified inplace"):
        Double.apply(part)


def test_a_view_made_in_a_function(leaf):
    for x in (leaf * 1, (leaf * 1)[:]):
        row = FirstRow.apply(x)
        assert row._is_view()
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            row.zero_()


@pytest.mark.parametrize("function", [Same, Double])
def test_an_input_handed_through_without_recording(leaf, function):
    x = leaf * 1
    for x_or_view in (x, x[:]):
        with ag.no_grad():
            y = function.apply(x_or_view)
        assert y is not x_or_view
        assert (y.requires_grad, y.grad_fn, y._is_view()) == (False, None, False)
        assert x_or_view.requires_grad
    constant = leaf.detach()
    assert (Same.apply(constant) is constant, Same.apply(constant)._is_view()) == (False, True)
    assert Double.apply(constant) is constant
