"""quantize, select and compose: what they take, and what comes back."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from copying_codec import Copying, copying, gradients, leaf, quantize
from selection import first

import autograd_gpu as ag
from autograd_gpu.autograd.graph import SaveInfo
from autograd_gpu.hooks.base import MemoryHook
from autograd_gpu.hooks.codec import Stage
from autograd_gpu.hooks.quantize import Coded, Quantizer
from autograd_gpu.nn import functional as F


class TestQuantize:
    def test_what_is_left_as_it_is(self, device):
        """Leaves, their views, integers, short dtypes; what has no elements."""
        hook = quantize(ag.bfloat16)
        p = ag.nn.Parameter(ag.ones(4, 4, device=device))
        half, x = (leaf(4, 4, device=device) * 1).half(), leaf(4, 4, device=device)
        with hook:
            kept = [p * 1 @ p.t(), half.sin(), x.t().sin(), (x * 1).max(0)[0], x[:0].exp()]
        held = [node for y in kept for node in [y.grad_fn] if node is not None]
        assert held
        assert hook.bytes_held == 32  # of p * 1

    @pytest.mark.parametrize(("skip", "held"), [(True, 0), (False, 32)])
    def test_leaves(self, skip, held, device):
        hook = quantize(ag.bfloat16, skip_leaves=skip)
        with hook:
            y = leaf(4, 4, device=device).sin()
        assert hook.bytes_held == held
        assert y.shape == (4, 4)

    def test_predicate(self):
        seen = []
        hook = quantize(ag.bfloat16, predicate=lambda t, info: seen.append((t.shape, info.op)) or t.ndim == 1)
        with hook:
            y = (leaf(3) * 1).sin(), (leaf(3, 3) * 1).cos()
        assert seen == [((3,), "sin"), ((3, 3), "cos")]
        assert hook.bytes_held == 6
        assert isinstance(y[0].grad_fn._saved_self, ag.Tensor)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
    @pytest.mark.parametrize("granularity", ["tensor", "row"])
    @pytest.mark.parametrize("source", ["float32", "float64", "bfloat16"])
    def test_dtypes(self, dtype, granularity, source, device):
        reference = getattr(ag, dtype)
        if reference.itemsize >= getattr(ag, source).itemsize:
            pytest.skip("takes no fewer bytes")
        x = (leaf(32, 48, device=device) * 1).to(getattr(ag, source)).detach().requires_grad_()
        f = lambda x: (x * 1).sin() * (x * 1).t().exp().t()  # noqa: E731
        result = gradients(f, x, quantize(reference, granularity)).double()
        expected = gradients(f, x).double()
        error = ((result - expected).norm() / expected.norm()).item()
        assert error < {"float16": 2e-3, "bfloat16": 8e-3}.get(dtype, 0.15)
        assert result.dtype == ag.float64

    def test_a_layer_and_its_activation_decode_once(self, monkeypatch, device):
        decoded, unpack = [], Quantizer.unpack
        monkeypatch.setattr(Quantizer, "unpack", lambda self, handle: decoded.append(handle) or unpack(self, handle))
        net = ag.nn.Sequential(*[m for _ in range(5) for m in (ag.nn.Linear(8, 8), ag.nn.Tanh())]).to(device)
        with quantize(ag.bfloat16) as hook:
            y = net(ag.ones(4, 8, device=device)).square().sum()
        y.backward()
        assert len(decoded) == 5
        assert hook.bytes_held == 0

    @pytest.mark.parametrize(("f", "bound"), [
        (lambda p: -(p.softmax(1) * p.softmax(1).log()).sum(), 0.2), (lambda p: -p.sigmoid().log().sum(), 0.3),
        (lambda p: (1 / (p.square() + 1e-3)).sum(), 0.1), (lambda p: (p / 40).acos().sum(), 0.1),
        (lambda p: (p * 10).logsumexp(1).sum(), 0.1),
        (lambda p: (F.layer_norm(p, (32,)) * ag.arange(32.0, device=p.device)).sum(), 0.02),  # its statistics are exact
    ])  # fmt: skip
    def test_what_a_derivative_divides_by_is_not_rounded(self, f, bound, device):
        """In float8 these became inf, NaN, or wrong by their own size."""
        p = leaf(64, 32, device=device) * 6
        p = p.detach().requires_grad_()
        hook = quantize(ag.float8_e4m3fn)
        (expected,) = ag.autograd.grad(f(p * 1), p)
        with hook:
            y = f(p * 1)
        (gradient,) = ag.autograd.grad(y, p)
        assert ((gradient - expected).norm() / expected.norm()).item() < bound

    @pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
    def test_what_a_derivative_compares_is_not_rounded(self, name, device):
        f = getattr(ag, name)
        a, b = ag.tensor([1.0, 1.001, 2.0], device=device), ag.tensor([1.001, 1.0, 1.0], device=device)
        expected = gradients(lambda a: f(a * 1, b * 1), a.requires_grad_())
        result = gradients(lambda a: f(a * 1, b * 1), a, quantize(ag.bfloat16, skip_leaves=False))
        assert result.tolist() == expected.tolist()

    def test_small_memory_stays_as_it_is(self, device):
        """Not a small view of much memory, which would keep that."""
        hook = ag.hooks.quantize(ag.bfloat16)
        x = leaf(64, 64, device=device)
        with hook:
            y = (x[0] * 1).sin()
            assert hook.bytes_held == 0
            z = (x * 1)[0].sin()
        assert hook.bytes_held == 2 * 64
        del y, z

    @pytest.mark.parametrize(("args", "kind", "text"), [
        ((None,), TypeError, "quantize: dtype is missing; use one of float16"),
        ((ag.float32,), TypeError, "float32 is not supported; use one of float16"),
        ((ag.float16, "column"), ValueError, "granularity must be 'tensor' or 'row', not 'column'"),
        ((ag.float16, "row", "large"), TypeError, "predicate must be a function of a tensor and a SaveInfo"),
    ])
    def test_errors(self, args, kind, text):
        with pytest.raises(kind, match=text):
            quantize(*args)


class TestSelect:
    def packed(self, *chain):
        codec, hook = copying()
        for conditions in chain:
            hook = ag.hooks.select(hook, **conditions)
        x = leaf(4, 4)
        with hook:
            y = (x * 1).sin(), (x * 2).cos(), (x[0] * 1).double().tanh()
        del y
        return codec.packed

    @pytest.mark.parametrize(("conditions", "expected"), [
        ({}, "sct"), ({"op": "sin"}, "s"), ({"op": ("sin", "tanh")}, "st"), ({"min_bytes": 64}, "sc"),
        ({"min_bytes": 65}, ""), ({"dtype": ag.float64}, "t"), ({"dtype": ["float32", "float64"]}, "sct"),
        ({"op": "tanh", "min_bytes": 33}, ""), ({"predicate": lambda t, info: info.name == "out"}, "t"),
    ])  # fmt: skip
    def test_conditions(self, conditions, expected):
        assert self.packed(conditions) == [(4,) if c == "t" else (4, 4) for c in expected]

    def test_conditions_of_both(self):
        assert self.packed({"op": ["sin", "cos"]}, {"op": ["cos", "tanh"]}) == [(4, 4)]
        assert self.packed({"op": ["sin", "cos"]}, {"op": ["tanh"]}) == []

    def test_modules(self):
        first, second = ag.nn.Sequential(ag.nn.Tanh(), ag.nn.Tanh()), ag.nn.Tanh()
        hook = ag.hooks.select(quantize(ag.bfloat16), module=first)
        with hook:
            y = second(first(leaf(4, 2)))
        assert hook.bytes_held == 32
        both = ag.hooks.select(quantize(ag.bfloat16), module=[first, second])
        with both:
            z = second(first(leaf(4, 2)))
        assert both.bytes_held == 48
        assert len(first._ag_hooks) == 2
        del hook, both, y, z
        assert not first._ag_hooks  # nobody watches any more

    def test_a_hook_in_the_module_is_off_outside_of_its_thread(self):
        entered, leave = threading.Event(), threading.Event()

        class Waiting(ag.nn.Module):
            def forward(self, x):
                entered.set()
                leave.wait(10)
                return x

        module = Waiting()
        hook = ag.hooks.select(quantize(ag.bfloat16), module=module)
        thread = threading.Thread(target=module, args=(ag.ones(1),))
        thread.start()
        entered.wait(10)
        with hook:
            y = (leaf(4, 2) * 1).sin()
        leave.set()
        thread.join()
        assert hook.bytes_held == 0
        y.sum().backward()

    @pytest.mark.parametrize("op", ["sin", ["sin"], {"sin": 1}.keys(), (name for name in ["sin"])])
    def test_one_or_several(self, op):
        assert self.packed({"op": op}) == [(4, 4)]

    def test_modules_of_an_iterator(self):
        net = ag.nn.Sequential(ag.nn.Tanh(), ag.nn.Tanh())
        with ag.hooks.select(quantize(ag.bfloat16), module=net.modules()) as hook:
            y = net(leaf(4, 2))
        assert hook.bytes_held == 32
        del y

    @pytest.mark.parametrize(("conditions", "kind", "text"), [
        ({"op": 3}, TypeError, "op must be the name of an operation, or several, got 3"),
        ({"op": [3]}, TypeError, "op must be the name of an operation"),
        ({"min_bytes": "1k"}, TypeError, "select: min_bytes must be an integer, not '1k'"),
        ({"min_bytes": -3}, ValueError, "select: min_bytes must not be negative, got -3"),
        ({"predicate": 3}, TypeError, "select: predicate must be a function"),
        ({"module": ag.nn.Tanh}, TypeError, "select: expected an nn.Module, got the class Tanh"),
    ])
    def test_wrong_conditions(self, conditions, kind, text):
        with pytest.raises(kind, match=text):
            ag.hooks.select(quantize(ag.float16), **conditions)

    def test_errors(self):
        with pytest.raises(TypeError, match=r"select: expected a hook of ag.hooks, got int"):
            ag.hooks.select(3)
        with pytest.raises(TypeError, match=r"select: expected an nn.Module, got str"):
            ag.hooks.select(quantize(ag.float16), module="layer")


class TestCompose:
    def test_what_the_first_leaves_goes_to_the_next(self, device):
        codec = Copying()
        hook = ag.hooks.compose(quantize(ag.float8_e4m3fn, "row"), MemoryHook((Stage(codec),)))
        x = leaf(8, 8, device=device)
        result = gradients(lambda x: (x * 1).sin(), x, hook)
        assert codec.packed == [(8, 8), (8, 1)]
        alone = gradients(lambda x: (x * 1).sin(), x, quantize(ag.float8_e4m3fn, "row"))
        np.testing.assert_array_equal(result.numpy(force=True), alone.numpy(force=True))

    def test_each_takes_what_it_would_take(self):
        codec, second = copying()
        first = ag.hooks.select(quantize(ag.bfloat16), op="sin")
        hook = ag.hooks.compose(first, ag.hooks.select(second, op=["sin", "cos"], min_bytes=10))
        with hook:
            kept = [(leaf(4) * 1).sin(), (leaf(5) * 1).cos(), (leaf(6) * 1).tanh(), (leaf(2) * 1).sin()]
        assert codec.packed == [(4,), (5,)]
        assert hook.bytes_held == 8 + 20 + 4  # the last by the first alone
        assert hook.bytes_saved == 8 + 4
        assert len(kept) == 4

    def test_scales_are_not_rounded(self, device):
        """The second quantize would take them for a tensor."""
        hook = ag.hooks.compose(quantize(ag.float8_e5m2, "row"), quantize(ag.float16))
        x = leaf(8, 64, device=device)
        with hook:
            y = (x * 1).sin()
        assert hook.bytes_held == 8 * 64 + 8 * 4
        y.sum().backward()

    def test_prefetch_reaches_the_parts(self):
        codec = Copying(ahead=1)
        hook = ag.hooks.compose(quantize(ag.bfloat16), MemoryHook((Stage(codec),)))
        with hook:
            y = (leaf(4) * 1).sin()[1:].sin()
        y.sum().backward()
        assert codec.soon == [(4,)]

    def test_errors(self):
        with pytest.raises(TypeError, match=r"compose: expected one hook or more"):
            ag.hooks.compose()
        with pytest.raises(TypeError, match=r"compose: expected hooks of ag.hooks, got function"):
            ag.hooks.compose(lambda t: t)

    def test_what_leaves_the_device_goes_no_further(self):
        first, hook = copying()
        last, other = copying()
        with ag.hooks.compose(ag.hooks.select(hook, op="sin"), other):
            kept = (leaf(4) * 1).sin(), (leaf(5) * 1).cos()
        assert (first.packed, last.packed) == ([(4,)], [(5,)])
        assert len(kept) == 2


@pytest.mark.parametrize("activation", first([ag.nn.Tanh, ag.nn.ReLU, lambda: ag.nn.ReLU(inplace=True)]))
@pytest.mark.parametrize(("args", "share", "error"), [
    (("float16",), 0.51, 6e-4), (("bfloat16",), 0.51, 5e-3), (("float8_e4m3fn", "row"), 0.27, 5e-2),
    (("float8_e4m3fn",), 0.26, 5e-2), (("float8_e5m2",), 0.26, 0.2),
])  # fmt: skip
def test_a_deep_network(args, share, error, activation, device):
    """Bytes held, relative to those without; the worst weight gradient."""
    ag.manual_seed(0)
    net = ag.nn.Sequential(*[m for _ in range(20) for m in (ag.nn.Linear(256, 256), activation())]).to(device)
    x, weights = ag.randn(128, 256, device=device), [m.weight for m in net if isinstance(m, ag.nn.Linear)]
    hook = quantize(*args)
    with hook:
        y = net(x).square().mean()
    assert hook.bytes_held + hook.bytes_saved == 20 * x.nbytes
    assert hook.bytes_held <= share * 20 * x.nbytes
    expected = ag.autograd.grad(net(x).square().mean(), weights)
    for a, b in zip(ag.autograd.grad(y, weights), expected, strict=True):
        assert ((a - b).norm() / b.norm()).item() <= error


def test_a_codec_takes_what_it_says():
    codec = Quantizer(ag.bfloat16, "tensor")
    info = SaveInfo("mul", "a", False, False, None, 0, 0)
    assert codec.takes(np.ones(3, np.float32), info)
    assert not codec.takes(np.ones(3, np.float16), info)
    assert not codec.takes(np.ones(3, np.int64), info)
    halves, rows = Quantizer(ag.float16, "tensor"), Quantizer(ag.float16, "row")
    assert [halves.takes(np.ones((n, 2), np.float32), info) for n in (0, 1, 2)] == [False, False, True]
    assert [rows.takes(np.ones((2, n), np.float64), info) for n in (1, 2)] == [False, True]  # 2 n + 8 of 8 n
    handle = codec.pack(np.ones(3, np.float32))
    arrays, rest = codec.split(handle)
    assert isinstance(codec.join(arrays, rest), Coded)
    assert handle.device_bytes == 6
