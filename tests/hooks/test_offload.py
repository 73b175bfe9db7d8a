"""ag.hooks.offload and save_on_cpu: gradients as without them, in every order that streams may run in."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import threading
import warnings

import fault_injection
import numpy as np
import pytest
from checkout import ROOT, STAND_IN
from copying_codec import quantize
from offloading import SLAB, everything, mlp

import autograd_gpu as ag
from autograd_gpu.autograd.graph import save_on_cpu, saved_tensors_hooks
from autograd_gpu.backend.cuda import runtime
from autograd_gpu.backend.transfer import copy_engine, offload, pinned_memory

STEPS = {
    "tanh": lambda x, w: x.tanh(),
    "exp": lambda x, w: (x * 0.1).exp(),
    "relu": lambda x, w: x.relu(),
    "square": lambda x, w: x * x * 0.5,
    "linear": lambda x, w: ag.nn.functional.linear(x, w),
    "softmax": lambda x, w: x.softmax(-1),
    "view": lambda x, w: x.reshape(-1, 2).sin().reshape(x.shape) + x.T.contiguous().T,
    "part": lambda x, w: ag.cat([x[:, 1:].sigmoid(), x[:, :1]], 1),
    "twice": lambda x, w: x.tanh() * x.cos(),
    "written": lambda x, w: (x * 2).tanh_().mul_(0.5),
    "saved, then written": lambda x, w: both_of(x * 1.5),
}


def both_of(x):
    """What is saved is overwritten: a hook has its content already."""
    y = x.sin()
    x.mul_(0.5)
    return x + y


class Net:
    """A random chain of steps with a skip, its inputs, and what is done with the gradients."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.steps = [list(STEPS)[i] for i in self.rng.integers(len(STEPS), size=self.rng.integers(2, 9))]
        self.values = [self.rng.normal(size=size).astype(np.float32) for size in ((6, 4), (4, 4))]
        self.again, self.second = self.rng.integers(2, size=2)
        self.prefetch, self.skip = int(self.rng.integers(4)), bool(self.rng.integers(2))

    def run(self, context):
        x, w = [ag.tensor(value, requires_grad=True) for value in self.values]
        with context:
            h = first = x * 1.0
            for step in self.steps:
                h = STEPS[step](h, w) + (first if self.skip else 0.0)
            y = h.sum()
        if self.second:
            with context:
                gx, gw = ag.autograd.grad(y, (x, w), create_graph=True, materialize_grads=True)
            (y + (gx * gx).sum() + (gw * gw).sum()).backward(retain_graph=bool(self.again))
        else:
            y.backward(retain_graph=bool(self.again))
        if self.again:
            y.backward()
        return [None if t.grad is None else t.grad.numpy(force=True) for t in (x, w)]


@functools.cache
def expected_of(seed):
    """Gradients with copies of what is saved, which may be overwritten, too."""
    return Net(seed).run(saved_tensors_hooks(lambda t: t.clone(), lambda t: t))


@pytest.mark.cuda
@pytest.mark.emulated
def test_random_nets(schedule):
    for seed in range(60):
        net = Net(seed)
        expected = expected_of(seed)
        result = net.run(everything(prefetch=net.prefetch, skip_parameters=bool(seed % 2)))
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{seed}: {net.steps}")
    assert pinned_memory.slab(SLAB).idle()


@pytest.mark.cuda
@pytest.mark.parametrize("prefetch", [0, 2])
def test_save_on_cpu(prefetch, schedule, monkeypatch):
    monkeypatch.setattr(offload, "MIN_BYTES", 0)
    for seed in range(20):
        net = Net(seed)
        expected = expected_of(seed)
        result = net.run(save_on_cpu(pin_memory=True, prefetch=prefetch))
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{seed}: {net.steps}")


@pytest.mark.cuda
class TestMemory:
    def test_little_is_left_on_the_device(self, device):
        net, x = mlp(device, 20)
        y = net(x)
        with everything() as hook:
            y = net(x).sum()
        ag.cuda.synchronize()
        assert hook.bytes_held == 0
        assert hook.bytes_on_host == hook.bytes_saved == 20 * 16 * 8 * 4
        y.backward()
        assert (hook.bytes_held, hook.bytes_on_host, hook.bytes_saved) == (0, 0, 0)
        assert pinned_memory.slab(SLAB).idle()

    @pytest.mark.emulated
    @pytest.mark.parametrize("prefetch", [0, 1, 3])
    def test_the_forward_holds_no_more_than_prefetch(self, prefetch, device, monkeypatch):
        net, x = mlp(device, 12)
        monkeypatch.setattr(runtime.cupy().cuda.Event, "done", False)
        copy_engine.settle(0)
        with everything(prefetch=prefetch) as hook:
            y = net(x).sum()
            assert hook.bytes_held == prefetch * 16 * 8 * 4
        y.backward()

    def test_what_stays_where_it_is(self, device):
        net, x = mlp(device, 1)
        for hook, kept in ((ag.hooks.offload(slab_bytes=SLAB), 0), (everything(), 2)):  # not what is small, not leaves
            with hook:
                y = net(x).exp().sum()
            assert hook.bytes_on_host == kept * 16 * 8 * 4
            y.backward()
        with ag.hooks.offload(min_bytes=16 * 8 * 4, slab_bytes=SLAB, skip_parameters=False) as hook:
            y = net(x).exp().sum()  # x, the two results; not the weight, which is smaller
        assert hook.bytes_on_host == 3 * 16 * 8 * 4
        y.backward()

    def test_a_dropped_graph_gives_everything_back(self, device):
        net, x = mlp(device)
        with everything() as hook:
            y = net(x).sum()
        assert hook.bytes_on_host
        del y
        gc.collect()
        assert hook.bytes_on_host == 0
        assert pinned_memory.slab(SLAB).idle()

    @pytest.mark.emulated
    def test_parameters_may_be_updated_at_once(self, device, schedule, monkeypatch):
        """What is still being copied is not overwritten: the step waits for it."""
        net, x = mlp(device)
        params = list(net.parameters())
        expected = [g.numpy(force=True) for g in ag.autograd.grad(net(x).sum(), params)]
        optimizer = ag.optim.SGD(params, lr=0.1)
        for p in params:
            p.grad = ag.ones_like(p)
        monkeypatch.setattr(runtime.cupy().cuda.Event, "done", False)
        with everything(skip_parameters=False, prefetch=99):
            y = net(x).sum()
        optimizer.step()
        optimizer.zero_grad()
        x.zero_()
        y.backward()
        for p, g in zip(params, expected, strict=True):
            np.testing.assert_array_equal(p.grad.numpy(force=True), g)

@pytest.mark.cuda
def test_steps_of_a_training(device, schedule):
    """What is still being copied when a step of all parameters in one launch writes to them."""
    seen = []
    for hook in (everything(skip_parameters=False), saved_tensors_hooks(lambda t: t, lambda t: t)):
        net, x = mlp(device, 2)
        optimizer = ag.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            with hook:
                y = net(x).square().sum()
            optimizer.zero_grad()
            y.backward()
            optimizer.step()
        seen.append([p.numpy(force=True) for p in net.parameters()])
    for a, b in zip(*seen, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.cuda
def test_the_warning_waits_for_the_forward_to_end(device, monkeypatch):
    """With a hook on each layer, too, it says what all of them need."""
    monkeypatch.setattr(pinned_memory, "GROWTH", 1)
    net, x = mlp(device, 10)
    hook = ag.hooks.offload(min_bytes=0, slab_bytes=1536)
    handles = [hook.attach(layer) for layer in net]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = net(x).sum()
    with pytest.warns(UserWarning, match=r"up to 5120 bytes .* use ag.hooks.offload\(slab_bytes=1048576\)"):
        y.backward()
    for handle in handles:
        handle.remove()


@pytest.mark.cuda
def test_a_slab_that_is_too_small(device, monkeypatch):
    monkeypatch.setattr(pinned_memory, "GROWTH", 1)
    net, x = mlp(device, 10)
    expected = ag.autograd.grad(net(x).sum(), list(net.parameters()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            with ag.hooks.offload(min_bytes=0, slab_bytes=2048):
                y = net(x).sum()
            grads = ag.autograd.grad(y, list(net.parameters()))
            for a, b in zip(grads, expected, strict=True):
                np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
    assert [str(w.message).partition("up to ")[2].partition(" bytes")[0] for w in caught] == [str(10 * 512)]


@pytest.mark.cuda
def test_out_of_memory_anywhere(device):
    """An error says so, or nothing is wrong; the graph and the hook are good for another try."""
    net, x = mlp(device, 3)
    params = list(net.parameters())

    def forward():
        with everything(prefetch=1):
            return net(x).sum()

    expected = [g.numpy(force=True) for g in ag.autograd.grad(forward(), params)]
    for at in range(1, 40):
        y = None
        with fault_injection.out_of_memory(ag.device(device), at) as allocations:
            try:
                y = forward()
                grads = ag.autograd.grad(y, params, retain_graph=True)
            except MemoryError:
                grads = None
        if grads is None:
            grads = ag.autograd.grad(forward() if y is None else y, params)
        for a, b in zip(grads, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(force=True), b)
        if allocations.count < at:
            break
    assert at > 15
    del y
    gc.collect()
    assert pinned_memory.slab(SLAB).idle()


@pytest.mark.cuda
def test_threads(device):
    """One hook in many threads, and one graph that many differentiate."""
    net, x = mlp(device)
    params = list(net.parameters())
    expected = [g.numpy(force=True) for g in ag.autograd.grad(net(x).sum(), params)]
    hook, errors = everything(prefetch=1), []
    with hook:
        shared = net(x).sum()

    def work(shared=shared):
        try:
            for i in range(6):
                with hook:
                    y = net(x).sum()
                grads = ag.autograd.grad(y if i % 2 else shared, params, retain_graph=True)
                for a, b in zip(grads, expected, strict=True):
                    np.testing.assert_array_equal(a.numpy(force=True), b)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del work, threads
    assert not errors, errors
    assert hook.bytes_on_host == 6 * 16 * 8 * 4
    del shared
    gc.collect()
    assert hook.bytes_on_host == 0


@pytest.mark.cuda
def test_of_codes(device, schedule):
    """compose(quantize, offload): the codes go to the host, with the result of quantize alone."""
    net, x = mlp(device)
    params, results = list(net.parameters()), []
    for hook in (quantize(ag.float16), ag.hooks.compose(quantize(ag.float16), everything())):
        with hook:
            y = net(x).sum()
        results.append([g.numpy(force=True) for g in ag.autograd.grad(y, params, retain_graph=True)])
    ag.cuda.synchronize()
    assert (hook.bytes_held, hook.bytes_on_host) == (0, 6 * (16 * 8 * 2 + 4))  # with the scales
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


SECOND_DEVICE = """
import gc
import numpy as np
import autograd_gpu as ag
from autograd_gpu.backend.transfer import pinned_memory
hook = ag.hooks.offload(min_bytes=0, slab_bytes=1 << 12)
for i in range(20):
    grads = []
    for device in (0, 1):
        with ag.cuda.device(device):
            x = ag.linspace(i, i + 1, 200, device="cuda").requires_grad_()
            with hook:
                y = (x * 2).sin().exp().tanh().sum()
            (g,) = ag.autograd.grad(y, x)
            assert g.device == ag.device("cuda", device)
            grads.append(g.numpy(force=True))
    np.testing.assert_array_equal(*grads)
del x, y, g
gc.collect()
assert pinned_memory.slab(1 << 12).idle()
for i in (0, 1):
    ag.cuda.synchronize(i)
ag.cuda.empty_cache()
print("done")
"""


@pytest.mark.emulated
@pytest.mark.parametrize("order", ["late", "eager"])
def test_two_devices(order):
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN), "AUTOGRAD_GPU_EMU_DEVICES": "2",
                   "AUTOGRAD_GPU_EMU_SCHEDULE": order}
    command = [sys.executable, "-W", "error", "-c", SECOND_DEVICE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.cpu
def test_on_the_cpu_nothing_is_done(device):
    x = ag.ones(2, requires_grad=True)
    with everything() as hook:
        b = x * 1
        y = b.sin()
    assert np.shares_memory(y.grad_fn._saved_self.array, b.array)
    assert (hook.bytes_held, hook.bytes_saved, hook.bytes_on_host) == (0, 0, 0)
    b.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["prefetch", "min_bytes", "slab_bytes"])
def test_negative_numbers(name):
    with pytest.raises(ValueError, match=f"offload: {name} must not be negative, got -1"):
        ag.hooks.offload(**{name: -1})


@pytest.mark.parametrize(("value", "text"), [(2.5, "2.5"), (None, "None"), ("2", "'2'")])
def test_what_is_no_number_of_nodes(value, text):
    for function, call in (("offload", ag.hooks.offload), ("save_on_cpu", lambda n: save_on_cpu(True, n))):
        with pytest.raises(TypeError, match=f"{function}: prefetch must be an integer, not {text}"):
            call(value)
    with pytest.raises(ValueError, match="save_on_cpu: prefetch=2 needs pin_memory=True"):
        save_on_cpu(prefetch=2)
