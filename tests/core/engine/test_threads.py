"""Backward from many threads: over shared and separate graphs, with modes and hooks of each thread's own."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from effort import fewer

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad
from autograd_gpu.autograd.graph import on_node_start, queue_callback, register_multi_grad_hook

THREADS, TIMES = 8, fewer(500, 5)


@pytest.fixture(autouse=True)
def _switch_often():
    """Threads take turns as often as they can, so that what is not safe shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


def together(work, count=THREADS):
    """Runs `work(i)` in `count` threads, which start at once; returns what they return, raises what they raise."""
    results, errors, barrier = [None] * count, [], threading.Barrier(count)

    def body(i):
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class TestSums:
    def test_retained_gradients(self):
        x = leaf()
        y = x * 2
        y.retain_grad()
        z = y.sum()

        def work(i):
            for _ in range(2 * TIMES):
                z.backward(retain_graph=True)

        together(work)
        assert y.grad.tolist() == [2.0 * TIMES * THREADS] * 3
        assert x.grad.tolist() == [4.0 * TIMES * THREADS] * 3

    def test_steps_in_backward_apply_each_gradient_once(self):
        x, y = leaf(0.0, 0.0), leaf(0.0)
        optimizer = ag.optim.SGD([x, y], lr=1.0)  # takes the sum of all gradients off
        ag.optim.step_in_backward(optimizer)

        def work(i):
            for _ in range(TIMES):
                (x.sum() + (y * 2).sum()).backward()

        together(work)
        assert x.grad is None
        assert y.grad is None
        assert x.tolist() == [-TIMES * THREADS] * 2
        assert y.tolist() == [-2 * TIMES * THREADS]
        assert optimizer._ag_steps_taken == TIMES * THREADS

    def test_graphs_of_their_own_over_one_leaf(self):
        x = leaf()

        def work(i):
            for _ in range(TIMES):
                (x * (i + 1)).sum().backward()

        together(work)
        assert x.grad.tolist() == [TIMES * sum(range(1, THREADS + 1))] * 3

    def test_one_shared_graph(self):
        x = leaf()
        y = (x * x).sum()

        def work(i):
            for _ in range(TIMES):
                y.backward(retain_graph=True)

        together(work)
        assert x.grad.tolist() == (2 * THREADS * TIMES * x).tolist()

    def test_products_that_may_be_added_into_the_grad(self):
        w, x = ag.ones(2, 2, requires_grad=True), ag.ones(3, 2)

        def work(i):
            for _ in range(50):
                (x @ w).sum().backward()

        together(work)
        assert w.grad.tolist() == [[THREADS * 50 * 3.0] * 2] * 2

    def test_hooks_see_every_gradient_once(self):
        x, seen, lock = leaf(), [0], threading.Lock()
        y = (x * 2).sum()

        def hook(g):
            with lock:
                seen[0] += 1

        x.register_hook(hook)
        together(lambda i: [y.backward(retain_graph=True) for _ in range(100)])
        assert seen == [THREADS * 100]
        assert x.grad.tolist() == [2.0 * THREADS * 100] * 3

    def test_graphs_apart(self):
        def work(i):
            ag.manual_seed(i)
            w = ag.randn(4, 4, requires_grad=True)
            for _ in range(50):
                (w @ w).sin().sum().backward()
            return w, w.grad

        for w, g in together(work):
            (once,) = grad((w @ w).sin().sum(), w)
            np.testing.assert_allclose(g.numpy(force=True), 50 * once.numpy(force=True), rtol=1e-4, atol=1e-4)

    def test_without_retain_graph_one_thread_wins(self):
        """The others find the buffers freed: an error, not a wrong gradient."""
        x = leaf()
        y = x.exp().sum()

        def work(i):
            try:
                return grad(y, x)[0].tolist()
            except RuntimeError as error:
                return str(error)

        results = together(work)
        actual = [result for result in results if isinstance(result, list)]
        assert actual
        assert all(result == x.exp().tolist() for result in actual)
        assert all("backward through the graph a second time" in text for text in results if text not in actual)

    def test_create_graph(self):
        x = leaf()

        def work(i):
            (g,) = grad((x**3).sum(), x, create_graph=True)
            return grad(g.sum(), x)[0].tolist()

        assert together(work) == [(6 * x).tolist()] * THREADS


class TestNeeds:
    def test_of_one_node_are_each_tasks_own(self):
        """Half of the threads ask one node for one input's gradient, half for the other's."""

        class Product(Function):
            @staticmethod
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx, g):
                before = ctx.needs_input_grad
                a, b = ctx.saved_tensors
                grads = g * b if before[0] else None, g * a if before[1] else None
                assert ctx.needs_input_grad == before
                asked.append((threading.get_ident(), before))
                return grads

        asked = []
        a, b = leaf(), leaf(4.0, 5.0, 6.0)
        y = Product.apply(a, b).sum()

        def work(i):
            for _ in range(100):
                (g,) = grad(y, b if i % 2 else a, retain_graph=True)
                assert g.tolist() == (a if i % 2 else b).tolist()
            return threading.get_ident(), bool(i % 2)

        which = dict(together(work))
        assert len(asked) == THREADS * 100
        assert all(needs == (not which[thread], which[thread]) for thread, needs in asked)

    def test_rules_called(self):
        a, b = leaf(), leaf()
        y = (a * b).sum()
        with ag.profiler.count() as counts:
            together(lambda i: [grad(y, b if i % 2 else a, retain_graph=True) for _ in range(100)])
        assert counts.rules["mul.grad_a"] == counts.rules["mul.grad_b"] == THREADS * 50


class TestThreadLocal:
    def test_on_node_start(self):
        seen = {i: set() for i in range(THREADS)}
        x = leaf()

        def work(i):
            if i % 2:
                for _ in range(50):
                    (x * 2).sum().backward()
                return
            with on_node_start(lambda node: seen[i].add(threading.get_ident())):
                for _ in range(50):
                    (x * 2).sum().backward()
            assert seen[i] == {threading.get_ident()}

        together(work)
        assert [bool(actual) for actual in seen.values()] == [True, False] * (THREADS // 2)

    def test_modes(self):
        def work(i):
            for _ in range(50):
                with ag.set_grad_enabled(i % 2 == 0), ag.autograd.set_detect_anomaly(i % 4 < 2, check_nan=i % 3 == 0):
                    assert ag.is_grad_enabled() == (i % 2 == 0)
                    assert ag.is_anomaly_enabled() == (i % 4 < 2)
                    assert ag.is_anomaly_check_nan_enabled() == (i % 3 == 0)
                    y = leaf() * 2
                    assert y.requires_grad == (i % 2 == 0)
                    if i % 2 == 0:
                        assert ("traceback_" in y.grad_fn.metadata) == (i % 4 < 2)

        together(work)
        assert ag.is_grad_enabled()
        assert not ag.is_anomaly_enabled()

    def test_callbacks_and_gathered_gradients_belong_to_the_task(self):
        x, w = leaf(), leaf()
        y = x * w
        z = y.sum()
        gathered, called = [], []
        register_multi_grad_hook([x, y, w], lambda gs: gathered.append([g is not None for g in gs]))
        register_multi_grad_hook([x, y, w], lambda g: called.append(threading.get_ident()), mode="any")
        done = []
        y.register_hook(lambda g: queue_callback(lambda: done.append(threading.get_ident())))

        def work(i):
            for _ in range(50):
                if i % 2:
                    z.backward(retain_graph=True)
                else:
                    grad(z, w, retain_graph=True)
            return threading.get_ident()

        threads = together(work)
        assert sorted(done) == sorted(called) == sorted(threads * 50)
        assert gathered.count([True] * 3) == gathered.count([False, True, True]) == THREADS * 25

    def test_no_task_of_another_thread(self):
        """queue_callback looks at its own thread."""
        inside, outside = threading.Event(), []
        y = leaf() * 2

        def other():
            inside.wait()
            try:
                queue_callback(print)
            except RuntimeError as error:
                outside.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        y.register_hook(lambda g: inside.set() or thread.join())
        y.sum().backward()
        assert outside == ["Final callbacks can only be installed during backward pass."]


def test_hooks_are_registered_and_removed_meanwhile():
    x = leaf()
    y = (x * 2).sum()

    def work(i):
        for _ in range(100):
            if i % 2:
                with x.register_hook(lambda g: None), y.grad_fn.register_prehook(lambda gs: None):
                    pass
            else:
                y.backward(retain_graph=True)

    together(work)
    assert x.grad.tolist() == [2.0 * 100 * THREADS / 2] * 3


def test_reentrant_backwards_in_threads():
    class Deeper(Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.n = n
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.n:
                with ag.enable_grad():
                    x = ag.ones(1, requires_grad=True)
                    Deeper.apply(x, ctx.n - 1).backward()
                    assert x.grad.item() == 2.0
            return g * 2, None

    def work(i):
        x = ag.ones(1, requires_grad=True)
        Deeper.apply(x, 70).backward()
        return x.grad.item()

    assert together(work, 4) == [2.0] * 4
