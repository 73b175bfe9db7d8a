"""Memory hooks: what is packed once and found again, how long it lives; contexts, threads, failures, modes."""

from __future__ import annotations

import copy
import pickle
import threading
import weakref

import numpy as np
import pytest
from copying_codec import copying, gradients, leaf, quantize

import autograd_gpu as ag
from autograd_gpu.autograd.graph import disable_saved_tensors_hooks
from autograd_gpu.core import dispatch

VIEWS = {  # of a 4 x 6 tensor h: how many regions are packed; all but the last few share h's own
    "same": (lambda h: h.exp() + h.sin() + h.cos(), 2),
    "transposed": (lambda h: h.sin() + h.t().cos().t(), 1),
    "slice first": (lambda h: h[1:3].sin().sum() + h.cos(), 2),
    "slice after": (lambda h: h.cos() + h[1:3].sin().sum(), 1),
    "columns after": (lambda h: h.cos() + h[:, 1:4].sin().sum() + h[::2, ::3].sin().sum(), 1),
    "columns twice": (lambda h: h[:, 1:4].sin() + h[:, 1:4].t().cos().t(), 1),
    "columns apart": (lambda h: h[:, 1:4].sin() + h[:, 2:5].cos(), 2),
    "reversed": (lambda h: h.cos() + h[::-1, ::-1].sin(), 1),
    "reversed alone": (lambda h: h[:, ::-1].sin() + h.cos(), 1),
    "reversed columns": (lambda h: h[:, 4:1:-1].sin() + h[:, 2:5].cos(), 1),
    "expanded": (lambda h: h[:1].expand(4, 6).sin() + h[0].expand(3, 6).cos().sum(), 1),
    "windows": (lambda h: h.reshape(24).unfold(0, 5, 2).sin().sum() + h.reshape(24)[:23].cos().sum(), 1),
    "one element": (lambda h: h[2, 3].sin() + h[2:3, 3:4].cos(), 1),
    "permuted": (lambda h: h.reshape(2, 2, 6).permute(2, 0, 1).sin().sum() + h.cos(), 1),
    "written between": (lambda h: h.sin() + (h * 1).mul_(2).sin() + h.cos(), 2),
}


class TestPackedOnce:
    @pytest.mark.parametrize("name", VIEWS)
    def test_views_share_and_are_found_again(self, name, device):
        f, regions = VIEWS[name]
        x = leaf(4, 6, device=device)
        codec, hook = copying()
        result = gradients(lambda x: f(x * 1), x, hook)
        assert len(codec.packed) == regions
        np.testing.assert_array_equal(result.numpy(force=True), gradients(lambda x: f(x * 1), x).numpy(force=True))

    def test_what_is_packed_is_no_more_than_what_is_seen(self, device):
        codec, hook = copying()
        h = leaf(4, 6, device=device) * 1
        with hook:
            y = h[:, 1:4].sin(), h[0].expand(5, 6).sin(), h.reshape(24).unfold(0, 5, 1).sin()
        assert codec.packed == [(4, 3), (6,), (24,)]
        assert hook.bytes_held == 4 * (12 + 6 + 24)
        assert hook.bytes_held + hook.bytes_saved == 4 * 24  # of which all three are views
        del y
        assert hook.bytes_held == 0

    def test_a_write_packs_anew(self, device):
        x = leaf(4, 6, device=device)
        codec, hook = copying()

        def f(x):
            h = x * 1
            a = h.sin() + h.cos()
            with ag.no_grad():
                h.mul_(2)
            return a + h.sin() + h[1:].cos().sum() / h.numel()

        result = gradients(f, x, hook)
        assert len(codec.packed) == 2
        with ag.no_grad():
            expected = x.cos() - x.sin() + (2 * x).cos() - ag.cat([ag.zeros_like(x[:1]), (2 * x[1:]).sin()])
        np.testing.assert_allclose(result.numpy(force=True), expected.numpy(force=True), rtol=1e-6)

    def test_an_address_that_is_used_again_confuses_nothing(self, device):
        """Each round's memory is freed, but for what was packed, and most probably handed out again."""
        codec, hook = copying()
        x, addresses, sums = leaf(64, 64, device=device), set(), []
        with hook:
            for i in range(20):
                h = x * (i + 1)
                array = h.array
                addresses.add(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)
                sums.append(h.sin().sum())
                del h, array
        assert len(codec.packed) == 20
        assert len(addresses) < 20 or device == "cuda"  # where the emulator may wait with handing it out
        for i, y in enumerate(sums):
            (g,) = ag.autograd.grad(y, x)
            expected = (i + 1) * np.cos((i + 1) * x.numpy(force=True))
            np.testing.assert_allclose(g.numpy(force=True), expected, rtol=1e-4, atol=1e-4)

    def test_in_place_results_are_what_the_next_node_saves(self, device):
        layers = [m for _ in range(3) for m in (ag.nn.Linear(6, 6), ag.nn.ReLU(inplace=True))]
        net = ag.nn.Sequential(*layers).to(device)
        for handles in ([], [m.register_forward_hook(lambda *_: None) for m in net]):  # fused, then apart
            codec, hook = copying()
            with hook:
                y = net(ag.ones(4, 6, device=device))
            assert codec.packed == [(4, 6)] * 3
            y.sum().backward()
            for handle in handles:
                handle.remove()

    def test_div_may_be_written_to_behind_hooks(self, device):
        def f(x):
            return (x * 1).div_(x.exp()).mul_(2).pow_(2)

        x = leaf(3, 4, device=device)
        _, hook = copying()
        np.testing.assert_array_equal(gradients(f, x, hook).numpy(force=True), gradients(f, x).numpy(force=True))

    def test_unpacked_once_while_somebody_has_it(self, device):
        codec, hook = copying()
        x = leaf(4, 6, device=device)
        with hook:
            h = x * 1
            y = h * h.t().t()
        first = y.grad_fn._saved_self
        second = y.grad_fn._saved_other
        assert codec.unpacked == [(4, 6)]
        assert second._version == 0
        first.mul_(2)
        third = y.grad_fn._saved_self  # not what was written to
        np.testing.assert_array_equal(third.numpy(force=True), x.numpy(force=True))
        assert len(codec.unpacked) == 2
        del first, second, third
        y.grad_fn._saved_self.sum()
        assert len(codec.unpacked) == 3

    def test_prefetch_asks_for_the_nodes_that_run_next(self):
        codec, hook = copying(ahead=2)
        x = leaf(8)
        with hook:
            y = x[1:] * 1  # of 7 elements, down to 3
            for _ in range(5):
                y = y.sin()[1:]
        y.sum().backward()
        assert codec.packed == [(7,), (6,), (5,), (4,), (3,)]
        assert codec.soon == [(4,), (5,), (5,), (6,), (6,), (7,), (7,)]


    def test_prefetch_asks_for_nothing_of_another_graph(self):
        codec, hook = copying(ahead=2)
        with hook:
            older = (leaf(9) * 1).sin()
            y = (leaf(5) * 1).sin()[1:].sin()
        y.sum().backward()
        assert codec.soon == [(5,)]
        del older

    def test_a_backward_within_one_leaves_its_window(self):
        codec, hook = copying(ahead=1)
        x, inner = leaf(6), leaf(3)

        def nested(g):
            with ag.enable_grad(), hook:
                (inner * 1).sin()[1:].sin().sum().backward()

        with hook:
            y = (x * 1).exp()  # saves its result, as the next
            z = y.sin()
            y.register_hook(nested)
        (gradient,) = ag.autograd.grad(z.sum(), x)
        assert codec.unpacked.count((6,)) == 1
        a = x.numpy(force=True)
        np.testing.assert_allclose(gradient.numpy(force=True), np.cos(np.exp(a)) * np.exp(a), rtol=1e-5)

    def test_dropped_graphs_are_not_looked_through_for_long(self):
        _, hook = copying(ahead=1)
        with hook:
            many = [(leaf(2) * 1).sin() for _ in range(1000)]
            del many
            y = (leaf(2) * 1).sin()
        y.sum().backward()
        assert len(hook._cache.order.seqs) <= 128

    def test_numbers_between_those_that_are_saved_count_for_nothing(self, device):
        """They would set the scale."""
        x = leaf(9, device=device)
        with ag.no_grad():
            x.copy_(ag.tensor([1, 1e30, 1, 1, 1, 1, 1e30, 1, 1], device=device))
        f = lambda x: (x * 1).as_strided((2, 3), (3, 2)).sin()  # noqa: E731
        result = gradients(f, x, quantize(ag.float16))
        np.testing.assert_array_equal(result.numpy(force=True), gradients(f, x).numpy(force=True))


class TestLifetime:
    def test_what_nodes_hold_is_counted_and_goes_with_them(self, device):
        x = leaf(64, 64, device=device)
        hook = quantize(ag.bfloat16)
        with hook:
            y = (x * 1).sin().exp()
        size = 64 * 64 * 2
        assert (hook.bytes_held, hook.bytes_saved, hook.bytes_on_host) == (2 * size, 2 * size, 0)
        y.sum().backward(retain_graph=True)
        assert hook.bytes_held == 2 * size
        y.sum().backward()
        assert (hook.bytes_held, hook.bytes_saved) == (0, 0)

    def test_memory_that_is_packed_twice_is_saved_once(self, device):
        hook = quantize(ag.bfloat16)
        with hook:
            b = leaf(64, 64, device=device) * 1
            y = b[:32].sin(), b.cos()
        assert hook.bytes_held == 2 * 64 * 96
        assert hook.bytes_held + hook.bytes_saved == 4 * 64 * 64
        del y
        both = ag.hooks.compose(ag.hooks.select(quantize(ag.float8_e5m2), op="sin"), quantize(ag.bfloat16))
        with both:
            y = b.sin(), b.cos()
        assert both.bytes_held == 3 * 64 * 64 + 4
        assert both.bytes_held + both.bytes_saved == 4 * 64 * 64
        del y

    def test_no_reference_cycles(self, no_gc, device):
        hook = quantize(ag.float16)
        x = leaf(8, 8, device=device)
        with hook:
            y = (x * 1).sin()
        kept = y.grad_fn._raw_saved_self
        died = [weakref.ref(o) for o in (hook, y, y.grad_fn, *hook._cache.living())]
        y.sum().backward()
        del hook, y, kept
        assert not [ref() for ref in died if ref() is not None]

    def test_backward_after_the_hook_is_gone(self, device):
        x = leaf(8, 8, device=device)
        with quantize(ag.bfloat16):
            y = (x * 1).sin().sum()
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(force=True), np.cos(x.numpy(force=True)), atol=0.02)

    def test_what_is_kept_as_it_is_is_checked(self, device):
        x = leaf(3, device=device) * 1
        with ag.hooks.select(quantize(ag.float16), op="none"):
            y = x.sin()
        x.mul_(2)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            y.sum().backward()

    def test_retain_graph_and_double_backward(self, device):
        x = leaf(5, 5, device=device, dtype=ag.float64)
        _, hook = copying()
        with hook:
            y = ((x * 1).sin() * x.exp()).sum()
            (g,) = ag.autograd.grad(y, x, create_graph=True)
            (h,) = ag.autograd.grad(g.sum(), x, create_graph=True)
        again = [ag.autograd.grad(h.sum(), x, retain_graph=True)[0] for _ in range(2)]
        plain = ag.autograd.grad(((x * 1).sin() * x.exp()).sum(), x, create_graph=True)[0]
        plain = ag.autograd.grad(plain.sum(), x, create_graph=True)[0]
        third = ag.autograd.grad(plain.sum(), x)[0]
        np.testing.assert_allclose(h.numpy(force=True), plain.numpy(force=True), rtol=1e-12)
        for g in again:
            np.testing.assert_allclose(g.numpy(force=True), third.numpy(force=True), rtol=1e-12)


class TestContext:
    def test_again_within_itself_and_refused(self):
        codec, hook = copying()
        x = leaf(3) * 1
        with hook as entered, hook:
            x.sin()
        with hook:
            x.sin()
        x.sin()
        assert entered is hook
        assert len(codec.packed) == 2
        with disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"), hook:
            raise AssertionError

    def test_threads(self, device):
        """All with one hook and one tensor; on the CPU that is packed once."""
        codec, hook = copying()
        x = leaf(40, 40, device=device)
        h = x * 1
        results, alive, barrier = [None] * 8, [], threading.Barrier(8)

        def work(i):
            barrier.wait()
            with hook:
                own = (x * (i + 1)).sin().sum()
                shared = h.sin() + h.cos()
            alive.append(shared)
            (g,) = ag.autograd.grad(own + shared.sum(), x, retain_graph=True)
            results[i] = g.numpy(force=True)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        a = x.numpy(force=True)
        for i, g in enumerate(results):
            np.testing.assert_allclose(g, (i + 1) * np.cos((i + 1) * a) + np.cos(a) - np.sin(a), rtol=1e-3, atol=1e-4)
        assert len(codec.packed) == (9 if device == "cpu" else 16)

    @pytest.mark.parametrize("error", [ValueError("mine"), MemoryError(), KeyboardInterrupt()])
    def test_a_pack_that_fails_leaves_everything_as_it_was(self, error, device):
        codec, hook = copying()
        x = leaf(3, device=device)
        h = x * 1
        with hook:
            kept = h.cos()
            held, codec.fails = hook.bytes_held, error
            for call in (lambda: (h * 2).sin(), lambda: h.exp_(), lambda: h.exp()):
                with pytest.raises(type(error)):
                    call()
            assert (h._version, hook.bytes_held) == (0, held)
            codec.fails = None
            h.exp_()
            y = h.sin()  # not what was packed of the failed exp_, by the same version
        (g,) = ag.autograd.grad(y.sum() + kept.sum(), x)
        a = x.numpy(force=True)
        np.testing.assert_allclose(g.numpy(force=True), np.cos(np.exp(a)) * np.exp(a) - np.sin(a), rtol=1e-5)

    def test_a_failed_write_leaves_no_version_behind(self, monkeypatch, device):
        """What was packed before the failure is of values that h never had."""
        codec, hook = copying()
        x = leaf(3, device=device)
        h = x * 1

        def interrupted(node_seq, packed):
            raise KeyboardInterrupt

        with hook:
            monkeypatch.setattr(hook._cache.order, "add", interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                h.exp_()
            monkeypatch.undo()
            with ag.no_grad():
                h.mul_(3)  # the version that exp_ would have made
            y = h.sin()
        assert len(codec.packed) == 2
        (g,) = ag.autograd.grad(y.sum(), x)
        np.testing.assert_allclose(g.numpy(force=True), np.cos(3 * x.numpy(force=True)), rtol=1e-5)
        assert caught.tb is not None  # whose frames hold what was packed

    def test_pickled(self):
        """With a module: what it holds stays here, what it does goes along."""
        net = ag.nn.Sequential(ag.nn.Linear(4, 4), ag.nn.Tanh())
        hook = quantize(ag.bfloat16)
        hook.attach(net[1])
        chosen = ag.hooks.select(quantize(ag.float16), op="linear", min_bytes=4, dtype="float32", module=net)
        y = net(leaf(2, 4))
        copied, again = pickle.loads(pickle.dumps((net, chosen)))
        assert hook.bytes_held == 16
        (attached,) = [h.function for h in copied[1]._ag_hooks.values()]
        assert (attached.bytes_held, type(attached.stages[0].codec).__name__) == (0, "Quantizer")
        with again:
            z = copied(leaf(2, 4) * 1)  # float16 with a scale
        assert (attached.bytes_held, again.bytes_held, hook.bytes_held, chosen.bytes_held) == (16, 20, 16, 0)
        del y, z

    def test_of_one_module(self, device):
        model = ag.nn.Sequential(ag.nn.Linear(4, 4), ag.nn.Sequential(ag.nn.Linear(4, 4), ag.nn.Tanh()), ag.nn.Tanh())
        model.to(device)
        codec, hook = copying()
        x = ag.ones(2, 4, device=device)
        with hook.attach(model[1]):
            model(x)
            assert len(codec.packed) == 2  # the inner linear's input and its tanh
            copied = copy.deepcopy(model)
        model(x)
        assert len(codec.packed) == 2
        copied(x)
        assert len(codec.packed) == 4

    @pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
    def test_of_a_module_that_fails(self, error):
        class Failing(ag.nn.Module):
            def forward(self, x):
                raise error

        model = Failing()
        codec, hook = copying()
        hook.attach(model)
        with pytest.raises(type(error)):
            model(ag.ones(2))
        (leaf(3) * 1).sin()
        assert not codec.packed

    def test_attach_refuses_what_is_no_module(self):
        with pytest.raises(TypeError, match=r"attach: expected an nn.Module, got int"):
            quantize(ag.float16).attach(3)


class TestModes:
    def test_nothing_is_packed_where_nothing_is_saved(self):
        codec, hook = copying()
        x = leaf(3) * 1
        with hook:
            with ag.no_grad():
                x.sin()
            with ag.inference_mode():
                x.sin()
        assert not codec.packed

    def test_an_inference_tensor_is_refused_as_ever(self):
        with ag.inference_mode():
            constant = ag.ones(3)
        with quantize(ag.float16), pytest.raises(RuntimeError, match="cannot be saved for backward"):
            (leaf(3) * 1) * constant

    def test_anomaly_mode(self, device):
        x = leaf(3, device=device)
        with ag.autograd.set_detect_anomaly(True), quantize(ag.float16):
            (x * 1).sin().sum().backward()
        np.testing.assert_allclose(x.grad.numpy(force=True), np.cos(x.numpy(force=True)), rtol=2e-3, atol=2e-3)

    @pytest.mark.parametrize("reentrant", [False, True])
    def test_checkpoint(self, reentrant, device):
        """What a checkpoint drops is nobody's to pack; its second run keeps tensors as they are."""
        codec, hook = copying()
        x = leaf(3, device=device)
        with hook:
            y = ag.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x * 1, use_reentrant=reentrant).sum()
        inside = len(codec.packed)
        assert inside <= 1  # the argument
        y.backward()
        assert len(codec.packed) == inside
        a = x.numpy(force=True)
        np.testing.assert_allclose(x.grad.numpy(force=True), np.exp(np.sin(a)) * np.cos(a), rtol=1e-5)

    def test_a_hook_inside_a_checkpoint(self, device):
        """It packs what the first run saves, which the innermost context gets, and again in the second."""
        _, hook = copying()
        x = leaf(3, device=device)

        def f(x):
            with hook:
                return x.sin().exp()

        ag.utils.checkpoint.checkpoint(f, x * 1, use_reentrant=False).sum().backward()
        a = x.numpy(force=True)
        np.testing.assert_allclose(x.grad.numpy(force=True), np.exp(np.sin(a)) * np.cos(a), rtol=1e-5)


def test_calls_under_a_hook_prepare_nothing_that_is_prepared(monkeypatch, device):
    """Tensors of one dtype on one device, and numbers, go to the op as they are."""
    x = leaf(4, 6, device=device)
    with quantize(ag.bfloat16) as hook:
        expected = ((x * 2.0).exp() + x).tanh()
        for name in ("_argument", "_same_device", "_promote"):
            monkeypatch.setattr(dispatch, name, lambda *words: pytest.fail("an argument is prepared"))
        y = ((x * 2.0).exp() + x).tanh()
    assert (y == expected).all()
    assert hook.bytes_held


@pytest.mark.parametrize("hook", [
    lambda: ag.hooks.quantize(ag.bfloat16, min_bytes=1 << 20), lambda: ag.autograd.graph.save_on_cpu(pin_memory=True),
], ids=["quantize", "save_on_cpu"])  # fmt: skip
def test_what_is_not_packed_stays_where_it_is(hook, device):
    """As without hooks: other hooks may be set on it, and its version is checked."""
    x = leaf(4, 6, device=device)
    with hook():
        y, z = x.exp(), x.sin()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t * 1, lambda t: t)
    gradient, = ag.autograd.grad(y.sum(), x)
    assert ag.allclose(gradient, y.detach())
    with ag.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
