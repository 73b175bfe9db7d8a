"""The engine: pruning that is counted, order, structural zeros, threads, long chains."""

from __future__ import annotations

import gc
import threading
import time
from typing import ClassVar

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad


def leaf(*shape):
    return ag.randn(*shape, dtype=ag.float64, requires_grad=True)


def leaf_of(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


@pytest.fixture
def x(device):
    return ag.ones(2, requires_grad=True, device=device)


class CountingMul(Function):
    calls: ClassVar[list[str]] = []

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        ga = gb = None
        if ctx.needs_input_grad[0]:
            CountingMul.calls.append("a")
            ga = g * b
        if ctx.needs_input_grad[1]:
            CountingMul.calls.append("b")
            gb = g * a
        return ga, gb


class CountingPow(Function):
    calls: ClassVar[list[str]] = []

    @staticmethod
    def forward(ctx, base, exponent):
        out = base**exponent
        ctx.save_for_backward(base, exponent, out)
        return out

    @staticmethod
    def backward(ctx, g):
        base, exponent, out = ctx.saved_tensors
        gb = gp = None
        if ctx.needs_input_grad[0]:
            CountingPow.calls.append("base")
            gb = g * exponent * base ** (exponent - 1)
        if ctx.needs_input_grad[1]:
            CountingPow.calls.append("exponent")
            gp = g * out * ag.log(base)
        return gb, gp


@pytest.mark.parametrize("through", [False, True], ids=["leaves", "not leaves"])
class TestCustomFunctionsArePruned:
    def test_mul(self, through):
        a, b = leaf(3), leaf(3)
        if through:
            a, b = a * 2, b * 3
        CountingMul.calls.clear()
        (ga,) = grad(CountingMul.apply(a, b).sum(), a, create_graph=True)
        assert CountingMul.calls == ["a"]
        np.testing.assert_allclose(ga.numpy(force=True), b.numpy(force=True))
        (gb,) = grad(ga.sum(), b)  # the gradient g * b is linear in b
        np.testing.assert_allclose(gb.numpy(force=True), np.ones(3))
        assert CountingMul.calls == ["a"]

    def test_pow(self, through):
        b, p = (leaf(3).detach().abs() + 0.5).requires_grad_(), leaf(3)
        if through:
            b, p = b * 2, p * 3
        CountingPow.calls.clear()
        (gp,) = grad(CountingPow.apply(b, p).sum(), p, create_graph=True)
        assert CountingPow.calls == ["exponent"]
        (gb,) = grad(gp.sum(), b)
        assert CountingPow.calls == ["exponent", "base"]
        base, exponent = b.numpy(force=True), p.numpy(force=True)
        expected = base ** (exponent - 1) * (exponent * np.log(base) + 1)
        np.testing.assert_allclose(gb.numpy(force=True), expected)


def rules_of(outputs, inputs):
    with ag.profiler.count() as c:
        grad(outputs, inputs, ag.ones_like(outputs), retain_graph=True)
    return dict(c.rules), dict(c.matmuls)


class TestProductsArePruned:
    def test_linear(self):
        x, w, b = leaf(5, 3), leaf(4, 3), leaf(4)
        y = ag.nn.functional.linear(x, w, b)
        assert rules_of(y, [x]) == ({"linear.grad_x": 1}, {(5, 4, 3): 1})
        assert rules_of(y, [w]) == ({"linear.grad_weight": 1}, {(4, 5, 3): 1})
        assert rules_of(y, [b]) == ({"linear.grad_bias": 1}, {})
        assert rules_of(y, [x, w, b])[1] == {(5, 4, 3): 1, (4, 5, 3): 1}

    def test_matmul(self):
        a, b = leaf(5, 3), leaf(3, 4)
        y = a @ b
        assert rules_of(y, [a])[1] == {(5, 4, 3): 1}
        assert rules_of(y, [b])[1] == {(3, 5, 4): 1}

    def test_addmm(self):
        c, a, b = leaf(5, 4), leaf(5, 3), leaf(3, 4)
        y = ag.addmm(c, a, b)
        assert rules_of(y, [c])[1] == {}
        assert rules_of(y, [a])[1] == {(5, 4, 3): 1}
        assert rules_of(y, [b])[1] == {(3, 5, 4): 1}

    def test_bmm(self):
        a, b = leaf(2, 5, 3), leaf(2, 3, 4)
        y = ag.bmm(a, b)
        assert rules_of(y, [a])[1] == {(2, 5, 4, 3): 1}
        assert rules_of(y, [b])[1] == {(2, 3, 5, 4): 1}

    def test_frozen_weight_saves_no_input(self):
        x, w = leaf(5, 3), leaf(4, 3).detach()
        y = ag.nn.functional.linear(x, w)
        assert [s.tensor is w for _, s in y.grad_fn.saved_by_name()] == [True]

    def test_two_layer_net_for_the_input_only(self):
        x, w1, w2 = leaf(5, 3), leaf(4, 3), leaf(2, 4)
        y = ag.nn.functional.linear(ag.tanh(ag.nn.functional.linear(x, w1)), w2)
        rules, matmuls = rules_of(y, [x])
        assert not [r for r in rules if "weight" in r or "bias" in r]
        assert matmuls == {(5, 2, 4): 1, (5, 4, 3): 1}


class TestStructuralZeros:
    def test_sign_is_used_but_runs_nothing(self):
        x = leaf(3)
        y = ag.exp(x).sign() * 2
        with ag.profiler.count() as c:
            (g,) = grad(y.sum(), x)
        np.testing.assert_array_equal(g.numpy(force=True), np.zeros(3))
        assert not g.requires_grad
        assert "exp.grad_x" not in c.rules
        assert "sign.grad_x" not in c.rules
        assert "mul.grad_a" not in c.rules

    def test_unreached_is_unused(self):
        x, z = leaf(3), leaf(3)
        with pytest.raises(RuntimeError, match="appears to not have been used"):
            grad(ag.sign(x).sum(), z)
        assert grad(ag.sign(x).sum(), [x, z], allow_unused=True)[1] is None
        with pytest.raises(RuntimeError, match="does not require grad"):
            grad((x > 0).sum(), x)

    def test_zero_and_live_path_meet(self):
        x = leaf(3)
        (g,) = grad((ag.sign(x) * x).sum(), x)
        np.testing.assert_allclose(g.numpy(force=True), np.sign(x.numpy(force=True)))

    def test_backward_gives_zeros(self):
        x = leaf(3)
        ag.floor(x * 2).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(force=True), np.zeros(3))

    def test_second_derivative_of_relu_runs_no_product(self):
        x, w = leaf(5, 3), leaf(4, 3)
        y = ag.relu(ag.nn.functional.linear(x, w)).sum()
        (g,) = grad(y, x, create_graph=True)
        with ag.profiler.count() as c:
            (h,) = grad(g.sum(), x)
        np.testing.assert_array_equal(h.numpy(force=True), np.zeros((5, 3)))
        assert not c.matmuls

    def test_hook_behind_zero_runs_on_zeros(self):
        x = leaf(3)
        seen = []
        u = x * 3
        u.register_hook(lambda g: seen.append(g.numpy(force=True).copy()))
        (g,) = grad(ag.sign(u * 2).sum(), x)
        np.testing.assert_array_equal(seen[0], np.zeros(3))
        np.testing.assert_array_equal(g.numpy(force=True), np.zeros(3))

    def test_function_behind_zero_runs_on_zeros(self):
        x, z = leaf(3), leaf(3)
        CountingMul.calls.clear()
        (g,) = grad(ag.sign(CountingMul.apply(x, z)).sum(), x)
        assert CountingMul.calls == ["a"]
        np.testing.assert_array_equal(g.numpy(force=True), np.zeros(3))


class TestTopologicalNumbers:
    def test_numbers(self):
        x = leaf(2)
        y = x * 2
        z = y * y + x
        assert y.grad_fn._topological_nr() == 1
        assert z.grad_fn._topological_nr() == 3
        assert x.sin().grad_fn.next_functions[0][0]._topological_nr() == 0
        assert z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr()

    def test_discovery_stops_at_the_newest_weights(self, monkeypatch):
        w = leaf(2)
        visited = []
        real = ag.core.engine.task.GraphTask.walk
        monkeypatch.setattr(ag.core.engine.task.GraphTask, "walk",
                            lambda self: (real(self), visited.append(len(self.nodes)))[0])
        for _ in range(50):
            loss = (w * w).sum()
            (g,) = grad(loss, w, create_graph=True)
            w = w - g * 0.1
        assert len(set(visited[1:])) == 1, "each step visits the same number of nodes"


def test_two_threads_on_one_node():
    """Each call sees its own needs: nothing about a call is kept on the graph."""
    rounds, errors = 1000, []
    a, b = leaf(3), leaf(3)
    y = CountingMulPerThread.apply(a, b)
    g = ag.ones(3, dtype=ag.float64)
    barrier = threading.Barrier(2)

    def work(reference, expected):
        try:
            barrier.wait()
            for _ in range(rounds):
                SEEN.needs = None
                (got,) = grad(y, reference, g, retain_graph=True)
                assert SEEN.needs == (reference is a, reference is b)
                np.testing.assert_array_equal(got.numpy(force=True), expected.numpy(force=True))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=args) for args in ((a, b), (b, a))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


SEEN = threading.local()


class CountingMulPerThread(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        first = ctx.needs_input_grad
        time.sleep(0)  # give the other thread a chance to interfere
        SEEN.needs = ctx.needs_input_grad
        assert first == SEEN.needs
        return (g * b if first[0] else None), (g * a if first[1] else None)


@pytest.mark.more
@pytest.mark.cpu
def test_chain_of_a_million_nodes():
    x = ag.ones(1, requires_grad=True)
    gc.disable()  # a million young nodes would make the collector run for nothing
    try:
        y = x
        for _ in range(1_000_000):
            y = -y
        (g,) = grad(y, x)
        del y
    finally:
        gc.enable()
    assert g.item() == 1.0


class TestOrder:
    def test_leaf_fires_as_soon_as_complete(self):
        order = []
        early, late = leaf(2), leaf(2)
        h = late.sin()
        y = (h * early).sum()
        early.register_post_accumulate_grad_hook(lambda t: order.append("early leaf"))
        late.register_post_accumulate_grad_hook(lambda t: order.append("late leaf"))
        h.register_hook(lambda g: order.append("inner node"))
        y.backward()
        assert order == ["early leaf", "inner node", "late leaf"]

    def test_highest_sequence_number_first(self):
        order = []
        x = leaf(2)
        a, b = x * 2, x * 3
        for name, t in (("a", a), ("b", b)):
            t.grad_fn.register_prehook(lambda gs, name=name: order.append(name))
        (a + b).sum().backward()
        assert order == ["b", "a"]


class TestAccumulation:
    def test_grads_do_not_alias(self):
        a, b = leaf(3), leaf(3)
        g = ag.ones(3, dtype=ag.float64)
        (a + b).backward(g)
        assert not np.shares_memory(a.grad.array, b.grad.array)
        assert not np.shares_memory(a.grad.array, g.array)
        a.grad.array[...] = 7
        assert b.grad.tolist() == [1.0] * 3
        assert g.tolist() == [1.0] * 3

    def test_second_backward_adds_in_place(self):
        x = leaf(3)
        (x * 2).sum().backward()
        first = x.grad
        (x * 3).sum().backward()
        assert x.grad is first
        assert first.tolist() == [5.0] * 3

    def test_fan_out_does_not_write_into_the_users_gradient(self):
        x = leaf(3)
        y = x + 0
        z = (y + y) + (y + y)
        g = ag.ones(3, dtype=ag.float64)
        (got,) = grad(z, x, g)
        assert g.tolist() == [1.0] * 3
        assert got.tolist() == [4.0] * 3

    def test_inputs_argument(self):
        a, b = leaf(2), leaf(2)
        ag.autograd.backward((a * b).sum(), inputs=[a])
        assert b.grad is None
        np.testing.assert_allclose(a.grad.numpy(force=True), b.numpy(force=True))

    def test_inputs_argument_runs_the_leafs_hooks(self):
        seen = []
        a, b = leaf(2), leaf(2)
        for t in (a, b):
            t.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
        ag.autograd.backward((a * b).sum(), inputs=[a])
        assert seen == [b.tolist()]

    def test_error_in_a_node_leaves_the_graph_usable(self):
        fail = [True]
        x = leaf(3)
        y = (x * x).sum()
        handle = y.register_hook(lambda g: 1 / 0 if fail[0] else None)
        with pytest.raises(ZeroDivisionError):
            y.backward()
        assert x.grad is None
        handle.remove()
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(force=True), 2 * x.numpy(force=True))

    def test_gradient_of_a_sum_can_be_written_to(self):
        x = leaf(3)
        (g,) = grad(x.sum(), x)
        g.add_(1)
        assert g.tolist() == [2.0] * 3

    def test_hook_on_an_accumulator(self):
        seen = []
        x = leaf(3)
        y = x * 2
        y.grad_fn.next_functions[0][0].register_hook(lambda grads, gs: seen.append((grads, gs[0].tolist())))
        y.sum().backward()
        assert seen == [((), [2.0] * 3)]


class TestHalfPrecision:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_broadcast_gradients_are_summed_in_float32(self, dtype):
        x = ag.zeros(1, dtype=dtype, requires_grad=True)
        (g,) = grad((x + ag.zeros(4000, dtype=dtype)), x, ag.ones(4000, dtype=dtype))
        assert g.dtype == dtype
        assert abs(g.item() - 4000) <= 16  # the spacing of bfloat16 there


def test_recorded_gradients_are_copies():
    x, z, g = leaf_of(1.0), leaf_of(1.0), leaf_of(1.0).detach()
    (x + z).backward(g, create_graph=True)
    (x * 5).sum().backward()
    assert (x.grad.item(), z.grad.item(), g.item()) == (6.0, 1.0, 1.0)


def test_retained_gradients_are_copies():
    x, g = leaf_of(1.0), leaf_of(1.0).detach()
    y = x + 1
    w = y + 1
    y.retain_grad()
    w.retain_grad()
    w.backward(g)
    y.grad.zero_()
    assert (w.grad.item(), g.item()) == (1.0, 1.0)


def test_same_input_twice_counts_once():
    x = leaf_of(1.0)
    ag.autograd.backward(x * 3, inputs=[x, x])
    assert x.grad.item() == 3.0


class TestWatchedAboveZero:
    def test_hook_retain_grad_and_function(self):
        calls = []

        class F(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                calls.append("F")
                return g * 2

        x = leaf_of(0.3, 0.6)
        y = x.sign()
        y.retain_grad()
        y.register_hook(lambda g: calls.append("hook"))
        F.apply(y).sum().backward()
        assert y.grad.tolist() == [2.0, 2.0]
        assert calls == ["F", "hook"]
        assert x.grad.tolist() == [0.0, 0.0]
        calls.clear()
        assert grad(F.apply(x.sign()).sum(), x)[0].tolist() == [0.0, 0.0]
        assert calls == ["F"]

    def test_hooks_of_a_leaf_behind_zero(self):
        calls = []
        x = leaf_of(0.3)
        x.register_hook(lambda g: calls.append(g.tolist()))
        x.register_post_accumulate_grad_hook(lambda t: calls.append("done"))
        x.sign().sum().backward()
        assert calls == [[0.0], "done"]
        grad(x.sign().sum(), x)
        assert calls[2:] == [[0.0]]

    def test_leaf_reached_both_ways_fires_once(self):
        calls = []
        x = leaf_of(2.0)
        x.register_hook(lambda g: calls.append(g.tolist()))
        (x.sign() + x * 3).sum().backward()
        assert calls == [[3.0]]


class TestHooksBeforeZeroEdges:
    """A node that is watched runs although nothing behind it is needed, whatever asks for the gradient."""

    @pytest.mark.parametrize("make", [lambda x: (x * 1).zero_(), lambda x: (x * 1).floor(), lambda x: x.sign()])
    def test_tensor_hooks(self, make, x):
        seen = []
        y = make(x)
        y.register_hook(lambda g: seen.append(g.tolist()))
        assert grad(y.sum(), x, retain_graph=True)[0].tolist() == [0.0, 0.0]
        y.sum().backward(inputs=[x])
        assert seen == [[1.0, 1.0]] * 2

    def test_retain_grad(self, x):
        y = (x * 1).floor()
        y.retain_grad()
        grad(y.sum(), x)
        assert y.grad.tolist() == [1.0, 1.0]
