"""backend/quantization/quantize.py on both devices: codes, scales, and what comes back."""

from contextlib import nullcontext

import kernel_references as references
import ml_dtypes
import numpy as np
import pytest
from checkout import ROOT
from flushing import flushing

import autograd_gpu as ag
from autograd_gpu import backend, profiler
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.arrays.dtypes import (
    HALF,
    STORAGE,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
)
from autograd_gpu.backend.quantization.formats import FORMATS
from autograd_gpu.backend.quantization.quantize import Quantized, dequantize, from_float8, quantize, to_float8

pytestmark = pytest.mark.smoke
SOURCES = (float32, float64, float16, bfloat16)
PAIRS = [(a, b) for a in SOURCES for b in FORMATS if b.itemsize < a.itemsize]
GRANULARITIES = ("tensor", "row")


@pytest.fixture
def put(device):
    """What moves a NumPy array to the device under test."""
    return lambda array: backend.to_device(np.asarray(array), backend.resolve(ag.device(device)))


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request):
    return request.param


@pytest.fixture(params=GRANULARITIES)
def granularity(request):
    return request.param


def draw(shape, dtype):
    with np.errstate(over="ignore"):
        return np.asarray(np.random.randn(*shape) * 10.0 ** np.random.randint(-4, 4, shape)).astype(dtype)


def numbers(array):
    return to_numpy(array).astype(float64)


def relative_error(x, dtype, granularity="tensor"):
    back = numbers(dequantize(quantize(x, dtype, granularity)))
    return np.linalg.norm(back - numbers(x)) / np.linalg.norm(numbers(x))


def check(array, x, dtype, granularity="tensor", flushes=False):
    """`array` on the device has the numbers of x: codes are ml_dtypes' of x / scale, and the scale fits the rows.

    With `flushes` float32 numbers below 2^-126 are zeros, on a GPU and so in the emulator.
    """
    emulated = hasattr(backend.namespace(array), "_emulation")
    with flushing() if flushes and emulated else nullcontext():
        q = quantize(array, dtype, granularity)
        result, back = to_numpy(q.codes), to_numpy(dequantize(q))
    by_row = granularity == "row" and x.ndim
    matrix = x.reshape(np.prod(x.shape[:-1], dtype=int), x.shape[-1]) if by_row else x.reshape(1, -1)
    codes, scale = references.quantize(matrix, dtype, flushes=flushes)
    assert (q.dtype, q.source) == (dtype, x.dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    assert result.shape == x.shape
    assert result.dtype == FORMATS[dtype].codes
    same = result.view(bits) == codes.view(bits).reshape(x.shape)
    assert (same | np.isnan(x)).all()
    assert np.isnan(result.view(dtype).astype(float32)[np.isnan(x)]).all()
    if scale is None:
        assert q.scale is None
    else:
        assert q.scale.shape == ((*x.shape[:-1], 1) if by_row else ())
        assert q.scale.dtype == kernels.wide(x.dtype)
        np.testing.assert_array_equal(to_numpy(q.scale).ravel(), scale.ravel())
    assert q.nbytes == q.codes.nbytes + (0 if scale is None else scale.nbytes)
    assert back.dtype == x.dtype
    expected = references.dequantize(codes, scale, dtype, x.dtype, flushes).reshape(x.shape)
    np.testing.assert_array_equal(back.astype(float64), expected.astype(float64))
    return q


# Longer than a block of the CPU and than what a kernel's threads hold; one row that is a block of them; odd ones.
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (300, 1), (1, 33000), (2, 40001), (20000, 3), (0,), (3, 0), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(put, pair, granularity, shape):
    x = draw(shape, pair[0])
    check(put(x), x, pair[1], granularity)


def test_views(put, granularity):
    """Transposed, strided, reversed and stretched arrays."""
    x = draw((12, 10), float32)
    array = put(x)
    for view in (lambda a: a.T, lambda a: a[::2, 1::3], lambda a: a[::-1], lambda a: a[:, 3]):
        check(view(array), view(x), float8_e4m3fn, granularity)
    xp = backend.namespace(array)
    check(xp.broadcast_to(array[:1], (4, 10)), np.broadcast_to(x[:1], (4, 10)), float16, granularity)


def test_infinity_and_nan(put, pair, granularity):
    source, dtype = pair
    nan, inf = np.nan, np.inf
    x = np.array([[1.0, nan, -2.0, 3.0], [inf, 0.5, -inf, 7.0], [nan, inf, nan, -inf]]).astype(source)
    q = check(put(x), x, dtype, granularity)
    back = numbers(dequantize(q))
    kept = nan if dtype == float8_e4m3fn else inf
    np.testing.assert_array_equal(back[1], [kept, 0.5, -kept, 7.0])
    np.testing.assert_array_equal(back[2], [nan, kept, nan, -kept])
    np.testing.assert_array_equal(back[0], [1.0, nan, -2.0, 3.0])


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_no_finite_number_but_zero(put, pair, granularity, value):
    x = np.full((2, 3), value).astype(pair[0])
    q = check(put(x), x, pair[1], granularity)
    assert q.scale is None or (to_numpy(q.scale) == 1).all()
    assert np.signbit(numbers(dequantize(quantize(put(-np.zeros((2, 3), pair[0])), pair[1], granularity)))).all()


SIZES = [1e-45, 1e-41, 1e-38, 2e-38, 1e-30, 1e-8, 1e-3, 1.0, 448.0, 449.0, 65504.0, 1e9, 1e30, 3.39e38, 3.4028235e38]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_range_of_float32(put, device, granularity, dtype, size):
    """Scales are normal numbers; nothing becomes infinite; the relative error is that of the format from 1e-37 up.

    CUDA takes numbers below 2^-126 for zeros.
    """
    x, flushes = (np.linspace(-1, 1, 33) * size).astype(float32).reshape(3, 11), device == "cuda"
    q = check(put(x), x, dtype, granularity, flushes)
    if q.scale is not None:
        assert (to_numpy(q.scale) >= np.finfo(float32).smallest_normal).all()
        assert np.isfinite(1 / to_numpy(q.scale)).all()
    back = numbers(dequantize(q))
    assert np.isfinite(back).all()
    flushed = 2.0**-126 if flushes else 0
    assert np.abs(back - x).max() <= max(size * half_digit(dtype), 2.0**-126 * half_digit(dtype), flushed)


def half_digit(dtype):
    """The relative error of rounding to nearest."""
    return 2.0 ** -(ml_dtypes.finfo(dtype).nmant + 1)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-300, 1e-50, 1e-45, 1e39, 1e100, 1.7976931348623157e308])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_range_of_float64(put, granularity, dtype, size):
    x = (np.linspace(-1, 1, 33) * size).reshape(3, 11)
    back = numbers(dequantize(check(put(x), x, dtype, granularity)))
    assert np.isfinite(back).all()
    assert np.abs(back - x).max() <= max(size * half_digit(dtype), 2.0**-1022 * half_digit(dtype))


def test_outliers_do_not_cost_the_others_their_infinity(put):
    """Infinity does not count for the scale."""
    x = np.array([1e-3, 2e-3, np.inf, -np.inf], float32)
    back = numbers(dequantize(quantize(put(x), float8_e5m2)))
    np.testing.assert_allclose(back, x, rtol=0.125)


def test_rows_have_scales_of_their_own(put):
    x = np.array([[1e-6, 2e-6], [1.0, 2.0], [1e6, 2e6]], float32)
    assert np.abs(numbers(dequantize(quantize(put(x), float8_e4m3fn, "row"))) / x - 1).max() <= 2**-4
    assert numbers(dequantize(quantize(put(x), float8_e4m3fn)))[0].tolist() == [0, 0]


TEXT = (ROOT / "docs" / "kernels.md").read_text()
KINDS = {
    "z": lambda z: z, "tanh(z)": np.tanh, "relu(z)": lambda z: np.maximum(z, 0),
    "silu(z)": lambda z: z / (1 + np.exp(-z)),
}  # fmt: skip


def documented(row):
    """The errors by format that docs/kernels.md has."""
    (cells,) = [line.split("|")[2:-1] for line in TEXT.splitlines() if line.startswith(f"| {row} |")]
    return dict(zip(FORMATS, map(float, cells), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_errors(put, granularity, kind):
    """The documented ones, which have two digits; at other sizes as well."""
    z = np.random.randn(256, 256).astype(float32)
    for size in (1, 2.0**-30, 2.0**90):
        x = put(KINDS[kind](z) * float32.type(size))
        for dtype, error in documented(kind).items():
            assert relative_error(x, dtype, granularity) == pytest.approx(error, rel=0.05), (dtype, size)


def test_errors_of_rows_of_all_sizes():
    x = (np.random.randn(1024, 256) * 10.0 ** np.random.uniform(-3, 3, (1024, 1))).astype(float32)
    for granularity, row in (("tensor", "one scale: worst row"), ("row", "a scale per row: worst row")):
        for dtype, error in documented(f"rows of all sizes, {row}").items():
            difference = dequantize(quantize(x, dtype, granularity)) - x
            worst = (np.linalg.norm(difference, axis=1) / np.linalg.norm(x, axis=1)).max()
            assert worst == pytest.approx(error, rel=0.1)


def test_a_power_of_two_is_as_good_as_the_exact_scale():
    z = np.random.randn(256, 256).astype(float32)
    for x in (z, np.tanh(z), np.maximum(z, 0)):
        for dtype in STORAGE:
            scale = np.abs(x).max() / float32.type(FORMATS[dtype].largest)
            exact = np.linalg.norm((x / scale).astype(dtype).astype(float32) * scale - x) / np.linalg.norm(x)
            assert relative_error(x, dtype) < 1.02 * exact


def test_float16_has_a_scale_where_it_needs_one(put):
    for size, scaled in ((0.05, True), (1.0, True), (1023.0, True), (1024.0, False), (65504.0, False), (65600.0, True)):
        scale = to_numpy(quantize(put(np.full(4, size, float32)), float16).scale)
        assert (scale != 1) == scaled
    assert quantize(put(np.ones(4, float32)), bfloat16).scale is None


def test_float32_beyond_bfloat16_saturates(put):
    x = np.array([3.4e38, -3.4e38, np.inf, np.nan], float32)
    largest = float(ml_dtypes.finfo(bfloat16).max)
    np.testing.assert_array_equal(numbers(dequantize(quantize(put(x), bfloat16))), [largest, -largest, np.inf, np.nan])


def test_saving(put):
    x = put(np.ones((64, 32), float32))
    assert quantize(x, float8_e4m3fn).nbytes == 64 * 32 + 4
    assert quantize(x, float8_e4m3fn, "row").nbytes == 64 * 32 + 64 * 4
    assert quantize(x, float16).nbytes == 2 * 64 * 32 + 4
    assert quantize(x, bfloat16).nbytes == 2 * 64 * 32


def test_parts_are_arrays_of_the_device(put):
    """So that they can be offloaded, and put together again."""
    x = put(np.random.randn(4, 8).astype(float32))
    q = quantize(x, "float8_e5m2", "row")
    assert type(q.codes) is type(q.scale) is type(x)
    moved = Quantized(put(to_numpy(q.codes)), put(to_numpy(q.scale)), q.dtype, q.source)
    np.testing.assert_array_equal(numbers(dequantize(moved)), numbers(dequantize(q)))


def test_input_is_left_alone_and_not_shared(put):
    for dtype in FORMATS:
        x = np.random.randn(64, 8).astype(float32)
        array = put(x.copy())
        q = quantize(array, dtype)
        np.testing.assert_array_equal(to_numpy(array), x)
        before = numbers(dequantize(q))
        array[...] = 0
        np.testing.assert_array_equal(numbers(dequantize(q)), before)


def test_numpy_settings_do_not_matter(granularity):
    x = np.array([[1e-4, 1.0, np.inf, np.nan], [0, 1e-7, 6e4, -np.inf]])
    arrays = {source: x.astype(source) for source in SOURCES}
    with np.errstate(all="raise"):
        for source, dtype in PAIRS:
            dequantize(quantize(arrays[source], dtype, granularity))


@pytest.mark.parametrize(
    ("array", "arguments", "error", "text"),
    [
        (np.ones(3, float32), ("int8",), TypeError, "int8 is not supported; use one of float16, bfloat16"),
        (np.ones(3, float16), (bfloat16,), TypeError, "an array of float16 takes no fewer bytes in bfloat16"),
        (np.ones(3, int), (float16,), TypeError, "an array of int64 takes no fewer bytes in float16"),
        (np.ones(3, float32), (float16, "column"), ValueError, "granularity must be 'tensor' or 'row', not 'column'"),
    ],
)
def test_wrong_arguments_are_refused(put, array, arguments, error, text):
    with pytest.raises(error, match=text):
        quantize(put(array), *arguments)


# ---- without a scale ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(STORAGE, key=str), ids=str)
@pytest.mark.parametrize("source", sorted(HALF, key=str), ids=str)
@np.errstate(over="ignore", invalid="ignore")
def test_every_number_of_a_half_type_to_float8(put, source, dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(source)
    limit = FORMATS[dtype].largest
    wide = x.astype(float32)
    expected = np.where(np.isinf(wide), wide, np.clip(wide, -limit, limit)).astype(dtype).view(np.uint8)
    result = to_numpy(to_float8(put(x), dtype))
    assert ((result == expected) | np.isnan(wide)).all()
    assert np.isnan(result.view(dtype).astype(float32)[np.isnan(wide)]).all()


@pytest.mark.parametrize("dtype", sorted(STORAGE, key=str), ids=str)
def test_every_code_from_float8(put, dtype):
    codes = np.arange(256, dtype=np.uint8)
    for target in SOURCES:
        result = from_float8(put(codes), dtype, target)
        np.testing.assert_array_equal(numbers(result), codes.view(dtype).astype(float64))
        assert result.dtype == target


@pytest.mark.parametrize("dtype", sorted(STORAGE, key=str), ids=str)
@pytest.mark.cpu
def test_many_float32_to_float8(dtype):
    """Random bits, near the format's range and elsewhere, ties and their neighbours among them."""
    bits = np.random.randint(0, 1 << 32, 2_000_000, np.uint32)
    near = bits & 0x83FFFFFF | 0x38000000
    ties = near & 0xFFFC0000
    x = np.concatenate([bits, near, ties, ties + 1, ties - 1]).view(float32)
    with np.errstate(all="ignore"):
        limit = FORMATS[dtype].largest
        expected = np.where(np.isinf(x), x, np.clip(x, -limit, limit)).astype(dtype).view(np.uint8)
    assert ((to_float8(x, dtype) == expected) | np.isnan(x)).all()


@pytest.mark.parametrize("dtype", sorted(STORAGE, key=str), ids=str)
def test_float64_beyond_float32_saturates(put, dtype):
    """It is not infinity, which float8_e4m3fn would turn into NaN."""
    result = from_float8(to_float8(put(np.array([1e300, -1e300])), dtype), dtype, float64)
    assert numbers(result).tolist() == [FORMATS[dtype].largest, -FORMATS[dtype].largest]


@pytest.mark.parametrize("dtype", sorted(STORAGE, key=str), ids=str)
def test_tensors_of_every_dtype(device, dtype):
    for source in (*SOURCES, ag.int64, ag.uint8, ag.bool):
        x = ag.tensor([[0.0, 1.0, 2.0], [3.0, 16.0, 96.0]], device=device).to(source)
        codes = x.T.to(dtype)
        assert codes.dtype == dtype
        assert codes.to(source).dtype == source
        assert codes.to(source).tolist() == x.T.tolist()
    other = float8_e5m2 if dtype == float8_e4m3fn else float8_e4m3fn
    assert ag.tensor([1.0, -2.0], device=device).to(dtype).to(other).to(ag.float32).tolist() == [1.0, -2.0]


# ---- what is launched --------------------------------------------------------------------------------


@pytest.mark.cuda
class TestLaunches:
    def launched(self, function, *arguments):
        with profiler.count() as counts:
            result = function(*arguments)
        return counts.launches, result

    def test_rows(self, put):
        """One launch up to 32 KiB, or 8 elements a thread where they cannot be read 16 bytes at a time."""
        for dtype in (float16, float8_e4m3fn):
            for shape in ((100, 64), (3, 2047), (2, 8192), (8, 1), (2, 0)):
                launches, q = self.launched(quantize, put(np.ones(shape, float32)), dtype, "row")
                assert launches == ({"quantize": 1} if shape[1] else {})
                assert self.launched(dequantize, q)[0] == ({"dequantize": 1} if shape[1] else {})
            for shape in ((3, 2049), (2, 8196)):
                launches = self.launched(quantize, put(np.ones(shape, float32)), dtype, "row")[0]
                assert launches == {"absmax": 1, "quantize": 1}

    def test_tensor(self, put):
        for dtype in FORMATS:
            x = np.ones((100, 100), float32)
            absmax = {} if dtype == bfloat16 else {"absmax": 1}
            assert self.launched(quantize, put(x), dtype)[0] == {"quantize": 1, **absmax}
            assert self.launched(quantize, put(x[:20]), dtype)[0] == {"quantize": 1}

    def test_conversion(self, put):
        x = ag.ones(100, 100, device="cuda")
        launches, codes = self.launched(x.to, float8_e4m3fn)
        assert launches == {"quantize": 1}
        assert self.launched(codes.to, ag.float16)[0] == {"dequantize": 1}
