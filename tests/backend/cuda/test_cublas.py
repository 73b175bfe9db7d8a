"""Matrix products on CUDA: layouts, batches, dtypes, precision, launches, and adding into an existing gradient."""


import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, profiler
from autograd_gpu.backend.cuda import cublas

pytestmark = pytest.mark.cuda


def taller(xp, x):
    return LAYOUTS["columns"](xp, xp.concatenate([x, x], axis=-2))[..., : x.shape[-2], :]


# Ways to lay out a matrix, from a row-major array of the same values.
LAYOUTS = {
    "rows": lambda xp, x: x,
    "columns": lambda xp, x: xp.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "rows of a wider matrix": lambda xp, x: xp.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    "columns of a taller matrix": taller,
    "every second column": lambda xp, x: xp.stack([x, x], axis=-1).reshape(*x.shape[:-1], -1)[..., ::2],
    "backwards": lambda xp, x: xp.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
}
AS_THEY_LIE = ("rows", "columns", "rows of a wider matrix", "columns of a taller matrix")


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


def draw(xp, *shape, dtype="float64"):
    return xp.asarray(np.random.randn(*shape).astype(backend.arrays.dtypes.as_dtype(dtype)))


def close(actual, expected, tolerance):
    np.testing.assert_allclose(backend.to_numpy(actual).astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def wide(x):
    return backend.to_numpy(x).astype(np.float64)


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_every_layout_of_both_operands(xp, left, right):
    for m, k, n in [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (17, 33, 9)]:
        a, b = LAYOUTS[left](xp, draw(xp, m, k)), LAYOUTS[right](xp, draw(xp, k, n))
        close(cublas.matmul(a, b), wide(a) @ wide(b), 1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_rows_or_columns_are_not_copied(xp, layout):
    for shape in [(4, 3), (5, 4, 3)]:
        x = LAYOUTS[layout](xp, draw(xp, *shape))
        passed = cublas._operand(x)[-1]
        assert (passed is x) == (layout in AS_THEY_LIE)


@pytest.mark.parametrize(("a", "b", "launched"), [
    ((7, 3, 4), (4, 5), {"gemm": 1}),  # the batch becomes rows
    ((7, 3, 4), (1, 4, 5), {"gemm": 1}),
    ((2, 7, 3, 4), (4, 5), {"gemm": 1}),
    ((1, 3, 4), (1, 4, 5), {"gemm": 1}),
    ((7, 3, 4), (7, 4, 5), {"gemm_batched": 1}),
    ((3, 4), (7, 4, 5), {"gemm_batched": 1}),  # rows of b do not lie evenly as columns: stride 0 for a
    ((2, 1, 3, 4), (1, 5, 4, 6), {"gemm_batched": 1}),
    ((2, 5, 3, 4), (2, 5, 4, 6), {"gemm_batched": 1}),
    ((0, 3, 4), (0, 4, 5), {}),
    ((7, 3, 0), (7, 0, 5), {}),
], ids=str)  # fmt: skip
def test_batches(xp, a, b, launched):
    a, b = draw(xp, *a), draw(xp, *b)
    with profiler.count() as counts:
        result = cublas.matmul(a, b)
    assert counts.launches == launched
    expected = wide(a) @ wide(b)
    assert result.shape == expected.shape
    close(result, expected, 1e-12)


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_every_layout_of_a_batch(xp, left, right):
    shapes = [((6, 3, 4), (6, 4, 5)), ((3, 4), (6, 4, 5)), ((6, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 6))]
    for shape_a, shape_b in shapes:
        a, b = LAYOUTS[left](xp, draw(xp, *shape_a)), LAYOUTS[right](xp, draw(xp, *shape_b))
        close(cublas.matmul(a, b), wide(a) @ wide(b), 1e-12)


def test_a_shared_left_operand_is_one_product_where_the_right_one_is_stored_by_columns(xp):
    a, b = draw(xp, 3, 4), LAYOUTS["columns"](xp, draw(xp, 7, 4, 5))
    with profiler.count() as counts:
        result = cublas.matmul(a, b)
    assert counts.launches == {"gemm": 1}
    close(result, wide(a) @ wide(b), 1e-12)


def test_an_expanded_operand_is_not_copied_for_each_matrix(xp):
    a, b = xp.broadcast_to(draw(xp, 3, 4), (50, 3, 4)), draw(xp, 50, 4, 5)
    assert cublas._one_batch(a, (50,), 50).strides[0] == 0
    close(cublas.matmul(a, b), wide(a) @ wide(b), 1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [
    ("float64", 1e-13), ("float32", 1e-5), ("float16", 1e-3), ("bfloat16", 8e-3),
])  # fmt: skip
def test_dtypes_round_once(xp, dtype, tolerance):
    """4096 products of 1 + small: a sum kept in float16 would be off by far more."""
    a, b = xp.abs(draw(xp, 3, 4096)).astype(dtype), xp.abs(draw(xp, 4096, 5)).astype(dtype)
    result = cublas.matmul(a, b)
    assert result.dtype == a.dtype
    np.testing.assert_allclose(wide(result), wide(a) @ wide(b), rtol=tolerance)
    batch = cublas.matmul(xp.stack([a, a]), xp.stack([b, b]))
    np.testing.assert_allclose(wide(batch[1]), wide(a) @ wide(b), rtol=tolerance)


def test_integers_go_to_cupy(xp):
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    assert np.array_equal(backend.to_numpy(backend.matmul(xp.asarray(a), xp.asarray(b))), a @ b)


def test_precision_is_the_settings_or_the_calls(xp):
    a, b = draw(xp, 64, 512, dtype="float32"), draw(xp, 512, 32, dtype="float32")
    expected = wide(a) @ wide(b)

    def error(**options):
        return float(np.abs(wide(cublas.matmul(a, b, **options)) - expected).max())

    assert error() < 1e-4
    assert 1e-4 < error(precision="high") < 0.3  # operands of 10 bits: about 2**-11 * sqrt(512) each way
    assert error() < 1e-4
    ag.set_float32_matmul_precision("high")
    try:
        assert error() > 1e-4
        assert error(precision="highest") < 1e-4
        assert float(np.abs(wide((ag.tensor(a) @ ag.tensor(b)).array) - expected).max()) > 1e-4
    finally:
        ag.set_float32_matmul_precision("highest")


def test_out_and_accumulate(xp):
    a, b = draw(xp, 3, 4), draw(xp, 4, 5)
    out = xp.ones((3, 5))
    assert cublas.matmul(a, b, out=out) is out
    close(out, wide(a) @ wide(b), 1e-13)
    cublas.matmul(a, b, out=out, accumulate=True)
    close(out, 2 * (wide(a) @ wide(b)), 1e-13)
    cublas.matmul(a[:, :0], b[:0], out=out, accumulate=True)
    close(out, 2 * (wide(a) @ wide(b)), 1e-13)
    cublas.matmul(a[:, :0], b[:0], out=out)
    close(out, np.zeros((3, 5)), 0)
    total = xp.ones((3, 5), "float32")
    cublas.matmul(a.astype("float16"), b.astype("float16"), out=total, accumulate=True)
    close(total, 1 + wide(a) @ wide(b), 2e-2)


@pytest.mark.parametrize(("shape", "dtype"), [((5, 3), "float64"), ((3, 5), "float32")])
def test_a_wrong_out_is_refused(xp, shape, dtype):
    with pytest.raises(ValueError, match=r"out must be row-major with shape \(3, 5\) and dtype float64"):
        cublas.matmul(draw(xp, 3, 4), draw(xp, 4, 5), out=xp.empty(shape, dtype))
    with pytest.raises(ValueError, match="out must be row-major"):
        cublas.matmul(draw(xp, 3, 4), draw(xp, 4, 5), out=xp.empty((5, 3)).T)


@pytest.mark.parametrize("out", [
    lambda xp: xp.empty((7, 5, 3)).swapaxes(1, 2), lambda xp: xp.empty((3, 7, 5)),
], ids=["columns", "another shape"])  # fmt: skip
def test_a_wrong_out_is_refused_where_the_batch_becomes_rows(xp, out):
    """Folded too, it would be a copy, and the result be lost."""
    with pytest.raises(ValueError, match=r"out must be row-major with shape \(7, 3, 5\)"):
        cublas.matmul(draw(xp, 7, 3, 4), draw(xp, 4, 5), out=out(xp))


def test_out_of_a_folded_batch(xp):
    a, b, out = draw(xp, 7, 3, 4), draw(xp, 4, 5), xp.empty((7, 3, 5))
    cublas.matmul(a, b, out=out)
    close(out, wide(a) @ wide(b), 1e-13)
    assert cublas.matmul(a, b[:, :0], out=xp.empty((7, 3, 0))).shape == (7, 3, 0)


def test_a_batch_in_reverse_is_copied(xp):
    """No other view has a negative stride from matrix to matrix."""
    a, b = draw(xp, 6, 3, 4)[::-1], draw(xp, 6, 4, 5)
    assert cublas._one_batch(a, (6,), 6).strides[0] > 0
    close(cublas.matmul(a, b), wide(a) @ wide(b), 1e-12)


def test_sizes_that_are_no_c_int(xp):
    x = draw(xp, 2, 2, 2)
    apart = xp.ndarray((2, 2, 2), "float64", x.data, strides=(8, 8 << 31, 8))
    for product in (lambda: cublas.matmul(apart[0], x[0]), lambda: cublas.matmul(apart, x)):
        with pytest.raises(ValueError, match="cuBLAS takes sizes and strides of rows up to 2147483647; got 2147483648"):
            product()


# ---- adding into an existing gradient ----------------------------------------------------------------


def linear_leaves():
    x = ag.tensor(np.random.randn(6, 4))
    weight = ag.tensor(np.random.randn(3, 4), requires_grad=True)
    return x, weight


def test_input_and_weight_gradients_are_separate_launches():
    x, weight = linear_leaves()
    x.requires_grad_()
    for inputs, products in [([x], 1), ([weight], 1), ([x, weight], 2)]:
        out = ag.linear(x, weight).sum()
        with profiler.count() as counts:
            ag.autograd.grad(out, inputs)
        assert sum(counts.matmuls.values()) == counts.launches["gemm"] == products


def test_work_goes_to_the_current_stream(xp):
    stream = xp.cuda.Stream(non_blocking=True)
    a, b = draw(xp, 64, 64), draw(xp, 64, 64)
    xp.cuda.Stream.null.synchronize()
    with stream:
        result = cublas.matmul(a, b)
    stream.synchronize()
    close(result, wide(a) @ wide(b), 1e-11)


@pytest.mark.emulated
def test_another_stream_must_wait_for_a_product(xp):
    from cupy._errors import HazardError

    a, b = draw(xp, 8, 8), draw(xp, 8, 8)
    xp.cuda.Stream.null.synchronize()
    with xp.cuda.Stream(non_blocking=True):
        result = cublas.matmul(a, b)
    with xp.cuda.Stream(non_blocking=True), pytest.raises(HazardError):
        cublas.matmul(result, b)
    xp.cuda.Device().synchronize()  # a and b may not be freed while the product reads them
