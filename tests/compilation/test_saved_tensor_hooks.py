"""Saved-tensor hooks inside and around compiled calls: `ag.hooks.quantize` is made of nodes, with the bits of eager."""

import contextlib

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from benchmarks.counting import peak_bytes

H = ag.hooks
HOOKS = {
    "none": contextlib.nullcontext,
    "float8": lambda: H.quantize("float8_e4m3fn", min_bytes=0),
    "rows": lambda: H.quantize("float8_e5m2", "row", min_bytes=0),
    "bfloat16": lambda: H.quantize("bfloat16", min_bytes=0, skip_leaves=False),
    "selected": lambda: H.select(H.quantize("float16", min_bytes=0), op=["tanh", "mul"], min_bytes=200),
    "composed": lambda: H.compose(H.select(H.quantize("float8_e5m2", min_bytes=0), op="tanh"),
                                  H.quantize("float16", min_bytes=0)),
}  # fmt: skip


def run(wrap, make, around, device, calls=5):
    """Calls with a hook of their own each, of a function that saves views, transposes and one array for two nodes.

    What it sums no group has made: sums in a group have an order of their own on CUDA.
    """
    ag.manual_seed(0)
    w, v = (nn.Parameter(ag.randn(8, 8, device=device)) for _ in range(2))

    def work(x):
        y = (x @ w).tanh()
        z = y.flip(0).t() * y.t() + (y[1:3] * y[2:4]).sum()
        return nn.functional.gelu((z.t() @ v) * y).flip(0).sum()

    def hooked(x):
        with make():
            return work(x)

    f, seen, random = wrap(work if around else hooked), [], np.random.default_rng(3)
    for _ in range(calls):
        x = ag.tensor(random.uniform(-1, 1, (8, 8)).astype("f4"), device=device, requires_grad=True)
        with make() if around else contextlib.nullcontext():
            loss = f(x)
        loss.backward()
        seen.append([t.detach().cpu().numpy().tobytes() for t in (loss, x.grad, w.grad, v.grad)])
        w.grad = v.grad = None
    return seen, f


@pytest.mark.parametrize("around", [False, True], ids=["inside", "around"])
@pytest.mark.parametrize("name", HOOKS)
def test_bits_of_eager(name, around, device):
    expected, _ = run(lambda f: f, HOOKS[name], around, device)
    seen, f = run(lambda f: ag.compile(f, fullgraph=True), HOOKS[name], around, device)
    assert seen == expected
    assert f.counts.compiled == 3


def test_bytes_held(device):
    """The figure of the float8 hook, as `saved_bytes` and as the eager hook counts them."""
    m = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.LayerNorm(64)) for _ in range(6)]).to(device)
    held = {}
    for name in ("none", "float8"):
        f = ag.compile(m, fullgraph=True)
        for _ in range(2):
            with HOOKS[name]() as hook:
                y = f(ag.ones(256, 64, device=device, requires_grad=True))
        held[name] = f.explain().saved_bytes
        if name == "float8":
            y = m(ag.ones(256, 64, device=device, requires_grad=True))
            with HOOKS[name]() as hook:
                y = m(ag.ones(256, 64, device=device, requires_grad=True))
            assert hook.bytes_held > 0
    assert held["float8"] <= 0.30 * held["none"]
    del y


def test_other_hooks_are_other_programs(device):
    """Around a call the hooks are part of the key, and inside of it what they were made with is guarded."""
    f = ag.compile(lambda x: (x * 3).exp().tanh().sum(), fullgraph=True)
    grads = {}
    for name in ("none", "float8", "bfloat16") * 4:
        x = ag.tensor(np.linspace(-1, 1, 64, dtype="f4"), device=device, requires_grad=True)
        with HOOKS[name]():
            f(x).backward()
        grads.setdefault(name, []).append(x.grad.cpu().numpy())
    tolerance = 1e-6 if device == "cuda" else 0  # a group on CUDA contracts products and sums
    for own in grads.values():
        assert all(np.allclose(grad, own[0], tolerance, tolerance) for grad in own)
    assert len({own[0].tobytes() for own in grads.values()}) == 3
    assert (f.counts.traced, f.counts.compiled) == (6, 6)

    hook = HOOKS["float8"]()

    @ag.compile(fullgraph=True)
    def inside(x):
        with hook:
            return (x * 3).exp().tanh().sum()

    for name in ("float8", "bfloat16"):
        hook = HOOKS[name]()
        for _ in range(4):
            x = ag.tensor(np.linspace(-1, 1, 64, dtype="f4"), device=device, requires_grad=True)
            inside(x).backward()
            assert np.allclose(x.grad.cpu().numpy(), grads[name][0], tolerance, tolerance)


def test_a_second_derivative_has_the_hooks_of_the_call(device):
    def run(f):
        seen = []
        for _ in range(5):
            x = ag.tensor(np.linspace(-1, 1, 64, dtype="f4"), device=device, requires_grad=True)
            with HOOKS["float8"]():
                y = f(x)
            (first,) = ag.autograd.grad(y, x, create_graph=True)
            seen.append(ag.autograd.grad(first.sum(), x)[0].cpu().numpy().tobytes())
        return seen

    def fn(x):
        return (x * 2).tanh().sum()

    assert run(ag.compile(fn, fullgraph=True)) == run(fn)


@pytest.mark.cuda
def test_offloading_is_refused(device):
    @ag.compile
    def f(x):
        with H.compose(H.quantize("float16", min_bytes=0), H.offload(min_bytes=0)):
            return (x * 2).tanh().sum()

    x = ag.ones(64, requires_grad=True, device=device)
    with pytest.warns(UserWarning, match="offloads saved tensors"):
        f(x).backward()
    f(x).backward()
    assert f.counts.compiled == 0


class Long(nn.Module):
    """Connections from the first layers to the last ones: what the first ones save is read at both ends."""

    def __init__(self, depth, width):
        super().__init__()
        self.down, self.up = (nn.ModuleList([nn.Linear(width, width) for _ in range(depth)]) for _ in range(2))

    def forward(self, x):
        held = []
        for layer in self.down:
            x = layer(x).tanh()
            held.append(x)
        for layer, h in zip(self.up, reversed(held), strict=True):
            x = layer(x).tanh() * h
        return x


@pytest.mark.cpu
@pytest.mark.parametrize("make", [lambda: Long(6, 64), lambda: nn.Sequential(
    *[nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(12)])], ids=["long", "chain"])
@pytest.mark.parametrize("name", ["none", "float8"])
def test_peak_bytes_are_those_of_eager(make, name):
    """Arrays are unpacked again for a use that lies apart, and what was saved dies at its last use in the backward."""
    peaks, grads = [], []
    x = ag.randn(1024, 64)
    for compiled in (False, True):
        ag.manual_seed(0)
        model = make()
        forward = ag.compile(model, fullgraph=True) if compiled else model

        def step(model=model, forward=forward):
            model.zero_grad()
            with HOOKS[name]():
                loss = (forward(x) ** 2).mean()
            loss.backward()

        for _ in range(6):  # native code comes meanwhile, and takes memory of its own
            step()
        peaks.append(peak_bytes("cpu", step))
        grads.append([p.grad.numpy().tobytes() for p in model.parameters()])
    assert grads[0] == grads[1]
    assert peaks[1] <= 1.12 * peaks[0]  # eager frees the gradient of the result earlier
