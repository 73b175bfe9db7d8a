"""Hooks on several tensors: called with all gradients or with the first one, once for each backward."""

from __future__ import annotations

import weakref

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad
from autograd_gpu.autograd.graph import register_multi_grad_hook


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


class TestMultiGradHook:
    def test_all(self):
        log = []
        x, w = leaf(), leaf()
        y = x * 2
        u, v = y * w, y * w
        handle = register_multi_grad_hook((x, w, u, v), lambda gs: log.append([g is not None for g in gs]))
        u.sum().backward(retain_graph=True)
        (u + v).sum().backward(retain_graph=True)
        u.sum().backward(inputs=[x], retain_graph=True)
        grad(u.sum(), u, retain_graph=True)
        assert log == [[True, True, True, False], [True] * 4, [True, False, True, False], [False, False, True, False]]
        log.clear()
        grad(u.sum(), [w], retain_graph=True)  # PyTorch cannot
        grad((y * 1).sum(), y, retain_graph=True)
        assert log == [[False, True, True, False]]
        handle.remove()
        u.sum().backward()
        assert len(log) == 1

    def test_all_is_called_as_soon_as_the_last_one_is_there(self):
        order = []
        x, w = leaf(), leaf()
        h = x.sin()
        register_multi_grad_hook([h, w], lambda gs: order.append([g.tolist() for g in gs]))
        h.grad_fn.register_prehook(lambda gs: order.append("node"))
        (h * w).sum().backward()
        assert order == [[w.tolist(), h.tolist()], "node"]

    def test_a_gradient_that_does_not_come(self):
        """Known only at the end of the task: then the hook is called with the others."""
        log = []

        class Nothing(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return None

        x, w = leaf(), leaf()
        h = x * 1
        register_multi_grad_hook([h, w], lambda gs: log.append([g is not None for g in gs]))
        (Nothing.apply(h) * w).sum().backward()
        assert log == [[False, True]]

    def test_outputs_of_one_node(self):
        log = []
        x = leaf(1.0, 2.0)
        a, b = x.split(1)
        register_multi_grad_hook((a, b, x), lambda gs: log.append([None if g is None else g.tolist() for g in gs]))
        a.sum().backward()
        assert log == [[[1.0], None, [1.0, 0.0]]]

    def test_the_same_tensor_twice(self):
        log = []
        x = leaf()
        register_multi_grad_hook((x, x), lambda gs: log.append(len(gs)))
        (x * 2).sum().backward()
        assert log == [2]

    def test_any(self):
        log = []
        x = leaf()
        y = x * 2
        z = y * 3
        handle = register_multi_grad_hook((x, y, z, ag.ones(1)), lambda g: log.append(g.tolist()), mode="any")
        for _ in range(2):
            z.sum().backward(retain_graph=True)
        assert log == [[1.0] * 3] * 2
        handle.remove()
        z.sum().backward()
        assert len(log) == 2

    def test_each_of_two_nested_tasks_has_its_own(self):
        log = []
        x = leaf()
        y = x * 2
        register_multi_grad_hook((x, y), lambda gs: log.append([g is not None for g in gs]))
        other = (x * 5).sum()
        y.register_hook(lambda g: other.backward())
        y.sum().backward()
        assert log == [[True, False], [True, True]]

    def test_a_hook_that_raises_leaves_nothing_behind(self):
        fail = [True]
        log = []
        x = leaf()
        y = x * 2
        register_multi_grad_hook((x, y), lambda gs: 1 / 0 if fail[0] else log.append(len(gs)))
        with pytest.raises(ZeroDivisionError):
            y.sum().backward(retain_graph=True)
        fail[0] = False
        y.sum().backward()
        assert log == [2]

    def test_no_circle(self, no_gc):
        x = leaf()
        y = x * 2
        z = y.exp()
        register_multi_grad_hook((x, y, z), lambda gs: None)
        alive = [weakref.ref(held) for held in (x, y.grad_fn, z.grad_fn, z.grad_fn._saved_result._storage)]
        del x, y, z
        assert [ref() for ref in alive] == [None] * 4

    def test_tensor_that_is_gone(self):
        log, x = [], leaf()
        y, unused = x * 2, x * 3
        register_multi_grad_hook((y, unused), log.append)
        del unused
        y.sum().backward()
        assert [[g is not None for g in grads] for grads in log] == [[True, False]]

    def test_refused(self):
        x = leaf()
        with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got some"):
            register_multi_grad_hook([x], print, mode="some")
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            register_multi_grad_hook([x, ag.ones(1)], print)
        with pytest.raises(TypeError, match="expected Tensors, got int"):
            register_multi_grad_hook([x, 3], print)
