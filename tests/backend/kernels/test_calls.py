"""The functions of backend/kernels/ on CuPy arrays, on a GPU or emulated."""

import functools

import kernel_references as references
import numpy as np
import pytest
from activation_cases import CASES, IDS, applied, from_result, has_second_derivative
from emulated import assert_close, assert_same, on_device, quarters

import autograd_gpu as ag
from autograd_gpu import profiler
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.kernels import loader

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
RELU, TANH, SILU, GELU = [applied((name, {})) for name in ("relu", "tanh", "silu", "gelu")]
bias_relu, bias_relu_backward = [
    functools.partial(function, RELU) for function in (kernels.bias_activation, kernels.bias_activation_backward)
]
bias_relu_reference, bias_relu_backward_reference = [
    functools.partial(function, "relu")
    for function in (references.bias_activation, references.bias_activation_backward)
]
SHAPES = [(0, 4), (3, 0), (1, 1), (16,), (5, 3), (2, 3, 8), (33, 40), (600, 40), (4300, 1), (2, 40000)]


def draw(xp, shape, dtype, offset=0):
    """An array that begins `offset` elements into its memory, and its numbers."""
    numbers = quarters(shape, dtype)
    return on_device(xp, numbers, offset), numbers


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_are_those_of_the_references(xp, dtype, shape, offset):
    (x, x_numbers), (g, g_numbers) = draw(xp, shape, dtype, offset), draw(xp, shape, dtype, offset)
    bias, bias_numbers = draw(xp, shape[-1:], dtype, offset)
    out = bias_relu(x, bias)
    expected = bias_relu_reference(x_numbers, bias_numbers)
    assert_same(to_numpy(out), expected)
    assert_same(to_numpy(bias_relu(x)), bias_relu_reference(x_numbers))
    for actual, reference in zip(
        bias_relu_backward(g, out), bias_relu_backward_reference(g_numbers, expected), strict=True
    ):
        assert_same(to_numpy(actual), reference)
    assert_same(to_numpy(kernels.column_sum(g)), references.column_sum(g_numbers))
    assert_same(to_numpy(kernels.row_sum(g)), references.row_sum(g_numbers))


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (5, 3), (2, 3, 8), (600, 8)], ids=str)
def test_every_activation(xp, case, shape):
    """In one dtype: each activation and dtype is a compilation."""
    f, attributes = applied(case), case[1]
    sizes = (shape, shape[-1:], shape, shape, shape[-1:])
    (x, bias, g, gg, ggb), numbers = zip(*(draw(xp, size, np.dtype("float32")) for size in sizes), strict=True)
    out, value = kernels.bias_activation(f, x, bias), reference("", case, *numbers[:2])
    saved, known = (out, value) if from_result(case) else (x, numbers[0])
    results = [
        (out,), kernels.bias_activation_backward(f, g, saved, bias),
        kernels.bias_activation_double_backward(f, gg, ggb, g, saved, bias),
    ]  # fmt: skip
    expected = [
        (value,), reference("_backward", case, numbers[2], known, numbers[1]),
        reference("_double_backward", case, *numbers[3:], numbers[2], known, numbers[1]),
    ]  # fmt: skip
    for order, (arrays, values) in enumerate(zip(results, expected, strict=True)):
        scale = 100 * attributes.get("frequency", 1) ** order
        for array, right in zip(arrays, values, strict=True):
            if array is None:
                assert not has_second_derivative(case)
                assert not right.any()
            else:
                assert_close(to_numpy(array), right, rtol=4e-6, atol=scale * 4e-6)


def reference(which, case, *arrays):
    return getattr(references, f"bias_activation{which}")(case[0], *arrays, **case[1])


def test_only_what_is_needed(xp):
    x, b = xp.ones((6, 8), "float32"), xp.ones((8,), "float32")
    for i in range(3):
        need = tuple(j == i for j in range(3))
        result = kernels.bias_activation_double_backward(SILU, x, None, x, x, b, need=need)
        assert [array is not None for array in result] == list(need)
    with profiler.count() as counts:
        nothing = kernels.bias_activation_double_backward(RELU, x, b, x, x, need=(False, True, True))
    assert nothing == (None, None, None)
    assert not counts.launches
    _, by_out, none = kernels.bias_activation_double_backward(TANH, x, None, x, x, by_result=True)
    assert to_numpy(by_out).tolist() == [[-2.0] * 8] * 6
    assert none is None


def test_results_in_given_memory(xp, dtype):
    (x, numbers), (bias, added) = draw(xp, (33, 40), dtype), draw(xp, (40,), dtype)
    expected = bias_relu_reference(numbers, added)
    assert bias_relu(x, bias, out=x) is x
    assert_same(to_numpy(x), expected)
    g, gradient = draw(xp, (33, 40), dtype)
    dx, dbias = bias_relu_backward(g, x, dx=g, need_bias=False)
    assert dx is g
    assert dbias is None
    assert_same(to_numpy(g), bias_relu_backward_reference(gradient, expected)[0])
    total = xp.empty((40,), dtype)
    assert kernels.column_sum(x, out=total) is total
    assert_same(to_numpy(total), references.column_sum(expected))


def test_launches_are_counted(xp):
    x, out = xp.ones((600, 8), "float32"), xp.empty((0, 8), "float32")
    tall = xp.ones((4300, 1), "float32")
    with profiler.count() as counts:
        bias_relu(x)
        bias_relu(out)
        bias_relu_backward(x, x)
        kernels.column_sum(tall)
        kernels.row_sum(x)
        kernels.row_sum(xp.ones((1, 40000), "float32"))
        kernels.bias_activation_double_backward(GELU, x, None, x, x)
    assert counts.launches == {
        "bias_relu": 1, "bias_relu_backward": 1, "column_sum": 2, "bias_gelu_double_backward": 1, "row_sum": 3,
    }  # fmt: skip


def test_launches_go_to_the_current_stream(xp):
    """An emulated run reports a kernel on any other stream as a race."""
    with xp.cuda.Stream(non_blocking=True) as stream:
        x = xp.ones((64, 64), "float32")
        out = bias_relu(x, xp.ones((64,), "float32"))
        dx, dbias = bias_relu_backward(x, out)
        total = kernels.column_sum(dx)
        stream.synchronize()
        assert to_numpy(dbias).tolist() == to_numpy(total).tolist() == [64.0] * 64


def ones(xp, *shape, dtype="float32"):
    return xp.ones(shape, dtype)


def double(f, x, ggb=None, **how):
    return kernels.bias_activation_double_backward(f, x, ggb, x, x, **how)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda xp: bias_relu(np.ones(4)), TypeError, "x must be a CuPy array, not ndarray"),
        (lambda xp: bias_relu(ones(xp, 4, dtype="int32")), TypeError, "int32 is not supported; use one of"),
        (lambda xp: bias_relu(ones(xp, 4, 6)[:, ::2]), ValueError, "x must be contiguous"),
        (lambda xp: bias_relu(ones(xp, 4, 6), ones(xp, 4)), ValueError, r"bias must have shape \(6,\), not"),
        (lambda xp: bias_relu(ones(xp, 6), ones(xp, 6, dtype="float64")), TypeError, "bias must be float32"),
        (lambda xp: bias_relu(ones(xp, 6), out=ones(xp, 5)), ValueError, "out must have shape"),
        (lambda xp: bias_relu_backward(ones(xp, 6), ones(xp, 5)), ValueError, "g must have shape"),
        (lambda xp: double(SILU, ones(xp, 6), by_result=True), ValueError, "silu saves x"),
        (lambda xp: double(SILU, ones(xp, 6), ggb=ones(xp, 5)), ValueError, r"ggb must have shape \(6,\), not"),
        (lambda xp: kernels.column_sum(ones(xp)), ValueError, "at least one dimension"),
        (lambda xp: kernels.row_sum(ones(xp)), ValueError, "has no rows"),
        (lambda xp: kernels.row_sum(ones(xp, 2, 3), ones(xp, 3)), ValueError, r"out must have shape \(2,\), not"),
        (lambda xp: kernels.row_sum(ones(xp, 2, 3), ones(xp, 2, dtype="float64")), TypeError, "out must be float32"),
        (lambda xp: kernels.column_sum(ones(xp, 2, 3), ones(xp, 3, dtype="float64")), TypeError, "out must be float32"),
    ],
)
def test_wrong_arguments_are_refused(xp, call, error, text):
    with pytest.raises(error, match=text):
        call(xp)


def test_compile_error_names_the_file_and_what_is_wrong(xp, monkeypatch):
    monkeypatch.setattr(loader, "_MODULES", {})
    monkeypatch.setattr(loader, "_LOADED", {})
    monkeypatch.setattr(loader, "source", lambda file, names: "nonsense;")
    with pytest.raises(RuntimeError, match=r"(?s)column_sum\.cu does not compile for sm_\d+.*nonsense") as caught:
        kernels.column_sum(xp.ones((2, 3), "float32"))
    assert isinstance(caught.value.__cause__, xp.cuda.compiler.CompileException)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("dim", "kernel"),
    [(-1, "row_sum"), ((1, 2), "row_sum"), (None, "row_sum"), (0, "column_sum"), ((0, 1), "column_sum"), (1, None)],
)
def test_sums_of_half_types_use_it(dtype, dim, kernel):
    x = ag.tensor(np.random.randn(3, 5, 7), dtype=getattr(ag, dtype))
    for keepdim in (False, True):
        with ag.profiler.count() as c:
            result = ag.sum(x, dim, keepdim)
        assert c.launches == ({kernel: 1} if kernel else {})
        expected = ag.sum(x.cpu(), dim, keepdim)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.tolist(), expected.tolist(), rtol=1e-2)
