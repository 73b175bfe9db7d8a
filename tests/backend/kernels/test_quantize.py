"""quantize, absmax and dequantize against their NumPy references, on emulated threads."""

import re

import emulated
import kernel_references as references
import numpy as np
import pytest
from checkout import ROOT
from emulated import DTYPES, ORDERS, Placed, assert_same, unset, width_of
from ml_dtypes import finfo

from autograd_gpu.backend import kernels
from autograd_gpu.backend.arrays.dtypes import STORAGE, bfloat16, float16, float32, float64
from autograd_gpu.backend.kernels.constants import QUANTIZE_STRIPS
from autograd_gpu.backend.kernels.quantize import STRUCTS
from autograd_gpu.backend.quantization.formats import FORMATS

pytestmark = pytest.mark.cpu
PAIRS = [(a, b) for a in DTYPES for b in FORMATS if b.itemsize < a.itemsize]  # of array and codes
FLOAT8 = sorted(STORAGE, key=str)
# Threads per row: 1, 2, a warp's part, a warp, a block; the last four are longer than what a block holds of some dtype.
SHAPES = [(1, 1), (300, 1), (2, 3), (37, 24), (45, 40), (3, 520), (9, 1001), (1, 8200), (2, 4099), (1, 40000)]


def names(source, dtype, width):
    return f"{kernels.C_NAMES[source]}, {STRUCTS[dtype]}, {width}"


def quantize(x, dtype, offset=0, parts=None, scaled=True, **how):
    """Codes and scales, as kernels.quantize makes them; in two launches if `parts` says of how many blocks a row is."""
    rows, cols = x.shape
    width, placed, format = width_of(x, offset), Placed(x, offset), FORMATS[dtype]
    codes = Placed(np.full(x.shape, 0xFF, "u1").astype(format.codes), offset)
    instance = f"quantize<{names(x.dtype, dtype, width)}>"
    shape = kernels.row_tiles(rows, cols, width, x.itemsize)
    if not scaled or (x.dtype == float32 and dtype == bfloat16):
        emulated.launch(instance, shape, placed, None, codes, None, rows, cols, **how)
        return codes.result(), None
    factor = unset((rows, 1), kernels.wide(x.dtype))
    held = kernels.held_tiles(rows, cols, width, x.itemsize, QUANTIZE_STRIPS)
    if parts is None and cols <= held[1][0] * QUANTIZE_STRIPS * width:
        emulated.launch(instance, held, placed, None, codes, factor, rows, cols, **how)
        return codes.result(), factor.result()
    shape = ((shape[0][0], parts or shape[0][1]), shape[1])
    largest = unset((rows, shape[0][1]), factor.array.dtype)
    name = f"absmax<{kernels.C_NAMES[x.dtype]}, {width}>"
    emulated.launch(name, shape, placed, largest, rows, cols, **how)
    emulated.launch(instance, shape, placed, largest, codes, factor, rows, cols, **how)
    return codes.result(), factor.result()


def dequantize(codes, factor, dtype, source, offset=0, **how):
    rows, cols = codes.shape
    out = unset(codes.shape, source, offset)
    width = width_of(out.array, offset)
    scale = None if factor is None else Placed(factor)
    shape = kernels.tiles(rows, cols, width, source.itemsize)
    name = f"dequantize<{names(source, dtype, width)}>"
    emulated.launch(name, shape, Placed(codes, offset), scale, out, rows, cols, **how)
    return out.result()


@np.errstate(invalid="ignore")  # some bit patterns are signalling NaNs
def check(x, dtype, scaled=True, offset=0, parts=None, **how):
    """The codes, the scales and what they stand for, all equal to the references'."""
    codes, factor = quantize(x, dtype, offset, parts, scaled, **how)
    expected, scale = references.quantize(x, dtype, scaled)
    assert (factor is None) == (scale is None)
    if factor is not None:
        assert_same(factor, scale)
    bits = np.dtype(f"u{dtype.itemsize}")
    same, nan = codes.view(bits) == expected.view(bits), np.isnan(x)
    assert (same | nan).all()
    assert np.isnan(codes.view(dtype).astype(float32)[nan]).all()
    back = dequantize(codes, factor, dtype, x.dtype, offset, **how)
    assert_same(back, references.dequantize(expected, scale, dtype, x.dtype))
    return back


def numbers(shape, dtype):
    """Numbers of all sizes, each row with its own power of ten, and some special ones."""
    x = np.random.randn(*shape) * 10.0 ** np.random.randint(-3, 3, shape)
    x *= 10.0 ** np.random.randint(-2, 3, (shape[0], 1))
    for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        x[np.random.random(shape) < 0.02] = value
    return x.astype(dtype)


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request):
    return request.param


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_codes_and_scales(pair, shape):
    for offset in (0, 1):
        x = numbers(shape, pair[0])
        for order in ORDERS:
            check(x, pair[1], offset=offset, order=order)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_two_launches(pair, parts):
    """Also with parts that have no column of their own."""
    for cols in (1, 8, 700):
        check(numbers((5, cols), pair[0]), pair[1], parts=parts)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_codes_without_a_scale(source, dtype):
    for shape in ((3, 40), (1, 5001)):
        with np.errstate(over="ignore"):
            x = numbers(shape, source) * source.type(100)  # up to 3e6; float16 has infinity for that
        check(x, dtype, scaled=False)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
@pytest.mark.parametrize("source", [float16, bfloat16], ids=str)
def test_every_number_of_a_half_type(source, dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(source)
    check(x[None], dtype, scaled=False)
    check(x[None], dtype)
    check(x.reshape(-1, 64), dtype)  # rows of one sign and a few powers of two each


@np.errstate(invalid="ignore")
def around_ties(dtype):
    """Every code's number and every midpoint, as float32, with both neighbours."""
    codes = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype).astype(np.float64)
    codes = np.unique(codes[np.isfinite(codes)])
    points = np.concatenate([codes, (codes[1:] + codes[:-1]) / 2]).astype(float32)
    points = np.concatenate([points, *(np.nextafter(points, float32.type(end)) for end in (-np.inf, np.inf))])
    return points[np.abs(points) <= FORMATS[dtype].largest]


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_numbers_around_ties(dtype):
    x = around_ties(dtype)[None]
    check(x, dtype, scaled=dtype not in STORAGE)
    check(x.astype(float64), dtype, scaled=dtype not in STORAGE)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_many_random_bits(dtype):
    x = np.random.randint(0, 1 << 32, (1, 300_000), np.uint32).view(float32)
    check(x, dtype, scaled=False)
    near = (x.view(np.uint32) & 0x83FFFFFF | 0x38000000).view(float32)  # 2^-15 to 2^16, where codes differ
    check(near, dtype, scaled=False)


@pytest.mark.parametrize("size", [1e-45, 1e-40, 1.2e-38, 1e-30, 1e-7, 1.0, 6e4, 66000.0, 1e30, 3.39e38, 3.4028235e38])
def test_largest_number_of_any_size(pair, size):
    source = pair[0]
    if size > float(finfo(source).max) or size < float(finfo(source).smallest_subnormal):
        return
    x = (np.linspace(-1, 1, 41) * size).astype(source)[None]
    x = np.concatenate([x, x / source.type(2), x * 0])
    back = check(x, pair[1])
    assert np.isfinite(back.astype(float)).all()
    if size > 1e-37:
        assert np.abs(back.astype(float) - x.astype(float)).max() <= half_digit(pair[1]) * size


def half_digit(dtype):
    """The relative error of rounding to nearest."""
    return 2.0 ** -(finfo(dtype).nmant + 1)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-300, 1e-45, 1e100, 1.7976931348623157e308])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_range_of_double(dtype, size):
    back = check(np.linspace(-1, 1, 41)[None] * size, dtype)
    assert np.isfinite(back).all()
    if size > 1e-307:
        assert np.abs(back - np.linspace(-1, 1, 41) * size).max() <= half_digit(dtype) * size


def test_rows_without_a_finite_number(pair):
    x = np.array([[np.nan] * 8, [np.inf, -np.inf] * 4, [0.0, -0.0] * 4, [np.nan, 3.0] * 4]).astype(pair[0])
    for parts in (None, 2):
        factor = quantize(x, pair[1], parts=parts)[1]
        assert factor is None or factor.ravel()[:3].tolist() == [1, 1, 1]
        check(x, pair[1], parts=parts)


@pytest.mark.parametrize("shape", [(8, 0), (0, 5), (0, 0)])
def test_nothing(pair, shape):
    if shape[1]:  # a row of nothing has its scale from the caller
        codes, factor = quantize(numbers(shape, pair[0]), pair[1])
        assert codes.shape == shape
        assert factor is None or factor.shape == (0, 1)
    assert dequantize(np.zeros(shape, FORMATS[pair[1]].codes), None, pair[1], pair[0]).shape == shape


def test_every_code_back(pair):
    """Every bit pattern, times a scale; infinity and NaN stay."""
    source, dtype = pair
    codes = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(FORMATS[dtype].codes).reshape(64, -1)
    for power in (0, 3, -5):
        factor = np.full((64, 1), 2.0**power, kernels.wide(source))
        result = dequantize(codes, factor, dtype, source)
        assert_same(result, references.dequantize(codes, factor, dtype, source))


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(pair, offset):
    for shape, parts in (((70, 24), None), ((3, 1000), None), ((3, 1000), 2)):
        check(numbers(shape, pair[0]), pair[1], offset=offset, parts=parts, check="races")


# ---- bytes -------------------------------------------------------------------------------------------

TEXT = (ROOT / "docs" / "kernels.md").read_text()
ROW = r"^\| ([\w, ]+) \| (\w+) \| (\d+) \| (\d*)(?:, with a scale (\d+))? ?\| (\d+) \|$"
DOCUMENTED = {
    (source, codes): numbers
    for sources, codes, *numbers in re.findall(ROW, TEXT, re.MULTILINE) for source in sources.split(", ")
}  # fmt: skip


@pytest.fixture
def moved(monkeypatch):
    """The bytes that each launch reads and writes."""
    launched, launch = [], emulated.launch

    def counting(name, *arguments):
        launch(name, *arguments, check="races")
        launched.append(sum(emulated.compiled("quantize.cu", "races").kernels[name].traffic()))

    monkeypatch.setattr(emulated, "launch", counting)
    return launched


def test_documented_bytes(pair, moved):
    """The difference of launches of one grid leaves out what every thread reads once, such as the arguments."""
    source, dtype = pair
    alone, after, with_scale, back = DOCUMENTED[str(source), "float8" if dtype in STORAGE else str(dtype)]
    width = kernels.VECTOR // source.itemsize

    def bytes_per_element(run, small, large):
        sizes = []
        for shape in (small, large):
            moved.clear()
            run(np.ones((shape[0], shape[1] * width), source))
            sizes.append(sum(moved))
        return (sizes[1] - sizes[0]) / (np.prod(large) - np.prod(small)) / width

    def back_again(x):
        codes, name = Placed(x.astype(FORMATS[dtype].codes)), f"dequantize<{names(source, dtype, width)}>"
        emulated.launch(name, ((8, 1), (8, 32)), codes, None, Placed(x), *x.shape)

    def in_two(x, first=1):
        x[0, 0] = first
        quantize(x, dtype, parts=4)

    assert bytes_per_element(lambda x: quantize(x, dtype), (32, 192), (32, 256)) == int(alone)
    assert bytes_per_element(back_again, (64, 64), (192, 64)) == int(back)
    if after:
        assert bytes_per_element(in_two, (1, 3072), (1, 4096)) == int(after)
    if with_scale:
        assert bytes_per_element(lambda x: in_two(x, 66000), (1, 3072), (1, 4096)) == int(with_scale)
