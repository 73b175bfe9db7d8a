"""GradientEdge: accepted wherever a tensor is, for every kind of node, and without holding the tensor's memory."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, backward, grad
from autograd_gpu.autograd.graph import GradientEdge, Node, get_gradient_edge

ONE = [1.0, 1.0, 1.0]


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


class Pair(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, g, h):
        return g * 2, h * 3


def inner(x):
    return x * 2


def one_of_several(x):
    return ag.cat([x, x]).split(3)[1]


def of_a_function(x):
    return Pair.apply(x, x)[1]


def itself(x):
    return x


@pytest.fixture(params=[inner, one_of_several, of_a_function, itself])
def make(request):
    return request.param


class TestAsInput:
    def test_like_the_tensor(self, make):
        x = leaf()
        y = make(x)
        z = (y * y).sum() + x.sum()
        edge = get_gradient_edge(y)
        (expected,) = grad(z, y, retain_graph=True)
        (got,) = grad(z, edge, retain_graph=True)
        assert got.tolist() == expected.tolist()
        both = grad(z, [edge, x, y, edge], retain_graph=True)
        assert both[0].tolist() == both[2].tolist() == both[3].tolist() == expected.tolist()
        assert both[1].tolist() == grad(z, x)[0].tolist()

    def test_differentiated_twice(self, make):
        x = leaf()
        y = make(x)
        (g,) = grad((y**3).sum(), get_gradient_edge(y), create_graph=True)
        (second,) = grad(g.sum(), get_gradient_edge(y))
        np.testing.assert_allclose(second.numpy(force=True), 6 * y.numpy(force=True))

    def test_unused(self):
        x, y = leaf(), leaf()
        edge = get_gradient_edge(y * 2)
        with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used"):
            grad(x.sum(), [x, edge], retain_graph=True)
        assert grad(x.sum(), edge, allow_unused=True) == (None,)
        (zeros,) = grad(x.sum(), edge, materialize_grads=True)  # PyTorch's edges do not know a shape
        assert zeros.tolist() == [0.0] * 3
        assert zeros.dtype == ag.float64

    def test_made_by_hand(self):
        x = leaf()
        y = x * 2
        assert grad((y * 5).sum(), GradientEdge(y.grad_fn, 0))[0].tolist() == [5.0] * 3
        a, b = x.split([1, 2])
        assert grad(b.sum() + a.sum() * 3, GradientEdge(b.grad_fn, 1))[0].tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match="edge names output 5 of MulBackward0, which has 1"):
            grad((y * 5).sum(), GradientEdge(y.grad_fn, 5))


class TestAsOutput:
    def test_like_the_tensor(self, make):
        x = leaf()
        y = make(x)
        g = ag.tensor([1.0, 10.0, 100.0], dtype=ag.float64)
        (expected,) = grad(y, x, g, retain_graph=True)
        assert grad(get_gradient_edge(y), x, g, retain_graph=True)[0].tolist() == expected.tolist()
        backward(get_gradient_edge(y), g)
        assert x.grad.tolist() == expected.tolist()

    def test_beside_tensors(self):
        x = leaf()
        y, z = x * 2, (x * 3).sum()
        (g,) = grad([get_gradient_edge(y), z], x, [ag.ones(3, dtype=ag.float64), None])
        assert g.tolist() == [5.0] * 3

    def test_from_edge_to_edge(self):
        x = leaf()
        y = x.exp()
        z = y.sin()
        (g,) = grad(get_gradient_edge(z), get_gradient_edge(y), ag.ones(3, dtype=ag.float64))
        np.testing.assert_allclose(g.numpy(force=True), np.cos(y.numpy(force=True)))

    def test_the_gradient_is_checked_as_a_tensors_is(self):
        x = leaf()
        y = x * 2
        edge = get_gradient_edge(y)
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            grad(edge, x)
        with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \(2,\)"):
            grad(edge, x, ag.ones(2))
        assert grad(edge, x, ag.ones(3), retain_graph=True)[0].dtype == ag.float64  # cast
        assert grad(get_gradient_edge(y.sum()), x)[0].tolist() == [2.0] * 3
        with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got float"):
            grad(edge, x, [1.0])

    def test_batched(self):
        x = leaf()
        y = x * 2
        (g,) = grad(get_gradient_edge(y), x, ag.eye(3, dtype=ag.float64), is_grads_batched=True)
        assert g.tolist() == (2 * np.eye(3)).tolist()


class TestOfBackwardInputs:
    def test_leaf(self):
        x, w = leaf(), leaf()
        backward((x * w).sum(), inputs=(get_gradient_edge(x),))
        assert x.grad.tolist() == w.tolist()
        assert w.grad is None

    def test_same_leaf_twice(self):
        x = leaf()
        (x * 2).sum().backward(inputs=[x, get_gradient_edge(x), x])
        assert x.grad.tolist() == [2.0] * 3

    def test_inner(self):
        x, w = leaf(), leaf()
        y, other = x * w, w.sin()
        hooked = []
        y.register_hook(lambda g: hooked.append(g.tolist()))
        with ag.profiler.count() as counts:
            backward((y * 3).sum(), inputs=(get_gradient_edge(y), get_gradient_edge(other)))
        assert hooked == [[3.0] * 3]
        assert not y.retains_grad
        assert x.grad is None
        assert w.grad is None
        assert not {"mul.grad_b", "sin.grad_x"} & set(counts.rules)

    def test_inner_that_retains_its_grad(self):
        x = leaf()
        y, z = x * 2, x * 5
        y.retain_grad()
        backward((y * z).sum(), inputs=[get_gradient_edge(y), z])
        assert y.grad.tolist() == z.tolist()
        assert z.grad.tolist() == y.tolist()
        assert x.grad is None

    def test_leaf_that_is_gone(self):
        x = leaf()
        edge, y = get_gradient_edge(x), (x * 2).sum()
        del x
        backward(y, inputs=[edge], retain_graph=True)
        assert grad(y, edge)[0].tolist() == [2.0] * 3

    def test_unreached(self):
        x, w = leaf(), leaf()
        (x * 2).sum().backward(inputs=[w])
        assert x.grad is None
        assert w.grad is None

    def test_behind_zero(self):
        x, w = leaf(), leaf()
        (x.sign() + w.sign() + w).sum().backward(inputs=[x])
        assert x.grad.tolist() == [0.0] * 3
        assert w.grad is None

    def test_under_create_graph(self):
        x, w = leaf(), leaf()
        (x * x * w).sum().backward(inputs=[x], create_graph=True)
        assert grad(x.grad.sum(), w)[0].tolist() == (2 * x).tolist()
        x.grad = None


class TestMemory:
    @pytest.mark.parametrize("make", [lambda x: x * 2, lambda x: x.sin(), one_of_several, itself])
    def test_an_edge_does_not_hold_the_tensor(self, make):
        gc.collect()
        gc.disable()
        try:
            x = leaf()
            y = make(x)
            edge, tensor, base = get_gradient_edge(y), weakref.ref(y), y.array.base
            array = weakref.ref(y.array) if isinstance(y.array, np.ndarray) and base is None else None
            del y, base
            if make is itself:
                del x
            assert tensor() is None
            assert array is None or array() is None
            assert edge.shape == (3,)
        finally:
            gc.enable()

    def test_bytes(self, device):
        tracemalloc.start()
        try:
            count = (lambda: tracemalloc.get_traced_memory()[0]) if device == "cpu" else ag.cuda.memory_allocated
            x = ag.ones(20_000, requires_grad=True)
            before = count()
            y = x + 1
            edge = get_gradient_edge(y)
            assert count() - before >= 80_000
            z = y.sum()
            del y
            assert count() - before < 20_000
            assert grad(z, edge)[0].tolist() == [1.0] * 20_000
        finally:
            tracemalloc.stop()

    def test_a_taken_edge_is_the_old_version(self):
        """What was computed from a tensor is not what it is computed from later."""
        x = leaf()
        y = x.sin()
        edge = get_gradient_edge(y)
        z = y.exp()
        assert grad(z.sum(), edge, retain_graph=True)[0].tolist() == z.tolist()
        del y
        assert grad(z.sum(), edge)[0].tolist() == z.tolist()


def test_a_constant_has_none():
    with pytest.raises(RuntimeError, match="It is not possible to get the gradient edge for a Tensor that does not "
                                           "require gradients"):
        get_gradient_edge(ag.ones(1))


def test_wrong_inputs():
    x = leaf()
    with pytest.raises(TypeError, match="all inputs have to be Tensors or GradientEdges, but got int"):
        grad(x.sum(), [3])
    for call, name in ((lambda: grad(x.sum(), []), "grad"), (lambda: x.sum().backward(inputs=[]), "backward")):
        with pytest.raises(RuntimeError, match=rf"`inputs` argument to `{name}\(\)` cannot be empty"):
            call()


class TestEdges:
    def test_as_input_and_output(self):
        x = leaf(1.0, 2.0)
        y = x * x
        edge = get_gradient_edge(y)
        assert isinstance(edge, GradientEdge)
        assert isinstance(edge.node, Node)
        assert edge.output_nr == 0
        assert grad((y * 3).sum(), edge)[0].tolist() == [3.0, 3.0]
        assert grad(edge, x, ag.ones(2, dtype=ag.float64))[0].tolist() == [2.0, 4.0]

    def test_of_one_output_of_several(self):
        x = leaf(1.0, 2.0)
        a, b = x.unbind()
        edge = get_gradient_edge(b)
        assert edge.output_nr == 1
        assert grad(a * b * 5, edge)[0].item() == 5.0

    def test_needs_grad(self):
        with pytest.raises(RuntimeError, match="does not require"):
            get_gradient_edge(ag.ones(1))
