"""What CuPy promises of launches, of the current stream and of some functions, asked as in test_standin.py: on a GPU,
of CuPy itself."""

import ctypes

import numpy as np
import pytest
import scipy.linalg

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]

SCALE = r"""
extern "C" __global__ void scale(const float* x, float* out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}
"""
HALVES = [i / 2 for i in range(100)]


@pytest.fixture(scope="module")
def xp():
    import cupy

    return cupy


@pytest.fixture(scope="module")
def linalg():
    import cupyx.scipy.linalg

    return cupyx.scipy.linalg


def test_the_function_behind_a_kernel(xp):
    """What RawKernel asks for at each launch; it takes its arguments as they are."""
    kernel = xp.RawKernel(SCALE, "scale")
    function, scalar = kernel.kernel, xp._core._scalar.CScalar
    assert isinstance(function, xp.cuda.function.Function)
    assert kernel.kernel is function
    x, out = xp.arange(100, dtype="float32"), xp.empty(100, "float32")
    half, n = scalar(0.5, np.dtype("float32")), scalar(100, np.dtype("int32"))
    for arguments in ((x, out, half, n), [x.data, out.data, np.float32(0.5), np.array([100], "int32")]):
        function((4,), (32,), arguments)
        assert out.tolist() == HALVES
        out.fill(0)
    function((4, 1), (32, 1), (x, out, half, n), 0, None)
    function.linear_launch(100, (x, out, half, n), block_max_size=32)
    assert out.tolist() == HALVES
    function((0,), (32,), (x * 2, out, half, n))  # one block where none is asked for
    assert out[:33].tolist() == [*range(32), 16]
    with pytest.raises(TypeError, match=r"Argument 'grid' has incorrect type \(expected tuple, got list\)"):
        function([4], (32,), (x, out, half, n))


@pytest.mark.parametrize(("value", "dtype", "error"), [
    (1 << 31, "int32", OverflowError), (-1, "uint64", OverflowError), (float("nan"), "int64", ValueError),
    ("1", None, TypeError), (ctypes.c_int(1), None, TypeError), ([1], None, TypeError), (1 << 64, None, OverflowError),
], ids=str)  # fmt: skip
def test_numbers_that_no_kernel_takes(xp, value, dtype, error):
    with pytest.raises(error):
        xp._core._scalar.CScalar(value, dtype)


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (3, None, np.int64(3)), (1 << 63, None, np.uint64(1 << 63)), (True, None, np.bool_(1)),
    (0.5, None, np.float64(0.5)), (np.float32(0.1), None, np.float32(0.1)), (np.int8(-3), None, np.int8(-3)),
    (-0.0, "float32", np.float32(-0.0)), (7, "int32", np.int32(7)), (2**64 - 1, "uint64", np.uint64(2**64 - 1)),
    (0.1, "float32", np.float32(0.1)),
], ids=str)  # fmt: skip
def test_the_bytes_of_numbers(xp, value, dtype, expected):
    scalar = xp._core._scalar.CScalar(value, dtype)
    assert scalar.dtype == expected.dtype
    assert ctypes.string_at(scalar.ptr, expected.itemsize) == expected.tobytes()


def test_a_with_goes_back_to_the_outer_one(xp):
    """Not to what `use` has made current since."""
    null, outer, used, inner = xp.cuda.Stream.null, *[xp.cuda.Stream(non_blocking=True) for _ in range(3)]
    used.use()
    with inner:
        pass
    assert xp.cuda.get_current_stream() == null
    with outer:
        used.use()
        with inner:
            assert xp.cuda.get_current_stream() is inner
        assert xp.cuda.get_current_stream() is outer
    assert xp.cuda.get_current_stream() == null


# ---- functions that are not NumPy's ------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.0, 0.0, 3.0])
def test_fill_diagonal_loses_the_sign_of_a_zero(xp, value):
    """It copies the number to the device, where a zero of either sign is a memset."""
    a = xp.full((3, 4), 7.0)
    xp.fill_diagonal(a, value)
    assert a.tolist() == [[value, 7, 7, 7], [7, value, 7, 7], [7, 7, value, 7]]
    assert not xp.signbit(a).any()


def test_fill_diagonal_wraps_and_refuses(xp):
    a = xp.zeros((5, 2))
    xp.fill_diagonal(a, xp.asarray(1), wrap=True)
    assert a.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    with pytest.raises(ValueError, match="array must be at least 2-d"):
        xp.fill_diagonal(xp.zeros(3), 1)
    with pytest.raises(ValueError, match="All dimensions of input must be of equal length"):
        xp.fill_diagonal(xp.zeros((2, 2, 3)), 1)


SCANS = {
    "cumsum": lambda xp, x: xp.cumsum(x), "cumprod": lambda xp, x: xp.cumprod(x, axis=1),
    "nancumsum": lambda xp, x: xp.nancumsum(x, axis=0), "method": lambda xp, x: x.cumsum(axis=0),
    "accumulate": lambda xp, x: xp.add.accumulate(x), "dtype=": lambda xp, x: x.astype("float32").cumsum(0, x.dtype),
    "out=": lambda xp, x: xp.cumsum(x.astype("float32"), 0, out=xp.zeros_like(x)),
    "of no rows": lambda xp, x: xp.cumsum(x[:0], axis=1),  # compiled before it is known that there is nothing to do
}  # fmt: skip


@pytest.mark.parametrize("name", SCANS)
def test_no_scan_of_bfloat16_compiles(xp, name):
    """CuPy's bfloat16 has neither += nor *=, which its kernels for scans use."""
    with pytest.raises(xp.cuda.compiler.CompileException, match=r"no operator"):
        SCANS[name](xp, xp.ones((2, 3), "bfloat16"))


def test_scans_beside_those_of_bfloat16(xp):
    x = xp.ones((2, 3), "bfloat16")
    assert xp.cumsum(x, dtype="float32").tolist() == [1, 2, 3, 4, 5, 6]
    assert xp.cumsum(x[:0], axis=0).shape == xp.cumprod(x[:0], axis=0).shape == (0, 3)
    assert xp.cumsum(x[:0]).shape == (0,)
    assert xp.cumprod(xp.full(3, 2, "float16")).tolist() == [2, 4, 8]


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_expm(xp, linalg, dtype, scale):
    a = (scale * np.random.normal(size=(4, 4))).astype(dtype)
    found, expected = linalg.expm(xp.asarray(a)), scipy.linalg.expm(a)
    assert found.dtype == dtype
    assert abs(found.get() - expected).max() <= (1e-4 if dtype == "float32" else 1e-11) * abs(expected).max()


def test_expm_of_integers_and_of_nothing(xp, linalg):
    np.testing.assert_allclose(linalg.expm(xp.asarray([[1, 2], [0, 1]])).get(), np.e * np.array([[1, 2], [0, 1]]))
    assert linalg.expm(xp.zeros((0, 0), "float32")).shape == (0, 0)


@pytest.mark.parametrize(("matrix", "message"), [
    ([[0, np.inf], [0, 0]], "cannot convert float infinity to integer"), ([[800, 0], [0, 800]], "math range error"),
], ids=["an infinite norm", "a large trace"])  # fmt: skip
def test_expm_overflows_on_the_host(xp, linalg, matrix, message):
    with pytest.raises(OverflowError, match=message):
        linalg.expm(xp.asarray(matrix, "float64"))


@pytest.mark.parametrize("matrix", [[[np.nan, 0], [0, 1]], [[np.inf, 0], [0, 1]]], ids=["NaN", "infinite trace"])
def test_expm_of_what_has_no_norm_is_nan(xp, linalg, matrix):
    assert xp.isnan(linalg.expm(xp.asarray(matrix))).all()


def test_expm_takes_one_matrix(xp, linalg):
    with pytest.raises(ValueError, match="1- or 2-d"):
        linalg.expm(xp.zeros((2, 3, 3)))
