"""Hooks of one saved tensor and of all that a thread saves."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
from against_torch import both, hooks_of, leaf, same, torch

import autograd_gpu as ag
from autograd_gpu.autograd.graph import saved_tensors_hooks


class Recorder:
    """A pair of hooks that counts: what was packed, how often was unpacked."""

    def __init__(self):
        self.packed, self.unpacked = [], 0

    def pack(self, t):
        self.packed.append(t)
        return t

    def unpack(self, t):
        self.unpacked += 1
        return t

    def on(self):
        return saved_tensors_hooks(self.pack, self.unpack)


class TestHooks:
    def test_register_once(self):
        def program(m):
            y = leaf(m).sin()
            y.grad_fn._raw_saved_self.register_hooks(same, same)
            y.grad_fn._raw_saved_self.register_hooks(same, same)

        both(program)

    @pytest.mark.parametrize("program", [
        lambda m, y: y.grad_fn._raw_saved_other.register_hooks(same, same),  # None
        lambda m, y: y.grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), same),
    ])  # fmt: skip
    def test_register_errors(self, program):
        def whole(m):
            y = m.ones(2) * leaf(m)  # y keeps the graph: PyTorch's handle does not
            program(m, y)

        assert both(whole)[0] is RuntimeError

    @pytest.mark.parametrize("pair", [(lambda t: t.mul_(2), same), (same, lambda t: None), (same, lambda t: 3)])
    def test_errors(self, pair):
        def program(m):
            with hooks_of(m)(*pair):
                y = leaf(m).sin()
            y.sum().backward()

        both(program)

    def test_after_default_hooks(self):
        def program(m):
            with hooks_of(m)(same, same):
                y = leaf(m).sin()
            y.grad_fn._raw_saved_self.register_hooks(same, same)

        both(program)

    @pytest.mark.parametrize("hooks", [(1, same), (same, None)])
    def test_not_callable(self, hooks):
        for use in (saved_tensors_hooks, leaf(ag).sin().grad_fn._raw_saved_self.register_hooks):
            with pytest.raises(TypeError, match="expected two functions, pack_hook and unpack_hook, got"):
                use(*hooks)

    @pytest.mark.parametrize("other", [lambda t: t.reshape(2, 1), lambda t: t.double(), lambda t: t[:1]])
    def test_unpack_has_to_give_what_was_packed(self, other):
        with saved_tensors_hooks(same, other):
            y = leaf(ag).sin()
        with pytest.raises(RuntimeError, match=r"unpack_hook is .* but \[2\] float32 on .* was packed"):
            y.sum().backward()

    @pytest.mark.cuda
    def test_unpack_has_to_give_the_device(self):
        with saved_tensors_hooks(lambda t: t.cpu(), same):
            y = leaf(ag).sin()
        with pytest.raises(RuntimeError, match=r"unpack_hook is .* on cpu, but .* on cuda:0 was packed"):
            y.sum().backward()

    def test_pack_gets_a_constant_without_recording(self, device):
        """PyTorch hands over an input itself; here it is detached, and with_info tells what it was."""
        seen = []
        p = ag.nn.Parameter(ag.ones(2))
        with saved_tensors_hooks(lambda t: seen.append((t.requires_grad, t.is_leaf, ag.is_grad_enabled())) or t, same):
            (p * p).exp()
        assert seen == [(False, True, False)] * 3

    def test_versions_do_not_count(self):
        def program(m):
            x = leaf(m)
            y, z = x * 1, x * 1
            with hooks_of(m)(lambda t: t.clone(), same):
                a = y.sin()
            b = z.sin()
            y.mul_(3)
            z.mul_(3)
            b.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), same)  # sees what is there now
            (a + b).sum().backward()
            return x.grad

        both(program)

    def test_unpacked_tensors_are_linked_as_before(self):
        def program(m):
            def of(t):
                return t.is_leaf, t.requires_grad, t.output_nr, t.grad_fn is None, t._is_view(), t._version

            p = m.nn.Parameter(m.ones(2))
            x, base = p * 2, m.ones(4, 2, requires_grad=True)
            top, _ = base.max(0)
            view, constant = x[:1], x.detach()
            with hooks_of(m)(lambda t: t.clone(), same):
                a = x * p
                b, c, d, e = a.exp(), top * p, view * constant[:1], base.max(0)[0]
            mul = a.grad_fn
            return [
                of(mul._saved_self), mul._saved_self.grad_fn is x.grad_fn, of(mul._saved_other),
                mul._saved_other.grad_fn, of(b.grad_fn._saved_result), b.grad_fn._saved_result.grad_fn is b.grad_fn,
                of(c.grad_fn._saved_self), c.grad_fn._saved_self.grad_fn is top.grad_fn, of(d.grad_fn._saved_other),
                d.grad_fn._saved_self, of(e.grad_fn._saved_indices),
            ]  # fmt: skip

        both(program)

    @pytest.mark.parametrize("f", [lambda m, x: x**3, lambda m, x: (x * 2).exp() * x, lambda m, x: x[:1].sigmoid() * x,
                                   lambda m, x: m.cat([x, x * 2]).prod(0), lambda m, x: x.sin().exp_(),
                                   lambda m, x: m.logsumexp(x, 0), lambda m, x: m.stack([x, x])[1].tanh()])
    @pytest.mark.parametrize("hooks", [None, lambda t: t.clone()])
    def test_double_backward_reaches_the_original_graph(self, f, hooks):
        def program(m):
            p = m.nn.Parameter(m.tensor([0.5, 1.5]))
            x = p * 1
            x.retain_grad()
            with hooks_of(m)(hooks, same) if hooks else contextlib.nullcontext():
                y = f(m, x).sum()
            (g,) = m.autograd.grad(y, p, create_graph=True)
            (h,) = m.autograd.grad((g * g).sum(), p, create_graph=True)
            (h.sum() + y).backward()
            return g, h, p.grad, x.grad

        both(program)


class TestDefaultHooks:
    def test_innermost_counts_and_each_save_is_packed_once(self):
        def program(m):
            x, calls = leaf(m), []

            def on(name):
                return hooks_of(m)(lambda t: calls.append(name) or t, same)

            with on("outer"):
                with on("inner"):
                    x.sin()
                x * x
                with pytest.raises(KeyError), on("failed"):
                    raise KeyError
                x.exp()
            x.cos()
            return calls

        assert both(program) == ["inner", "outer", "outer", "outer"]

    def test_never_called_where_nothing_is_saved(self):
        def program(m):
            x, calls = leaf(m), []
            y = (x * x).exp().sum()
            with hooks_of(m)(lambda t: calls.append(1) or t, same):
                with m.no_grad():
                    (x * x).exp()
                with m.inference_mode():
                    (x * x).exp()
                (m.ones(2) * m.ones(2)).exp()
                x + x, x.reshape(1, 2), x.sum(), x[0], -x
                y.backward(retain_graph=True)
                assert not calls
                m.autograd.grad(y, x, create_graph=True)
            return len(calls) > 0

        assert both(program)

    def test_unpacked_at_each_use(self):
        def program(m):
            calls = []
            x = leaf(m)
            with hooks_of(m)(lambda t: calls.append("p") or t, lambda t: calls.append("u") or t):
                y = (x * x).exp().sum()
            y.backward(retain_graph=True)
            calls.append("again")
            y.backward()
            return calls

        assert both(program) == [*"pppuuu", "again", *"uuu"]

    @pytest.mark.parametrize("f", [
        lambda m, x: x * 2, lambda m, x: 2 * x, lambda m, x: x / 2, lambda m, x: 2 / x, lambda m, x: x**3,
        lambda m, x: 2**x, lambda m, x: x - 2, lambda m, x: m.where(x > 0, x, 7.0), lambda m, x: x.lerp(x, 0.25),
        lambda m, x: m.addcmul(x, x, x, value=2), lambda m, x: x.clamp(0, 1), lambda m, x: (x * 1).mul_(3),
        lambda m, x: (x * 1).div_(4), lambda m, x: x.masked_fill(x > 1, 5.0), lambda m, x: (x * 1).fill_(2),
        lambda m, x: x.remainder(2), lambda m, x: (x * 1).pow_(2), lambda m, x: x.half() * 2.5,
        lambda m, x: m.nn.functional.leaky_relu(x, 0.1), lambda m, x: m.true_divide(3, x),
        lambda m, x: m.nn.functional.elu(x, 0.3), lambda m, x: m.maximum(x, m.ones(2)) * 3,
        lambda m, x: m.pow(3.0, x), lambda m, x: m.nn.functional.huber_loss(x, x.detach(), delta=0.4),
        lambda m, x: x.var(), lambda m, x: x.logit(0.2), lambda m, x: x.nan_to_num(3.0),
    ])  # fmt: skip
    def test_numbers_are_never_packed(self, f):
        """And no more tensors than needed: PyTorch may pack more, we may not; but for 2 / x, which reads x, too."""
        counts = []
        for m in (torch, ag):
            shapes = []
            with hooks_of(m)(lambda t, into=shapes: into.append(tuple(t.shape)) or t, same):
                f(m, leaf(m))
            assert shapes == [(2,)] * len(shapes)
            counts.append(len(shapes))
        assert counts[1] <= counts[0] + 1

    @pytest.mark.parametrize("f", [
        lambda x: ag.hypot(x, 3.0), lambda x: ag.logaddexp(2, x), lambda x: ag.hypot(4, x),
        lambda x: ag.where(x > 0, 2.0, x), lambda x: ag.logaddexp2(x, np.float64(2)),
    ])  # fmt: skip
    def test_numbers_that_became_tensors_are_never_packed(self, f, device):
        x, recorder = ag.ones(2, dtype=ag.float64, requires_grad=True), Recorder()
        with recorder.on():
            y = f(x)
        assert all(t.shape == (2,) for t in recorder.packed)
        y.sum().backward()

    def test_arrays_are_packed(self, device):
        recorder = Recorder()
        x = ag.ones(2, requires_grad=True)
        with recorder.on():
            x * ag.ones(2).array
        assert len(recorder.packed) == 1

    def test_per_thread(self):
        recorder, x = Recorder(), leaf(ag)
        with recorder.on():
            thread = threading.Thread(target=lambda: x.sin())
            thread.start()
            thread.join()
            assert not recorder.packed
            x.sin()
        assert len(recorder.packed) == 1

    def test_in_a_generator(self):
        """As in PyTorch the stack is the thread's: what a suspended generator has set stays on."""

        def program(m):
            x, calls = leaf(m), []

            def body():
                with hooks_of(m)(lambda t: calls.append(1) or t, same):
                    yield x.sin()
                    yield x.sin()

            steps = body()
            next(steps)
            x.sin()
            next(steps)
            steps.close()
            x.sin()
            return calls

        assert both(program) == [1, 1, 1]

    def test_one_context_again_and_within_itself(self):
        recorder = Recorder()
        hooks, x = recorder.on(), leaf(ag)
        with hooks, hooks:
            x.sin()
        with hooks:
            x.sin()
        x.sin()
        assert len(recorder.packed) == 2

    def test_double_backward_is_recorded_under_the_hooks_of_its_time(self):
        def program(m):
            calls, x = [], leaf(m)
            y = x.exp().sum()
            with hooks_of(m)(lambda t: calls.append(t.tolist()) or t.clone(), same):
                (g,) = m.autograd.grad(y, x, create_graph=True)
            g.sum().backward()
            return calls, x.grad

        both(program)
