"""What CuPy promises of launches and of the current stream, asked as in test_standin.py: on a GPU, of CuPy itself."""

import ctypes

import numpy as np
import pytest

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
