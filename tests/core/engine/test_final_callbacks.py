"""Callbacks at the end of a backward: order, failures, nested and reentrant backwards."""

from __future__ import annotations

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad
from autograd_gpu.autograd.graph import on_node_start, queue_callback


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


class TestCallbacks:
    def test_run_at_the_end_in_order(self):
        log = []
        x = leaf()

        def hook(g):
            queue_callback(lambda: (log.append(("one", x.grad.tolist())), queue_callback(lambda: log.append("nested"))))
            queue_callback(lambda: log.append("two"))

        y = x * 2
        y.register_hook(hook)
        y.sum().backward(retain_graph=True)
        assert log == [("one", [2.0] * 3), "two", "nested"]
        y.sum().backward()
        assert len(log) == 6

    def test_outside(self):
        with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
            queue_callback(print)
        y = leaf() * 2
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
            queue_callback(print)

    def test_raising(self):
        log = []
        x = leaf()
        y = x * 2

        def fail():
            raise KeyError("in a callback")

        y.register_hook(lambda g: queue_callback(fail) or queue_callback(lambda: log.append("after")))
        with pytest.raises(KeyError, match="in a callback"):
            y.sum().backward()
        assert not log
        assert x.grad.tolist() == [2.0] * 3

    def test_not_after_a_failure(self):
        log = []
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: queue_callback(lambda: log.append("called")))
        x.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert not log

    def test_belong_to_the_innermost_task(self):
        log = []
        x = leaf()
        y, inner = x * 2, (leaf() * 3).sum()
        inner.register_hook(lambda g: queue_callback(lambda: log.append("inner")))

        def hook(g):
            queue_callback(lambda: log.append("outer"))
            inner.backward()
            log.append("hook")

        y.register_hook(hook)
        y.sum().backward()
        assert log == ["inner", "hook", "outer"]

    def test_from_a_functions_backward(self):
        log = []

        class Twice(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                queue_callback(lambda: log.append("done"))
                return g * 2

        x = leaf()
        assert grad(Twice.apply(x).sum(), x)[0].tolist() == [2.0] * 3
        assert log == ["done"]

    @pytest.mark.parametrize("levels", [3, 100])  # 100: on helper threads
    def test_in_reentrant_backwards(self, levels):
        log = []

        class Deeper(Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.n = n
                return x * 2

            @staticmethod
            def backward(ctx, g):
                queue_callback(lambda: log.append(ctx.n))
                if ctx.n:
                    with ag.enable_grad():
                        Deeper.apply(ag.ones(1, requires_grad=True), ctx.n - 1).backward()
                return g * 2, None

        started = []
        with on_node_start(lambda node: started.append(node.name())):
            Deeper.apply(ag.ones(1, requires_grad=True), levels).backward()
        assert log == list(range(levels + 1))
        assert started.count("DeeperBackward") == levels + 1
