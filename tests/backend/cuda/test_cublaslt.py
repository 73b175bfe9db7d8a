"""Layers with relu by cuBLASLt: layouts, dtypes, captures, what it refuses, and the comparison before the first one."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, profiler
from autograd_gpu.backend.cuda import cublaslt, libcublas, runtime
from autograd_gpu.compilation.passes.relu_layers import ReluLayer, relu

pytestmark = pytest.mark.cuda
CLOSE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


def draw(xp, *shape, dtype="float32"):
    return xp.asarray(np.random.randn(*shape).astype(backend.arrays.dtypes.as_dtype(dtype)))


def wide(x):
    return backend.to_numpy(x).astype(np.float64)


def close(out, x, weight, bias):
    expected, tolerance = np.maximum(wide(x) @ wide(weight).T + wide(bias), 0), CLOSE[str(out.dtype)]
    np.testing.assert_allclose(wide(out), expected, tolerance, tolerance * max(x.shape[1] ** 0.5, 1))


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("sizes", [(8, 784, 256), (1, 1, 1), (3, 5, 7), (17, 33, 64), (128, 16, 10)], ids=str)
def test_layers(xp, sizes, dtype):
    m, k, n = sizes
    x, weight, bias = (draw(xp, *shape, dtype=dtype) for shape in ((m, k), (n, k), (n,)))
    with profiler.count() as counts:
        out = cublaslt.linear_relu(x, weight, bias)
    assert counts.launches == {"gemm_relu": 1}
    assert counts.matmuls == {(m, k, n): 1} or list(counts.matmuls) == [(m, k, n)]
    close(out, x, weight, bias)


def test_layouts_and_memory_of_the_result(xp):
    weight, bias = draw(xp, 16, 12), draw(xp, 16)
    for x in (draw(xp, 12, 8).T, draw(xp, 8, 24)[:, :12], draw(xp, 8, 24)[:, ::2], draw(xp, 9, 12)[1:]):
        out = xp.empty((8, 16), "float32")
        assert cublaslt.linear_relu(x, weight, bias, out) is out
        close(out, x, weight, bias)
    turned = draw(xp, 12, 16).T
    x = draw(xp, 8, 12)
    close(cublaslt.linear_relu(x, turned, bias), x, turned, bias)


def test_sizes_and_addresses_that_it_does_not_take_are_two_launches(xp):
    """Nothing to add up, and a bias at an odd address."""
    for x, weight, bias in ((draw(xp, 4, 0), draw(xp, 6, 0), draw(xp, 6)),
                            (draw(xp, 4, 8), draw(xp, 6, 8), draw(xp, 7)[1:])):  # fmt: skip
        assert cublaslt.linear_relu(x, weight, bias) is None
        out = ReluLayer()(x, weight, bias)
        close(out, x, weight, bias)


def test_precision(xp):
    x, weight, bias = draw(xp, 8, 512), draw(xp, 16, 512), draw(xp, 16)
    exact = np.maximum(wide(x) @ wide(weight).T + wide(bias), 0)
    ag.set_float32_matmul_precision("high")
    try:
        rough = cublaslt.linear_relu(x, weight, bias)
    finally:
        ag.set_float32_matmul_precision("highest")
    assert 1e-4 < np.abs(wide(rough) - exact).max() < 0.3
    assert np.abs(wide(cublaslt.linear_relu(x, weight, bias)) - exact).max() < 1e-4


def test_a_captured_layer_replays(xp):
    x, weight, bias = draw(xp, 8, 16), draw(xp, 24, 16), draw(xp, 24)
    cublaslt.linear_relu(x, weight, bias)
    graph = ag.cuda.CUDAGraph()
    with ag.cuda.graph(graph):
        out = cublaslt.linear_relu(x, weight, bias)
    for _ in range(2):
        x[...] = draw(xp, 8, 16)
        graph.replay()
        ag.cuda.synchronize()
        close(out, x, weight, bias)


@pytest.fixture
def anew(monkeypatch):
    monkeypatch.setattr(cublaslt, "_RIGHT", {})


def test_it_is_compared_once_for_each_dtype(xp, anew, monkeypatch):
    device = runtime.current.device()
    assert all(cublaslt.is_right(device, np.dtype(xp.empty(0, dtype).dtype), relu) for dtype in ("float32", "float16"))
    assert not cublaslt.is_right(device, np.dtype("float64"), relu)
    monkeypatch.setattr(cublaslt, "_compared", None)
    assert cublaslt.is_right(device, np.dtype("float32"), relu)


@pytest.mark.parametrize("fault", ["NaN is 0", "no relu", "no bias", "rows for columns"])
def test_other_values_are_noticed(xp, anew, monkeypatch, fault):
    def faulty(x, weight, bias, out=None):
        z = x @ weight.T + (0 if fault == "no bias" else xp.tile(bias, 1))
        z = xp.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf) if fault == "NaN is 0" else z
        z = z if fault == "no relu" else xp.maximum(z, 0)
        return xp.ascontiguousarray(z[::-1]) if fault == "rows for columns" else z

    monkeypatch.setattr(cublaslt, "linear_relu", faulty)
    with pytest.warns(UserWarning, match=r"cuBLASLt computes relu.* in float32 with other values"):
        assert not cublaslt.is_right(runtime.current.device(), np.dtype("float32"), relu)


def test_without_the_library_product_and_kernel_run(xp, anew, monkeypatch):
    monkeypatch.setattr(libcublas, "lt_library", lambda: None)
    assert not cublaslt.is_right(runtime.current.device(), np.dtype("float32"), relu)
    layer = ag.compile(lambda x, w, b: ag.nn.functional.linear_activation(x, w, b), fullgraph=True)
    x, w, b = (ag.tensor(draw(xp, *shape)) for shape in ((4, 6), (5, 6), (5,)))
    for _ in range(3):
        out = layer(x, w, b)
    close(out.array, x.array, w.array, b.array)
    with profiler.count() as counts:
        layer(x, w, b)
    assert counts.launches == {"gemm": 1, "bias_relu": 1}
