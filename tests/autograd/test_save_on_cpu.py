"""save_on_cpu: what goes to host memory, what stays, and what comes back."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from against_torch import leaf, same

import autograd_gpu as ag
from autograd_gpu.autograd import graph
from autograd_gpu.autograd.graph import saved_tensors_hooks
from autograd_gpu.backend.transfer import offload


@pytest.mark.parametrize("pinned", [False, True])
def test_gradients(pinned, device):
    def run(context):
        x, w = ag.arange(6.0).reshape(2, 3).requires_grad_(), ag.nn.Parameter(ag.ones(3, 3))
        with context:
            y = (ag.nn.functional.linear(x, w).tanh() * x[:, :1]).sum()
        (g,) = ag.autograd.grad(y, x, create_graph=True)
        (g * g).sum().backward()
        return g.tolist(), x.grad.tolist(), w.grad.tolist()

    result = run(graph.save_on_cpu(pin_memory=pinned))
    for a, b in zip(result, run(saved_tensors_hooks(same, same)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_saved_tensor_comes_back_to_its_device(device):
    with graph.save_on_cpu():
        y = ag.ones(2, requires_grad=True).exp()
    assert y.grad_fn._saved_result.device == y.device
    assert y.grad_fn._saved_result.requires_grad


@pytest.mark.cpu
def test_on_the_cpu_nothing_is_copied_and_versions_count():
    x = leaf(ag)
    b = x * 1
    with graph.save_on_cpu():
        y = b.sin()
    assert np.shares_memory(y.grad_fn._saved_self.array, b.array)
    b.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.cuda
def test_on_cuda_the_source_may_go():
    x = leaf(ag)
    b = x * 1
    with graph.save_on_cpu():
        y = b.sin()
    died = weakref.ref(b._array)
    b.zero_()  # the copy was made before
    del b
    assert died() is None
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), np.cos([1.0, 2.0]), rtol=1e-6)


@pytest.mark.cuda
def test_what_is_not_worth_a_copy_stays(device, monkeypatch):
    """Parameters and what is small stay, and writes to them are noticed; only without pin_memory all goes."""
    packed, pack = [], offload.pack
    monkeypatch.setattr(offload, "pack", lambda array, **kwargs: packed.append(array.shape) or pack(array, **kwargs))
    small, p = ag.ones(2, 2, device=device), ag.nn.Parameter(ag.ones(128, 128, device=device))
    with graph.save_on_cpu(pin_memory=True):
        y = (p * 1).exp() * p  # saves exp's result of 64 KiB twice, and p
        z = (small * p[:2, :2]).sin()  # saves small, which p is multiplied by, and the product
    assert packed == [(128, 128)] * 2
    small.zero_()
    (y.sum()).backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


@pytest.mark.cuda
@pytest.mark.parametrize("pin_memory", [False, True])
def test_codes_come_back_as_float8(pin_memory, device, monkeypatch):
    monkeypatch.setattr(offload, "MIN_BYTES", 0)

    class Coded(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.to(ag.float8_e4m3fn))
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].to(ag.float32).cos()

    x = ag.ones(3, 3, device=device, requires_grad=True)
    with graph.save_on_cpu(pin_memory=pin_memory):
        y = Coded.apply(x * 1).sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(force=True), np.cos(np.ones((3, 3))), rtol=1e-6)
