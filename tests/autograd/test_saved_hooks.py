"""What is set for all saved tensors: with_info, disabling, mutation."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from against_torch import both, hooks_of, leaf, same
from custom_functions import Exp

import autograd_gpu as ag
from autograd_gpu.autograd import graph
from autograd_gpu.autograd.graph import saved_tensors_hooks


class TestInfo:
    def told(self, f):
        seen = []
        with saved_tensors_hooks(lambda t, info: seen.append(info) or t, same, with_info=True):
            result = f()
        return seen, result

    @pytest.mark.parametrize(("f", "expected"), [
        (lambda x, p, h: h * p, [("mul", "b", True, True), ("mul", "a", False, False)]),
        (lambda x, p, h: h * x.detach(), [("mul", "b", True, False)]),
        (lambda x, p, h: x[0] * p, [("mul", "b", True, True), ("mul", "a", True, False)]),  # a view of a leaf
        (lambda x, p, h: p.reshape(3, 1).t() * h.t().exp().t(), [
            ("exp", "out", False, False), ("mul", "a", True, True), ("mul", "b", False, False)]),
        (lambda x, p, h: h[0] * p.exp(), [
            ("exp", "out", False, False), ("mul", "a", False, False), ("mul", "b", False, False)]),
        (lambda x, p, h: h.exp(), [("exp", "out", False, False)]),
        (lambda x, p, h: ag.nn.functional.rrelu(h, training=True), [
            ("random_rrelu", "x", False, False), ("random_rrelu", "slopes", True, False)]),
        (lambda x, p, h: ag.nn.functional.layer_norm(h, (3,), p), [
            ("native_layer_norm", "x", False, False), ("native_layer_norm", "weight", True, True),
            ("native_layer_norm", "mean", False, False), ("native_layer_norm", "rstd", False, False)]),
        (lambda x, p, h: h.max(0), [("max_dim", "indices", True, False)]),
        (lambda x, p, h: Exp.apply(x), [("Exp", "saved_tensors[0]", False, False),
                                        ("Exp", "saved_tensors[1]", True, False)]),
        (lambda x, p, h: h + 1, []),
    ])  # fmt: skip
    def test_what_is_saved_by_whom(self, f, expected, device):
        x, p = ag.ones(2, 3, requires_grad=True), ag.nn.Parameter(ag.ones(3))
        result, _ = self.told(lambda: f(x, p, x * 1))
        assert sorted(tuple(info[:4]) for info in result) == sorted(expected)

    def test_storage_version_and_node(self, device):
        x = ag.ones(2, 3, requires_grad=True) * 1
        other = x.detach() * 3
        x.mul_(2)
        result, y = self.told(lambda: x.sin() + x[0].cos() + other * x)
        assert [info.version for info in result] == [1, 1, 0]
        assert [info.storage is result[0].storage for info in result] == [True, True, False]
        assert weakref.ref(result[0].storage)() is result[0].storage
        nodes = [y.grad_fn.next_functions[1][0]]  # the product, which x.sin() + x[0].cos() precedes
        nodes = [n for n, _ in y.grad_fn.next_functions[0][0].next_functions] + nodes
        assert [info.node_seq for info in result] == [n._sequence_nr() for n in nodes]


class TestDisabling:
    def test_nested(self):
        def program(m):
            disable, result = m.autograd.graph.disable_saved_tensors_hooks, []

            def attempt(context=None):
                try:
                    with context or hooks_of(m)(same, same):
                        result.append("allowed")
                except RuntimeError as error:
                    result.append(str(error))

            with disable("outer"):
                with disable("inner"):
                    attempt()
                attempt()
                attempt(m.autograd.graph.save_on_cpu())
                leaf(m).sin().sum().backward()
            attempt()
            with pytest.raises(KeyError), disable("failed"):
                raise KeyError
            attempt()
            with hooks_of(m)(same, same):
                attempt(disable("hooks are on"))
            disable("as a decorator")(attempt)()
            return result

        assert both(program)[-2:] == ["hooks are on", "as a decorator"]

    def test_a_refusal_while_hooks_are_on_changes_nothing(self):
        """PyTorch goes on refusing."""
        with saved_tensors_hooks(same, same), pytest.raises(RuntimeError, match="not here"):
            graph.disable_saved_tensors_hooks("not here").__enter__()
        with saved_tensors_hooks(same, same):
            leaf(ag).sin()

    def test_register_hooks_is_another_matter(self):
        def program(m):
            x = leaf(m)
            y = x.sin()
            with m.autograd.graph.disable_saved_tensors_hooks("not here"):
                y.grad_fn._raw_saved_self.register_hooks(same, same)
            y.sum().backward()
            return x.grad

        both(program)


def write(m, b):
    b.mul_(3)


def write_item(m, b):
    b[0] = 9.0


def write_views(m, b):
    b[:1].zero_()
    b.view(2, 1)[1].add_(1)


def write_without_recording(m, b):
    with m.no_grad():
        b.copy_(m.zeros(2))
        b.fill_(7)


def write_detached(m, b):
    b.detach().sin_()


class TestMutation:
    @pytest.mark.parametrize("change", [write, write_item, write_views, write_without_recording, write_detached])
    @pytest.mark.parametrize("f", [lambda b: b * b, lambda b: b.exp() + b.sin() * b, lambda b: (b / 2).exp_() * b])
    def test_results_are_those_of_before(self, change, f):
        def program(m):
            with m.autograd.graph.allow_mutation_on_saved_tensors():
                x = leaf(m)
                b = x * 1
                y = f(b)
                change(m, b)
                z = f(b)
                change(m, b)
                (y.sum() + z.sum()).backward()
            return x.grad, b

        both(program)

    @pytest.mark.parametrize("change", [write, write_item, write_views])
    def test_saved_views(self, change, device):
        """PyTorch fails here by an assertion of its own."""
        x = leaf(ag)
        with graph.allow_mutation_on_saved_tensors():
            b = x * 1
            y = b[1:].cos() * b + b.view(2, 1).exp()[0]
            change(ag, b)
            y.sum().backward()
        result, x.grad = x.grad.tolist(), None
        (x[1:].cos() * x + x.view(2, 1).exp()[0]).sum().backward()
        np.testing.assert_allclose(result, x.grad.tolist(), rtol=1e-6)

    def test_an_output_that_was_saved(self):
        def program(m):
            with m.autograd.graph.allow_mutation_on_saved_tensors():
                x = leaf(m)
                y = x.exp()
                y.mul_(5)
                z = x.sigmoid().tanh_()
                z[0] = 2
                (y.sum() + z.sum()).backward()
            return x.grad

        both(program)

    def test_a_leaf(self):
        def program(m):
            with m.autograd.graph.allow_mutation_on_saved_tensors():
                x = leaf(m)
                y = x * x
                with m.no_grad():
                    x.mul_(10)
                y.sum().backward()
            return x, x.grad

        both(program)

    def test_double_backward(self):
        def program(m):
            with m.autograd.graph.allow_mutation_on_saved_tensors():
                x = leaf(m)
                b = x * 1
                y = (b**3).sum()
                b.sin_()
                (g,) = m.autograd.grad(y, x, create_graph=True)
                b.cos_()
                return g, m.autograd.grad(g.sum(), x)

        both(program)

    def test_one_copy_for_all_savers_and_none_without_a_write(self, device):
        with graph.allow_mutation_on_saved_tensors():
            x = ag.ones(2, requires_grad=True) * 1
            nodes = [x.sin().grad_fn, (x * x).grad_fn]
            kept = x.sin()
            handles = [s.packed.packed for node in nodes for _, s in node.saved_by_name()]
            assert all(handle.tensor._array is x._array for handle in handles)
            x.mul_(2)
            x.mul_(2)
            assert len({id(handle.tensor) for handle in handles}) == 1
            assert handles[0].tensor.tolist() == [1, 1]
            kept.sum().backward()

    def test_after_detach_in_place(self, device):
        with graph.allow_mutation_on_saved_tensors():
            x = leaf(ag)
            y = x * 1
            z = y.detach_()
            w = (z * x).sum()
            z.zero_()
            w.backward()
        assert x.grad.tolist() == [1, 2]

    def test_outside_and_nested(self):
        """PyTorch forgets the outer context when an inner one is refused."""
        allow = graph.allow_mutation_on_saved_tensors
        with allow():
            y = leaf(ag).sin().sum()
        outside = pytest.raises(AssertionError, match="Trying to backward outside of the 'allow_mutation_on_saved_te")
        with outside:
            y.backward()
        with allow(), outside:
            y.backward()
        with allow():
            with pytest.raises(RuntimeError, match="allow_mutation_on_saved_tensors contexts cannot be nested"):
                allow().__enter__()
            x = leaf(ag)
            b = x * 1
            y = b.exp()
            b.zero_()
            y.sum().backward()
        with pytest.raises(KeyError), allow():
            raise KeyError
        with allow():
            leaf(ag).sin().sum().backward()

    @pytest.mark.parametrize("written", [False, True])
    @pytest.mark.parametrize("when", ["clear", "write, clear", "clear, write", "clear, record", "end, clear"])
    def test_clear_drops_what_was_saved_so_far(self, when, written):
        def program(m):
            x = leaf(m)
            with m.autograd.graph.allow_mutation_on_saved_tensors() as context:
                y = x * 2
                z = y.sin()
                if when == "write, clear":
                    y.zero_()
                if when != "end, clear":
                    context.clear()
                if when == "clear, write":
                    y.zero_()
                if when == "clear, record":
                    y = x * 3
                    z = y.sin()
                    if written:
                        y.zero_()
                if when != "end, clear":
                    return self.answer(m, z, x)
            context.clear()
            return self.answer(m, z, x)

        assert (both(program) == "raises") == (when != "clear, record")

    def answer(self, m, z, x):
        try:
            return m.autograd.grad(z.sum(), x)
        except AssertionError as error:
            about = "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context" in str(error)
            return "raises" if about else str(error)

    def test_the_copies_go_with_clear_and_with_the_end(self):
        def copies():
            return [t for t in gc.get_objects() if isinstance(t, ag.Tensor) and t.shape == (7, 11)]

        with graph.allow_mutation_on_saved_tensors() as context:
            x = ag.ones(7, 11, requires_grad=True)
            y = x * 2
            z = y.sin()
            y.zero_()
            saved = len(copies())
            context.clear()
            assert len(copies()) == saved - 1
            y = x * 2
            w = y.sin()
            y.zero_()
        del y
        assert {id(t) for t in copies()} == {id(t) for t in (x, z, w)}

    def test_as_a_decorator(self):
        def program(m):
            @m.autograd.graph.allow_mutation_on_saved_tensors()
            def f(x):
                b = x * 1
                y = (b * b).sum()
                b.zero_()
                y.backward()
                return x.grad

            return f(leaf(m)), f(leaf(m))

        both(program)

    @pytest.mark.parametrize("make", [
        lambda m, x: m.optim.SGD([x], lr=0.5), lambda m, x: m.optim.SGD([x], lr=0.5, momentum=0.9),
        lambda m, x: m.optim.Adam([x], lr=0.5), lambda m, x: m.optim.LBFGS([x], lr=0.5),
    ])  # fmt: skip
    def test_a_step_of_an_optimizer(self, make):
        def program(m):
            with m.autograd.graph.allow_mutation_on_saved_tensors():
                x = leaf(m)
                step = make(m, x).step
                x.grad = m.ones(2)
                y = (x * x).sum()
                step(lambda: x.sum())
                result = x.tolist()
                x.grad = None
                y.backward()
            return result, x.grad

        both(program)

    def test_a_write_in_inference_mode(self, device):
        with graph.allow_mutation_on_saved_tensors():
            x = leaf(ag)
            b = x * 1
            y = b.exp() * b
            with ag.inference_mode():
                b.mul_(2)
            y.sum().backward()
        np.testing.assert_allclose(x.grad.tolist(), np.exp([1, 2]) * [2, 3], rtol=1e-6)

    @pytest.mark.parametrize("write", [
        lambda p: ag.optim.SGD([p]).zero_grad(set_to_none=False), lambda p: p.sum().backward(),
        lambda p: ag.nn.functional.linear(ag.ones(1, 2, device=p.device), p).sum().backward(),
        lambda p: ag.nn.utils.clip_grad_norm_([p], 0.1), lambda p: ag.nn.utils.clip_grad_value_([p], 0.1),
    ], ids=["zero_grad", "accumulation", "accumulation in a product", "clip norm", "clip value"])  # fmt: skip
    def test_a_saved_gradient_may_be_written_to(self, write, device):
        p = ag.nn.Parameter(ag.ones(2, 2, device=device))
        p.sum().backward()
        with graph.allow_mutation_on_saved_tensors():
            y = (p * p.grad).sum()
            write(p)
            (g,) = ag.autograd.grad(y, p)
        assert g.tolist() == [[1, 1], [1, 1]]

    def test_a_saved_average_may_be_written_to(self):
        layer = ag.nn.Linear(2, 2)
        for options in ({}, {"avg_fn": lambda averaged, new, count: new * 2}):
            model = ag.optim.swa_utils.AveragedModel(layer, **options)
            model.update_parameters(layer)
            model.update_parameters(layer)
            averaged, x = model.module.weight, leaf(ag)
            before = averaged.tolist()
            with graph.allow_mutation_on_saved_tensors():
                y = (averaged.detach() * x).sum()
                with ag.no_grad():
                    layer.weight.add_(1)
                model.update_parameters(layer)
                (g,) = ag.autograd.grad(y, x)
            np.testing.assert_array_equal(g.tolist(), np.sum(before, 0, dtype=np.float32))
            assert averaged.tolist() != before

    def test_a_write_that_is_not_seen_coming_raises(self):
        with graph.allow_mutation_on_saved_tensors():
            x = leaf(ag)
            y = (x * x).sum()
            x.array[0] = 5
            graph.increment_version(x)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
