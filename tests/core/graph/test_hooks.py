"""Hooks on tensors and nodes: their order, their answers, their handles; hooks on several tensors, nodes and tasks."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad
from autograd_gpu.utils.hooks import RemovableHandle


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


def accumulator(x):
    return ag.autograd.graph.get_gradient_edge(x).node


class TestOrder:
    """Tensor hooks, retain_grad, the capture, node pre-hooks, the node, post-hooks; of a leaf, behind the addition to
    `.grad`, post-accumulate hooks before the node's."""

    def test_of_a_node_that_is_captured_too(self):
        order = []

        class Step(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                order.append(("node", g.item()))
                return g * 7

        x = leaf(1.0)
        y = Step.apply(x)
        y.retain_grad()
        y.register_hook(lambda g: order.append(("tensor", g.item())) or g * 2)
        y.register_hook(lambda g: order.append(("tensor again", g.item())) or g * 3)
        y.grad_fn.register_prehook(lambda gs: order.append(("pre", gs[0].item())) or (gs[0] * 5,))
        y.grad_fn.register_hook(
            lambda grads, gs: order.append(("post", grads[0].item(), gs[0].item())) or (grads[0] * 11,))
        captured, inner = grad(y * 1, [y, x])
        assert order == [("tensor", 1.0), ("tensor again", 2.0), ("pre", 6.0), ("node", 30.0), ("post", 210.0, 30.0)]
        assert y.grad.item() == 6.0  # after the tensor hooks, before the pre-hook
        assert captured.item() == 6.0
        assert inner.item() == 2310.0

    def test_of_a_leaf(self):
        order = []
        x = leaf(1.0)
        y = x * 2
        node = accumulator(x)
        x.register_post_accumulate_grad_hook(lambda t: order.append(("post-accumulate", t is x, x.grad.item())))
        node.register_hook(lambda grads, gs: order.append(("post", grads, gs[0].item())))
        node.register_prehook(lambda gs: order.append(("pre", gs[0].item(), x.grad)) or (gs[0] * 5,))
        x.register_hook(lambda g: order.append(("tensor", g.item())) or g * 3)
        y.backward(retain_graph=True)
        everything = [("tensor", 2.0), ("pre", 6.0, None), ("post-accumulate", True, 30.0), ("post", (), 30.0)]
        assert order == everything
        x.grad = None
        order.clear()
        y.backward(inputs=[x], retain_graph=True)
        assert order == everything
        order.clear()
        assert grad(y, x)[0].item() == 6.0  # a captured leaf's accumulator does not run
        assert order == [("tensor", 2.0)]

    def test_leaf_of_backward_inputs_fires_in_mid_backward(self):
        order = []
        early, late = leaf(), leaf()
        h = late.sin()
        h.register_hook(lambda g: order.append("inner node"))
        early.register_post_accumulate_grad_hook(lambda t: order.append("early leaf"))
        (h * early).sum().backward(inputs=[early, late])
        assert order == ["early leaf", "inner node"]

    def test_backward_inputs_computes_nothing_else(self):
        a, b = leaf(), leaf()
        y = (a.sin() * b.cos()).sum()
        with ag.profiler.count() as counts:
            y.backward(inputs=[b])
        assert a.grad is None
        assert "sin.grad_x" not in counts.rules
        np.testing.assert_allclose(b.grad.numpy(force=True), (-a.sin() * b.sin()).numpy(force=True))

    def test_backward_inputs_of_an_inner_tensor_retains_its_grad(self):
        x = leaf()
        y = x * 2
        (y * 3).sum().backward(inputs=[y], retain_graph=True)
        assert y.retains_grad
        assert y.grad.tolist() == [3.0] * 3
        assert x.grad is None
        (y * 3).sum().backward(inputs=[y, x])
        assert y.grad.tolist() == [6.0] * 3
        assert x.grad.tolist() == [6.0] * 3

    def test_backward_inputs_calls_no_hooks_of_the_node_of_an_inner_tensor(self):
        order = []
        y = leaf() * 2
        y.grad_fn.register_prehook(lambda gs: order.append("node"))
        y.grad_fn.register_hook(lambda grads, gs: order.append("node"))
        y.register_hook(lambda g: order.append("tensor"))
        (y * 3).sum().backward(inputs=[y])
        (y * 3).sum().backward(inputs=[ag.autograd.graph.get_gradient_edge(y)])
        assert order == ["tensor", "tensor"]


class TestWhileRunning:
    """Who takes part is decided when a kind's turn comes, as in PyTorch."""

    @pytest.mark.parametrize("kind", ["tensor", "pre", "post", "post-accumulate"])
    def test_removing_another_and_adding_one(self, kind):
        log = []
        x = leaf()
        y = x * 2
        register = {"tensor": y.register_hook, "pre": y.grad_fn.register_prehook, "post": y.grad_fn.register_hook,
                    "post-accumulate": x.register_post_accumulate_grad_hook}[kind]

        def first(*args):
            log.append("first")
            second.remove()
            if len(log) < 3:
                register(lambda *args: log.append("added"))

        register(first)
        second = register(lambda *args: log.append("second"))
        y.sum().backward(retain_graph=True)
        assert log == ["first", "second"]
        y.sum().backward()
        assert log == ["first", "second", "first", "added"]

    @pytest.mark.parametrize("kind", ["tensor", "pre", "post", "post-accumulate"])
    def test_removing_itself(self, kind):
        log = []
        x = leaf()
        y = x * 2
        register = {"tensor": y.register_hook, "pre": y.grad_fn.register_prehook, "post": y.grad_fn.register_hook,
                    "post-accumulate": x.register_post_accumulate_grad_hook}[kind]
        handle = register(lambda *args: log.append(kind) or handle.remove())
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert log == [kind]

    def test_pre_hook_registers_the_first_post_hook(self):
        log = []
        y = leaf() * 2
        node = y.grad_fn

        def pre(gs):
            log.append("pre")
            node.register_hook(lambda grads, gs: log.append("post"))

        node.register_prehook(pre)
        y.sum().backward()
        assert log == ["pre", "post"]

    @pytest.mark.parametrize("kind", ["tensor", "pre", "post", "leaf", "post-accumulate"])
    def test_raising_leaves_the_graph_usable(self, kind):
        x, w = leaf(), leaf()
        y = x * 2
        z = (y * w).sum()
        register = {"tensor": y.register_hook, "pre": y.grad_fn.register_prehook, "post": y.grad_fn.register_hook,
                    "leaf": x.register_hook, "post-accumulate": x.register_post_accumulate_grad_hook}[kind]
        handle = register(lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            z.backward(retain_graph=True)
        assert x.grad is None or x.grad.tolist() == (2 * w).tolist()  # old or complete
        assert (x.grad is not None) == (kind == "post-accumulate")
        handle.remove()
        x.grad = w.grad = None
        z.backward()
        assert x.grad.tolist() == (2 * w).tolist()
        assert w.grad.tolist() == y.tolist()


def wrong(name):
    """The answers of hooks that PyTorch refuses."""
    return {
        "no tensor": (lambda g: 1, TypeError, "expected Variable, but hook returned 'int'"),
        "size": (lambda g: g[:2], RuntimeError, "hook '<lambda>' has changed the size of value"),
        "dtype": (lambda g: g.to(ag.float32), RuntimeError, "hook '<lambda>' has changed the type of value"),
    }[name]


class TestAnswers:
    @pytest.mark.parametrize("name", ["no tensor", "size", "dtype"])
    def test_of_a_tensor_hook(self, name):
        hook, error, text = wrong(name)
        y = leaf() * 2
        y.register_hook(hook)
        with pytest.raises(error, match=text):
            y.sum().backward()

    @pytest.mark.parametrize("name", ["no tensor", "size", "dtype"])
    def test_of_a_node(self, name):
        answer, error, text = wrong(name)
        for register in ("register_prehook", "register_hook"):
            y = leaf() * leaf()
            several = (lambda gs: (answer(gs[0]),)) if register == "register_prehook" else (
                lambda grads, gs: (None, answer(grads[1])))
            getattr(y.grad_fn, register)(several)
            with pytest.raises(error, match=text.replace("<lambda>", ".*")):
                y.sum().backward()

    @pytest.mark.parametrize(("answer", "error", "text"), [
        (lambda gs: gs[0], TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda gs: [gs[0]], TypeError, "expected tuple, but hook returned 'list'"),
        (lambda gs: (gs[0],) * 3, RuntimeError,
         r"hook '.*' has returned an incorrect number of values \(got 3, but expected [12]\)"),
    ])
    def test_tuples(self, answer, error, text):
        y = leaf() * leaf()
        handle = y.grad_fn.register_prehook(answer)
        with pytest.raises(error, match=text):
            y.sum().backward()
        handle.remove()
        y.grad_fn.register_hook(lambda grads, gs: answer(grads))
        with pytest.raises(error, match=text):
            y.sum().backward()

    def test_none_cannot_be_replaced(self):
        y = leaf() * 2
        y.grad_fn.register_hook(lambda grads, gs: (grads[0], grads[0]))
        with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
            y.sum().backward()

    def test_none_in_a_tuple_takes_the_gradient_away(self):
        for register, answer in (("register_hook", lambda grads, gs: (None, None)),
                                 ("register_prehook", lambda gs: (None,))):
            x = leaf()
            y = x * 2
            getattr(y.grad_fn, register)(answer)
            y.sum().backward()
            assert x.grad is None
        x = leaf()
        accumulator(x).register_prehook(lambda gs: (None,))
        x.sum().backward()
        assert x.grad is None

    def test_a_post_accumulate_hook_returns_none(self):
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t: t)
        with pytest.raises(RuntimeError, match="Tensor post accumulate grad hooks should return None"):
            x.sum().backward()

    def test_post_hooks_see_gradients_of_the_inputs_shapes(self):
        shapes = []
        a, b = ag.ones(3, requires_grad=True), ag.ones(2, 3, requires_grad=True)
        y = a * b
        y.grad_fn.register_hook(lambda grads, gs: shapes.extend(g.shape for g in grads) or (grads[0] * 2, None))
        y.sum().backward()
        assert shapes == [(3,), (2, 3)]
        assert a.grad.tolist() == [4.0] * 3
        assert b.grad is None

    def test_where_there_is_no_gradient_to_hook(self):
        for call in (ag.ones(2).register_hook, ag.ones(2).register_post_accumulate_grad_hook):
            with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
                call(print)
        with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
            (leaf() * 2).register_post_accumulate_grad_hook(print)

    def test_of_one_view_of_several_when_another_gets_the_gradient(self):
        """PyTorch calls it with None in the second backward."""
        seen = []
        a, b = leaf(1.0, 2.0).unbind()
        a.register_hook(lambda g: seen.append(g.item()))
        a.backward(retain_graph=True)
        b.backward()
        assert seen == [1.0]

    def test_of_views_before_a_write(self):
        """PyTorch calls only the hook of the later value."""
        seen = []
        base = leaf(1.0) * 1
        view, other = base[:], base[:]
        view.register_hook(lambda g: seen.append(("view before", g.tolist())))
        other.register_hook(lambda g: seen.append(("other before", g.tolist())))
        view.mul_(2)
        other.register_hook(lambda g: seen.append(("other after", g.tolist())))
        (view + other).sum().backward()
        assert seen == [("other after", [1.0]), ("view before", [4.0])]

    def test_several_outputs(self):
        log = []
        x = leaf(1.0, 2.0, 3.0, 4.0)
        a, b = x.split(2)
        a.register_hook(lambda g: log.append(("a", g.tolist())) or g * 2)
        b.register_hook(lambda g: log.append("b"))
        node = a.grad_fn
        node.register_prehook(lambda gs: log.append(("pre", gs[0].tolist(), gs[1])) or (gs[0] * 5, None))
        node.register_hook(lambda grads, gs: log.append(("post", grads[0].tolist(), gs[0].tolist(), gs[1])))
        a.sum().backward()
        assert log == [("a", [1.0, 1.0]), ("pre", [2.0, 2.0], None),
                       ("post", [10.0, 10.0, 0.0, 0.0], [10.0, 10.0], None)]
        assert x.grad.tolist() == [10.0, 10.0, 0.0, 0.0]

    def test_under_create_graph_hooks_are_differentiated(self):
        x, s = leaf(1.0, 2.0), leaf(3.0, 3.0)
        y = x * x
        y.register_hook(lambda g: g * s)
        y.grad_fn.register_prehook(lambda gs: (gs[0] * s,))
        y.grad_fn.register_hook(lambda grads, gs: (grads[0] * s, None))
        with x.register_hook(lambda g: g * s):
            (g,) = grad(y.sum(), x, create_graph=True)  # x s^4: the post-hook takes the second factor's gradient away
        assert g.tolist() == [81.0, 162.0]
        dx, ds = grad(g.sum(), [x, s])
        assert dx.tolist() == [81.0] * 2
        assert ds.tolist() == [108.0, 216.0]  # 4 x s^3


class TestHandles:
    def test_ids_and_context_manager(self):
        x = leaf()
        first, second = x.register_hook(print), x.register_hook(print)
        assert isinstance(first, RemovableHandle)
        assert second.id > first.id
        with x.register_hook(lambda g: g * 10) as handle:
            assert isinstance(handle, RemovableHandle)
            first.remove()
            second.remove()
            second.remove()
            assert grad(x.sum(), x)[0].tolist() == [10.0] * 3
        assert grad(x.sum(), x)[0].tolist() == [1.0] * 3

    def test_of_the_users_own(self):
        hooks, more = OrderedDict(), OrderedDict()
        handle = RemovableHandle(hooks, extra_dict=more)
        hooks[handle.id], more[handle.id] = print, True
        handle.remove()
        assert not hooks
        assert not more

    def test_outlives_its_hooks(self):
        x = leaf()
        handle = x.register_hook(print)
        del x
        gc.collect()
        handle.remove()

    def test_copies(self):
        hooks = OrderedDict()
        handle = RemovableHandle(hooks)
        hooks[handle.id] = print
        copied, twin = copy.deepcopy((hooks, handle))
        twin.remove()
        assert not copied
        assert hooks
        pickle.loads(pickle.dumps(handle)).remove()

    def test_a_hook_that_holds_its_handle_is_no_circle(self):
        gc.collect()
        gc.disable()
        try:
            x = leaf()
            y = x * 2
            handle = y.register_hook(lambda g: handle.remove())
            node = weakref.ref(y.grad_fn)
            del x, y
            assert node() is None
        finally:
            gc.enable()


class TestLeavesThatAreGone:
    """The graph alone holds the accumulator of a leaf that nobody else holds: its hooks run all the same."""

    def test_every_hook_runs(self):
        log = []

        def make():
            t = leaf(1.0, 2.0)
            t.register_hook(lambda g: log.append(("tensor", g.tolist())))
            accumulator(t).register_prehook(lambda gs: log.append("pre"))
            accumulator(t).register_hook(lambda grads, gs: log.append("post"))
            t.register_post_accumulate_grad_hook(lambda p: log.append(("done", p.tolist(), p.grad.tolist(), p.is_leaf)))
            return t * 2

        y = make()
        y.sum().backward(retain_graph=True)
        assert log == [("tensor", [2.0, 2.0]), "pre", ("done", [1.0, 2.0], [2.0, 2.0], True), "post"]
        y.sum().backward()
        assert log[-2] == ("done", [1.0, 2.0], [4.0, 4.0], True)  # it has a .grad, which adds up

    def test_without_post_accumulate_hooks(self):
        log = []

        def make():
            t = leaf(1.0, 2.0)
            t.register_hook(lambda g: log.append(g.tolist()))
            return t * 2

        make().sum().backward()
        assert log == [[2.0, 2.0]]

    def test_memory_goes_with_the_last_holder(self):
        gc.collect()
        gc.disable()
        try:
            x = leaf()
            x.register_post_accumulate_grad_hook(lambda t: None)
            y = x * 2
            y.sum().backward(retain_graph=True)
            alive, node = weakref.ref(x), weakref.ref(accumulator(x))
            del x
            assert alive() is None
            y.sum().backward()
            del y
            assert node() is None
        finally:
            gc.enable()

    def test_a_leaf_that_was_moved_keeps_one_copy_only(self):
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t: None)
        old = weakref.ref(x.array) if isinstance(x.array, np.ndarray) else None
        x.data = ag.zeros(3, dtype=ag.float64)
        (x * 2).sum().backward()
        assert old is None or old() is None
        assert x.grad.tolist() == [2.0] * 3


def test_hooks_of_a_leaf_survive_freezing():
    calls = []
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda t: calls.append(1))
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).backward()
    assert calls == [1]
