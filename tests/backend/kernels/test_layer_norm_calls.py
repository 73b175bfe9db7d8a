"""layer_norm, rms_norm and their gradients on CuPy arrays, on a GPU or emulated."""

import kernel_references as references
import numpy as np
import pytest
from emulated import assert_close, assert_same

import autograd_gpu as ag
from autograd_gpu import profiler
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.cuda import runtime
from autograd_gpu.backend.kernels import loader

pytestmark = pytest.mark.cuda
# Small, of several dimensions, in several parts, longer than a block holds, shared by blocks.
SHAPES = [(3, 0), (0, 4), (16,), (5, 3), (2, 3, 8), (600, 40), (3, 4104), (2, 40000)]
CLOSE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def draw(xp, shape, dtype):
    """x, g, weight and bias, and their numbers."""
    numbers = [np.random.randn(*size).astype(dtype) for size in (shape, shape, shape[-1:], shape[-1:])]
    return [xp.asarray(array) for array in numbers], numbers


def assert_all_close(actual, expected, dtype, scale=1.0):
    close = CLOSE[str(dtype)]
    for array, reference in zip(actual, expected, strict=True):
        assert_close(to_numpy(array), reference, rtol=close, atol=scale * close)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_are_those_of_the_references(xp, dtype, shape):
    (x, g, weight, bias), numbers = draw(xp, shape, dtype)
    out, mean, rstd = kernels.layer_norm(x, weight, bias, eps=0.01)
    expected = references.layer_norm(numbers[0], *numbers[2:], eps=0.01)
    assert_all_close((out, mean, rstd), expected, dtype)
    result = kernels.layer_norm_backward(g, x, weight, mean, rstd)
    gradients = references.layer_norm_backward(numbers[1], numbers[0], numbers[2], *expected[1:])
    assert_all_close(result, gradients, dtype, scale=10 * np.sqrt(max(out.size, 1)))
    rms, rstd = kernels.rms_norm(x, weight, eps=0.01)
    reference, zeros, scale = references.layer_norm(numbers[0], numbers[2], None, 0.01, centered=False)
    assert_all_close((rms, rstd), (reference, scale), dtype)
    result = kernels.rms_norm_backward(g, x, weight, rstd)
    gradients = references.layer_norm_backward(numbers[1], numbers[0], numbers[2], zeros, scale, centered=False)
    assert_all_close(result, gradients[:2], dtype, scale=10 * np.sqrt(max(out.size, 1)))


@pytest.mark.parametrize("shape", [(70, 24), (3, 4104)], ids=str)
def test_only_what_is_needed(xp, shape):
    (x, g, weight, bias), _ = draw(xp, shape, np.dtype("float32"))
    _, mean, rstd = kernels.layer_norm(x, weight, bias)
    full = kernels.layer_norm_backward(g, x, weight, mean, rstd)
    for mask in range(8):
        need = tuple(mask >> i & 1 == 1 for i in range(3))
        result = kernels.layer_norm_backward(g, x, weight, mean, rstd, need)
        assert [array is not None for array in result] == list(need)
        for array, expected in zip(result, full, strict=True):
            if array is not None:
                assert_close(to_numpy(array), to_numpy(expected), rtol=1e-5, atol=1e-4)


def launches(call):
    with profiler.count() as counts:
        call()
    return dict(counts.launches)


def test_launches(xp):
    (x, g, weight, bias), _ = draw(xp, (600, 40), np.dtype("float32"))
    _, mean, rstd = kernels.layer_norm(x, weight, bias)

    def backward(*need, rows=600):
        arguments = g[:rows], x[:rows], weight, mean[:rows], rstd[:rows]
        return launches(lambda: kernels.layer_norm_backward(*arguments, need))

    assert launches(lambda: kernels.layer_norm(x, weight, bias)) == {"layer_norm": 1}
    assert launches(lambda: kernels.rms_norm(x, weight)) == {"rms_norm": 1}
    assert backward(True, True, True) == {"layer_norm_backward": 1, "column_sum": 1}
    assert backward(True, True, True, rows=50) == {"layer_norm_backward": 1}
    assert backward(True, False, False) == {"layer_norm_backward": 1}
    assert backward(False, False, True, rows=50) == {"layer_norm_parameters": 1}
    assert backward(False, True, True, rows=50) == {"layer_norm_parameters": 1}
    assert backward(False, False, False) == {}
    assert launches(lambda: kernels.rms_norm_backward(g, x, weight, rstd)) == {"rms_norm_backward": 1, "column_sum": 1}
    (long, g, weight, _), _ = draw(xp, (3, 4104), np.dtype("float32"))
    _, mean, rstd = kernels.layer_norm(long, weight)
    assert launches(lambda: kernels.layer_norm_backward(g, long, weight, mean, rstd)) == {
        "layer_norm_backward": 1, "layer_norm_parameters": 1,
    }  # fmt: skip


def test_few_long_rows_take_two_launches(xp, dtype):
    """Also the rows of group norm, of which each is a group's channels and pixels."""
    (x, g, weight, bias), _ = draw(xp, (2, 40000), dtype)
    _, mean, rstd = kernels.layer_norm(x, weight, bias)
    assert launches(lambda: kernels.layer_norm(x, weight, bias)) == {"layer_norm_parts": 1, "layer_norm": 1}
    assert launches(lambda: kernels.rms_norm(x, weight)) == {"rms_norm_parts": 1, "rms_norm": 1}
    backward = {"layer_norm_backward_parts": 1, "layer_norm_backward": 1}
    assert launches(lambda: kernels.layer_norm_backward(g, x, weight, mean, rstd, (True, False, False))) == backward
    assert launches(lambda: kernels.layer_norm_backward(g, x, weight, mean, rstd)) == {
        **backward, "layer_norm_parameters": 1,
    }  # fmt: skip
    assert launches(lambda: kernels.rms_norm_backward(g, x, weight, rstd, (True, False))) == {
        "rms_norm_backward_parts": 1, "rms_norm_backward": 1,
    }  # fmt: skip
    image = ag.ones(1, 4, 100, 100, dtype=x.dtype, device="cuda")
    assert launches(lambda: ag.group_norm(image, 1)) == {"layer_norm_parts": 1, "layer_norm": 1}


@pytest.mark.parametrize("rows", [5, 600])
@pytest.mark.parametrize("cols", [1, 39, 40])
def test_gradients_of_parameters_begin_at_sixteen_bytes(xp, dtype, rows, cols):
    """Where an optimizer's step reads by as many. An odd number of columns takes no other launch."""
    (x, g, weight, bias), numbers = draw(xp, (rows, cols), dtype)
    _, mean, rstd = kernels.layer_norm(x, weight, bias)
    with profiler.count() as counts:
        _, *grads = kernels.layer_norm_backward(g, x, weight, mean, rstd)
    assert sum(counts.launches.values()) == 1 + (rows == 600 and cols > 1)
    assert [array.data.ptr % 16 for array in grads] == [0, 0]
    middle, scale = to_numpy(mean), to_numpy(rstd)
    expected = references.layer_norm_backward(numbers[1], numbers[0], numbers[2], middle, scale)
    assert_all_close(grads, expected[1:], dtype, scale=10 * np.sqrt(x.size))


@pytest.mark.parametrize("multiprocessors", [3, 5])
def test_blocks_of_the_gradient_fit_on_the_gpu_at_once(xp, monkeypatch, multiprocessors):
    """Two on each multiprocessor: more of them would wait for a second wave, which leaves most of the GPU idle."""
    load, grids = loader.load, []

    def recording(name, device):
        loaded = load(name, device)

        def call(grid, *rest):
            grids.append((name, grid))
            loaded.call(grid, *rest)

        return loaded._replace(call=call)

    monkeypatch.setattr(loader, "load", recording)
    monkeypatch.setattr(runtime, "multiprocessors", lambda index: multiprocessors)
    (x, g, weight, _), _ = draw(xp, (323, 64), np.dtype("float32"))
    _, mean, rstd = kernels.layer_norm(x, weight)
    kernels.layer_norm_backward(g, x, weight, mean, rstd)
    assert grids[1] == ("layer_norm_backward<float, 4>", (2 * multiprocessors, 1))


def test_multiprocessors_are_those_of_the_device(xp):
    assert runtime.multiprocessors(0) == xp.cuda.Device(0).attributes["MultiProcessorCount"]


def test_several_dimensions_are_one(xp):
    (x, g, _, _), _ = draw(xp, (5, 6, 4), np.dtype("float32"))
    weight, bias = x[0] + 1, x[1]
    out, mean, rstd = kernels.layer_norm(x, weight, bias, dims=2)
    result = kernels.layer_norm_backward(g, x, weight, mean, rstd, dims=2)
    flat, middle, scale = kernels.layer_norm(x.reshape(5, 24), weight.reshape(24), bias.reshape(24))
    expected = kernels.layer_norm_backward(g.reshape(5, 24), x.reshape(5, 24), weight.reshape(24), middle, scale)
    for one, other in zip((out, *result), (flat, *expected), strict=True):
        assert_same(to_numpy(one).ravel(), to_numpy(other).ravel())
    assert mean.shape == rstd.shape == (5, 1, 1)
    assert [array.shape for array in result] == [x.shape, weight.shape, weight.shape]


@pytest.mark.parametrize("long", [False, True])
def test_same_bits_every_time(xp, dtype, long):
    (x, g, weight, bias), _ = draw(xp, (2, 40000) if long else (600, 40), dtype)
    first, second = [kernels.layer_norm(x, weight, bias) for _ in range(2)]
    one, other = [kernels.layer_norm_backward(g, x, weight, *first[1:]) for _ in range(2)]
    for a, b in zip((*first, *one), (*second, *other), strict=True):
        assert_same(to_numpy(a), to_numpy(b))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda xp, x, w: kernels.layer_norm(np.ones((2, 4))), TypeError, "x must be a CuPy array, not ndarray"),
        (lambda xp, x, w: kernels.layer_norm(x.astype("int32")), TypeError, "int32 is not supported; use one of"),
        (lambda xp, x, w: kernels.layer_norm(x, w[:3]), ValueError, r"layer_norm: weight must have shape \(4,\)"),
        (lambda xp, x, w: kernels.layer_norm(x, w, w[:3]), ValueError, r"layer_norm: bias must have shape \(4,\)"),
        (lambda xp, x, w: kernels.rms_norm(x, w[:3]), ValueError, r"rms_norm: weight must have shape \(4,\)"),
        (lambda xp, x, w: kernels.rms_norm(xp.ones((), "float32")), ValueError, "but x has 0; reshape it"),
        (lambda xp, x, w: kernels.layer_norm(x.T), ValueError, "x must be contiguous"),
        (lambda xp, x, w: kernels.rms_norm_backward(x[:1], x, w, x[:, :1].copy()), ValueError, "g must have shape"),
        (lambda xp, x, w: kernels.rms_norm_backward(x, x, w, w), ValueError, r"rstd must have shape \(2, 1\), not"),
        (lambda xp, x, w: kernels.layer_norm_backward(x, x, w, w, w[:2]), ValueError, r"mean must have shape \(2, 1\)"),
    ],
)
def test_wrong_arguments_are_refused(xp, call, error, text):
    with pytest.raises(error, match=text):
        call(xp, xp.ones((2, 4), "float32"), xp.ones((4,), "float32"))
