"""Nodes: their classes, what they show of themselves and what they lead to."""

from __future__ import annotations

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad
from autograd_gpu.autograd.graph import Node


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


def accumulator(x):
    return ag.autograd.graph.get_gradient_edge(x).node


class TestClasses:
    def test_every_node_is_one(self):
        x = leaf()

        class Own(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        nodes = [x.sin().grad_fn, x.split(1)[0].grad_fn, ag.cat([x, x]).grad_fn, Own.apply(x).grad_fn, accumulator(x)]
        for node in nodes:
            assert isinstance(node, Node)
            assert isinstance(node.name(), str)
            assert all(isinstance(n, Node) for n, _ in node.next_functions)
            assert node._sequence_nr() >= 0
            assert node.metadata == {}
            node.register_hook(print).remove()
            node.register_prehook(print).remove()

    def test_input_metadata(self):
        x = leaf()
        nodes = [(x.sin().grad_fn, [(3,)]), (x.split([1, 2])[0].grad_fn, [(1,), (2,)]), (accumulator(x), [(3,)])]
        for node, shapes in nodes:
            assert [m.shape for m in node._input_metadata] == shapes
            assert {m.dtype for m in node._input_metadata} == {ag.float64}
        node = accumulator(x)
        del x, nodes
        assert node._input_metadata == []

    def test_is_abstract(self):
        with pytest.raises(TypeError, match="Node"):
            Node()


class TestNodes:
    def test_introspection(self):
        x = leaf(1.0)
        y = x * 2 + 1
        node = y.grad_fn
        assert node.name() == "AddBackward0"
        (mul, nr), _ = node.next_functions
        assert mul.name() == "MulBackward0"
        assert nr == 0
        acc = mul.next_functions[0][0]
        assert acc.name() == "AccumulateGrad"
        assert acc.variable is x
        assert mul._saved_b == 2
        node.metadata["note"] = 1
        assert node.metadata == {"note": 1}

    def test_hooks(self):
        x = leaf(1.0)
        y = x * 2
        y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
        y.grad_fn.register_hook(lambda grads, gs: (grads[0] + gs[0], None))
        assert grad(y, x)[0].item() == 30.0
