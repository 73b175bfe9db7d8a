"""What grad() answers for inputs that it does not reach, for edges and for batches, beside PyTorch."""

from __future__ import annotations

import pytest
from against_torch import both, leaf, plain, torch

import autograd_gpu as ag


class TestMaterializedZeros:
    def test_can_be_differentiated_under_create_graph(self):
        def program(m):
            x, y = leaf(m), leaf(m).exp().sum()
            (g,) = m.autograd.grad(y, x, create_graph=True, materialize_grads=True)
            (h,) = m.autograd.grad(g.sum(), x, materialize_grads=True)
            return g, g.requires_grad, g.is_leaf, h, h.requires_grad

        assert both(program) == [[0.0, 0.0], True, True, [0.0, 0.0], False]

    def test_are_constants_otherwise(self):
        def program(m):
            y = leaf(m).exp().sum()
            (g,) = m.autograd.grad(y, leaf(m), materialize_grads=True)
            return g, g.requires_grad

        assert both(program) == [[0.0, 0.0], False]

    def test_are_summed_up_with_others(self):
        def program(m):
            x, z = leaf(m), leaf(m)
            gs = m.autograd.grad((x**3).sum(), (x, z), create_graph=True, materialize_grads=True)
            return m.autograd.grad(sum((g**2).sum() for g in gs), (x, z), materialize_grads=True)

        assert both(program)[1] == [0.0, 0.0]

    def test_of_an_edge_have_its_shape(self):  # PyTorch refuses: its edges know none
        x, y = leaf(ag), leaf(ag)
        edge = ag.autograd.graph.get_gradient_edge(y * 2)
        (g,) = ag.autograd.grad(x.sum(), edge, create_graph=True, materialize_grads=True)
        assert (g.tolist(), g.requires_grad) == ([0.0, 0.0], True)

    def test_of_a_batch_require_grad_too(self):
        x, y = leaf(ag), leaf(ag) * 2
        (g,) = ag.autograd.grad(y, x, ag.ones(3, 2), is_grads_batched=True, create_graph=True, materialize_grads=True)
        assert (g.shape, g.requires_grad) == ((3, 2), True)


class TestBatches:
    @pytest.mark.parametrize("shape", [(3, 3), (2,), (3, 2, 1)])
    def test_a_wrong_shape_is_explained_as_that_of_a_batch(self, shape):
        said = {}
        for m in (torch, ag):
            x = leaf(m)
            with pytest.raises(RuntimeError) as error:
                m.autograd.grad(x * 2, x, m.ones(*shape), is_grads_batched=True)
            said[m] = str(error.value)
        text = ("If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                "output, but a mismatch was detected: grad_output[0] has a shape of ")
        assert said[torch].startswith(text)
        assert said[ag].startswith(f"{text}{shape} and output[0] has a shape of (2,)")  # PyTorch names another shape

    def test_the_second_of_several(self):
        x = leaf(ag)
        with pytest.raises(RuntimeError, match=r"grad_output\[1\] has a shape of \(3, 1\) and output\[1\] has a"):
            ag.autograd.grad([x * 2, x * 3], x, [ag.ones(3, 2), ag.ones(3, 1)], is_grads_batched=True)

    def test_of_an_edge(self):
        x = leaf(ag)
        edge = ag.autograd.graph.get_gradient_edge(x * 2)
        with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a shape of \(3, 3\) and output\[0\] has a"):
            ag.autograd.grad(edge, x, ag.ones(3, 3), is_grads_batched=True)


class TestEdges:
    def test_are_tuples_of_three(self):
        def program(m):
            y = leaf(m) * 2
            edge = m.autograd.graph.get_gradient_edge(y)
            node, nr, token = edge
            by_hand = m.autograd.graph.GradientEdge(y.grad_fn, 0)
            return (node is y.grad_fn, nr, token, len(edge), edge._fields == by_hand._fields, edge == by_hand,
                    m.autograd.grad(y.sum(), by_hand))

        assert both(program)[:4] == [True, 0, None, 3]

    def test_of_a_leaf(self):
        def program(m):
            node, nr, token = m.autograd.graph.get_gradient_edge(leaf(m))
            return node.name().endswith("AccumulateGrad"), nr, token

        assert both(program) == [True, 0, None]

    def test_know_the_tensor_that_they_were_taken_from(self):
        y = ag.ones(2, 3, requires_grad=True) * 2
        edge = ag.autograd.graph.get_gradient_edge(y)
        assert (edge.shape, edge.dtype, edge.device) == (y.shape, y.dtype, y.device)
        assert ag.autograd.graph.GradientEdge(y.grad_fn, 0).shape is None
        assert plain(ag.autograd.grad(y.sum(), edge)) == [[[1.0] * 3] * 2]
