"""layer_norm and rms_norm: accuracy, launches on CUDA, and derivatives of every order."""

import functools

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import profiler
from autograd_gpu.autograd.gradcheck import gradcheck, gradgradcheck
from autograd_gpu.nn import functional as F
from autograd_gpu.ops.nn.layer_norm import native_layer_norm, native_rms_norm

HALF = {"float16": 2e-3, "bfloat16": 1.6e-2}


def leaf(device, *shape, dtype=ag.float64, scale=1.0, shift=0.0):
    return ag.tensor(shift + scale * np.random.randn(*shape), dtype=dtype, device=device, requires_grad=True)


def layer_norm(x, weight, bias, dims=1):
    return F.layer_norm(x, x.shape[-dims:], weight, bias, eps=0.01)


def rms_norm(x, weight, dims=1):
    return F.rms_norm(x, x.shape[-dims:], weight, eps=0.01)


def formula(x, weight=None, bias=None, centered=True, eps=0.01):
    """By ops of its own kind each, in float64."""
    x = x.to(ag.float64)
    x = x - x.mean(-1, keepdim=True) if centered else x
    out = x / ((x * x).mean(-1, keepdim=True) + eps).sqrt()
    out = out if weight is None else out * weight.to(ag.float64)
    return out if bias is None else out + bias.to(ag.float64)


# ---- accuracy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cols", [8, 33, 640])
def test_a_large_mean_costs_no_digits(device, cols):
    """In float32 the mean of squares about 1e4 has no digit left for a variance of 1."""
    x = leaf(device, 6, cols, dtype=ag.float32, shift=1e4)
    weight, bias, g = leaf(device, cols), leaf(device, cols), leaf(device, 6, cols, dtype=ag.float32)
    inputs = x, weight.detach().to(ag.float32).requires_grad_(), bias.detach().to(ag.float32).requires_grad_()
    out, exact = layer_norm(*inputs), formula(*inputs)
    np.testing.assert_allclose(out.numpy(force=True), exact.numpy(force=True), rtol=1e-3, atol=1e-2)
    grads = ag.autograd.grad(out, inputs, g)
    for one, other in zip(grads, ag.autograd.grad(exact, inputs, g.to(ag.float64)), strict=True):
        np.testing.assert_allclose(one.numpy(force=True), other.numpy(force=True), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("centered", [True, False])
def test_half_types_round_results_and_gradients_once(device, dtype, recording, centered):
    """The statistics too would cost digits: with a mean of 50, bfloat16 would take it for 50.25."""
    kind = getattr(ag, dtype)
    x, weight, bias, g = [leaf(device, *size, dtype=kind) for size in ((6, 40), (40,), (40,), (6, 40))]
    x = (x.detach() + 50.1).requires_grad_()
    inputs = (x, weight, bias) if centered else (x, weight)
    out = layer_norm(*inputs) if centered else rms_norm(*inputs)
    exact = formula(*inputs, centered=centered)
    np.testing.assert_allclose(out.double().numpy(force=True), exact.numpy(force=True), rtol=2 * HALF[dtype], atol=1e-3)
    grads = ag.autograd.grad(out, inputs, g, create_graph=recording)
    for one, other in zip(grads, ag.autograd.grad(exact, inputs, g.to(ag.float64)), strict=True):
        assert one.dtype == kind
        other = other.double().numpy(force=True)
        close = HALF[dtype] * np.abs(other).max()
        np.testing.assert_allclose(one.double().numpy(force=True), other, rtol=HALF[dtype], atol=close)


def test_statistics_of_half_types_are_float32(device):
    x = leaf(device, 2, 8, dtype=ag.bfloat16)
    for op in (native_layer_norm, native_rms_norm):
        out, *statistics = op(x, None, shape=(8,), eps=0.1)
        assert out.dtype == ag.bfloat16
        assert {statistic.dtype for statistic in statistics} == {ag.float32}


# ---- derivatives of derivatives ----------------------------------------------------------------------


CASES = {
    "layer": (layer_norm, [(3, 4), (4,), (4,)]),
    "layer-dims": (functools.partial(layer_norm, dims=2), [(2, 3, 2), (3, 2), (3, 2)]),
    "layer-plain": (lambda x: layer_norm(x, None, None), [(3, 4)]),
    "rms": (rms_norm, [(3, 4), (4,)]),
    "rms-dims": (functools.partial(rms_norm, dims=2), [(2, 3, 2), (3, 2)]),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


def test_first_and_second_derivatives(case, device):
    call, shapes = case
    inputs = tuple(leaf(device, *shape) for shape in shapes)
    assert gradcheck(call, inputs)
    assert gradgradcheck(call, inputs)


@pytest.mark.same_on_cpu  # kernels compute first derivatives; the rules that compute the others are those of the CPU
def test_third_derivatives(case, device):
    call, shapes = case
    inputs = tuple(leaf(device, *shape) for shape in shapes)

    def slopes(*inputs):
        return ag.autograd.grad(call(*inputs).pow(3).sum(), inputs, create_graph=True)

    assert gradgradcheck(slopes, inputs)


def test_recorded_gradients_are_the_plain_ones(case, device):
    call, shapes = case
    inputs = tuple(leaf(device, *shape) for shape in shapes)
    out = call(*inputs)
    g = leaf(device, *out.shape)
    plain = ag.autograd.grad(out, inputs, g, retain_graph=True)
    recorded = ag.autograd.grad(out, inputs, g, create_graph=True)
    for one, other in zip(plain, recorded, strict=True):
        assert other.requires_grad
        np.testing.assert_allclose(one.numpy(force=True), other.numpy(force=True), rtol=1e-11, atol=1e-12)


def test_gradient_penalty_trains(device):
    """Backward through a recorded gradient, down to the parameters, against the formula by single ops."""
    x, weight, bias = leaf(device, 5, 6), leaf(device, 6), leaf(device, 6)

    def penalty(call):
        (slope,) = ag.autograd.grad(call(x, weight, bias).tanh().sum(), x, create_graph=True)
        return ag.autograd.grad((slope * slope).sum(), (x, weight, bias))

    for one, other in zip(penalty(layer_norm), penalty(formula), strict=True):
        np.testing.assert_allclose(one.numpy(force=True), other.numpy(force=True), rtol=1e-9, atol=1e-10)


# ---- launches ----------------------------------------------------------------------------------------


@pytest.mark.cuda
class TestLaunches:
    """How many of our kernels an op takes; CuPy's own are not counted."""

    @staticmethod
    def launches(call):
        with profiler.count() as counts:
            call()
        return dict(counts.launches)

    def test_forward_is_one_launch(self, device):
        x, weight, bias = leaf(device, 3, 4, 6), leaf(device, 6), leaf(device, 6)
        assert self.launches(lambda: layer_norm(x, weight, bias)) == {"layer_norm": 1}
        assert self.launches(lambda: rms_norm(x, weight)) == {"rms_norm": 1}
        assert self.launches(lambda: F.layer_norm(x.transpose(0, 2), (4, 3))) == {"layer_norm": 1}
        assert self.launches(lambda: F.group_norm(x, 2)) == {"layer_norm": 1}

    @pytest.mark.parametrize(("rows", "more"), [(16, {}), (700, {"column_sum": 1})])
    def test_backward_is_at_most_two(self, device, rows, more):
        x, weight, bias = [leaf(device, *size, dtype=ag.float32) for size in ((rows, 24), (24,), (24,))]
        out, rms = layer_norm(x, weight, bias), rms_norm(x, weight)
        g = ag.ones_like(out)
        assert self.launches(lambda: out.backward(g)) == {"layer_norm_backward": 1, **more}
        assert self.launches(lambda: rms.backward(g)) == {"rms_norm_backward": 1, **more}

    def test_only_what_is_needed_is_computed(self, device):
        x, weight, bias = leaf(device, 16, 24), leaf(device, 24), leaf(device, 24)
        out = layer_norm(x, weight, bias)
        g = ag.ones_like(out)

        def grad(*inputs):
            return self.launches(lambda: ag.autograd.grad(out, inputs, g, retain_graph=True))

        assert grad(x) == {"layer_norm_backward": 1}
        assert grad(weight, bias) == {"layer_norm_parameters": 1}
        assert not {"layer_norm_backward", "layer_norm_parameters"} & grad(bias).keys()


@pytest.mark.emulated
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("call", "count"), [(layer_norm, 3), (rms_norm, 2)])
def test_nothing_else_is_launched(launches, device, dtype, call, count):
    """By CuPy neither: no cast or copy, also not of gradients that become the leaves' own."""
    kind = getattr(ag, dtype)
    inputs = [leaf(device, *size, dtype=kind) for size in ((700, 24), (24,), (24,))[:count]]
    g = ag.ones_like(inputs[0])
    with launches() as forward:
        out = call(*inputs)
    with launches() as backward:
        out.backward(g)
    assert [actual.total for actual in (forward, backward)] == [1, 2], (forward.kernels, backward.kernels)
