"""Matrix products with a packed operand: exact sums, any shape, and the order of BLAS' sums."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite", reason="needs the extra [native]")

from autograd_gpu.backend.cpu.blas import on_one_thread
from autograd_gpu.backend.formulas.native import disk_cache, packed, packed_code, runs
from autograd_gpu.backend.formulas.native.runs import Operand, Place

pytestmark = pytest.mark.cpu
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
PROCESSORS = [(64, 32), (32, 16), (16, 32)]  # bytes of a vector register, and registers: AVX-512, AVX2, NEON
NAN = np.nan


@pytest.fixture(autouse=True)
def needs_native_code():
    if not runs.are_there() or packed.tile_of(DTYPES[0]) is None:
        pytest.skip("native code is off, or the processor has no fused multiply-adds")


def whole_numbers(rng, shape, dtype):
    """So small that all sums of products are exact, in any order."""
    return rng.integers(-50, 50, shape).astype(dtype)


@pytest.fixture(params=PROCESSORS, ids=lambda processor: f"{processor[0]} bytes")
def processor(request, monkeypatch):
    monkeypatch.setattr(packed, "tile_of", lambda dtype: packed_code.tile(dtype, *request.param))


def product(a, b, ends):
    """a @ b into the middle of NaN, from memory with NaN behind it, which stays."""
    (m, k), n, memory = a.shape, b.shape[1], np.full(packed.elements(b) + 99, NAN, a.dtype)
    out, wide = np.full((m + 2, n + 9), NAN, a.dtype), np.full((m, k + 3), NAN, a.dtype)
    wide[:, :k] = a
    steps = [packed.packing(b, Place(1), Place(2)),
             packed.product(m, n, Operand(Place(0), 0, wide.strides[0]), Place(2),
                            Operand(Place(3, out.strides[0]), 0, out.strides[0]), ends, a.dtype)]  # fmt: skip
    runs.function_of(steps)(runs.places(), wide, b, memory, out)
    assert np.isnan(memory[-99:]).all()
    assert np.isnan(out[[0, -1]]).all()
    assert np.isnan(out[:, n:]).all()
    return out[1:-1, :n]


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=60, deadline=None)
@given(m=st.integers(1, 40), k=st.integers(1, 50), n=st.integers(1, 70), turned=st.booleans(), parts=st.data())
def test_any_shape(dtype, m, k, n, turned, parts):
    rng = np.random.default_rng(m + k + n)
    a, b = whole_numbers(rng, (m, k), dtype), whole_numbers(rng, (n, k) if turned else (k, n), dtype)
    ends = sorted({*parts.draw(st.lists(st.integers(1, k), max_size=3)), k})
    b = b.T if turned else b
    np.testing.assert_array_equal(product(a, b, tuple(ends)), a @ b)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bits_do_not_depend_on_the_number_of_rows(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((37, 60)).astype(dtype), rng.standard_normal((60, 50)).astype(dtype)
    whole = product(a, b, (25, 60))
    np.testing.assert_allclose(whole, a @ b, rtol=0, atol=1e-4)
    for i, j in ((0, 12), (12, 25), (25, 26), (26, 37)):
        np.testing.assert_array_equal(product(a[i:j], b, (25, 60)), whole[i:j])
    single = product(a, b, (60,))
    assert not np.array_equal(single, whole)  # another order of the sums


def test_each_multiply_add_is_rounded_once_and_in_the_order_of_k():
    a = np.array([[-1, 1 + 2.0**-12, 2.0**-30]], np.float32)
    b = np.array([[1 + 2.0**-11], [1 + 2.0**-12], [1]], np.float32)
    assert product(a, b, (3,))[0, 0] == np.float32(2.0**-24 + 2.0**-30)


@pytest.mark.parametrize("ends", [(3,), (1, 3)])
def test_numbers_that_are_not_finite_and_zeros(ends):
    """A sum begins with 0, so that it is no -0, as in BLAS but for some kernels of small products."""
    tiny = np.finfo(np.float32).tiny
    a = np.array([[np.inf, 1, 0], [NAN, 0, 0], [-tiny, 0, 0], [0, 0, -0.0]], np.float32)
    b = np.array([[1.0], [2], [tiny]], np.float32) * np.ones(5, np.float32)
    b[0] = tiny
    result = product(a, b, ends)
    assert np.array_equal(result, np.array([[np.inf], [NAN], [0], [0]]) * np.ones(5), equal_nan=True)
    assert not np.signbit(result[2:]).any()


# ---- the order of BLAS' sums ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("k", "n"), [(2, 32), (64, 64), (100, 100), (256, 128), (512, 256), (1000, 64)])
def test_parts_have_the_bits_of_blas(dtype, k, n):
    """Of other rows, too; with BLAS' kernels for some processors there are none."""
    ends = packed.ends_of(1000, k, n, dtype)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((1000, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    if ends is None:
        assert (k, n) != (2, 32)  # two terms have one order
    else:
        assert ends[-1] == k
        np.testing.assert_array_equal(packed.computed(a, b, ends), on_one_thread(np.matmul, a, b))


@pytest.mark.parametrize(("k", "part", "ends"), [
    (100, 384, [100]), (384, 384, [384]), (500, 384, [256, 500]), (767, 384, [384, 767]), (768, 384, [384, 768]),
    (3000, 448, [448, 896, 1344, 1792, 2240, 2624, 3000]),
])  # fmt: skip
def test_parts_of_blas(k, part, ends):
    assert [*packed._ends(k, part)] == ends


def test_other_sums_have_no_parts(monkeypatch):
    packed.ends_of.cache_clear()
    monkeypatch.setattr(packed, "on_one_thread", lambda matmul, a, b: np.nextafter(matmul(a, b), 9))
    assert packed.ends_of(100, 40, 64, DTYPES[1]) is None
    packed.ends_of.cache_clear()


def test_a_failing_compiler_is_said(monkeypatch):
    def failing(kind, tile):
        raise RuntimeError("no such instruction")

    packed.ends_of.cache_clear()
    monkeypatch.setattr(packed, "_machine_code", failing)
    with pytest.warns(UserWarning, match="without native code: no such instruction"):
        assert packed.ends_of(100, 40, 64, DTYPES[1]) is None
    packed.ends_of.cache_clear()


@pytest.mark.parametrize(("rows", "k", "n", "dtype"), [
    (1, 32, 32, "f8"), (99, 1, 32, "f8"), (99, 32, 1, "f8"), (99, 32, 33, "f2"), (99, 32, 32, "i8"), (99, 32, 17, "f4"),
])  # fmt: skip
def test_what_is_not_packed(monkeypatch, rows, k, n, dtype):
    """One row, column or term, other dtypes, and columns that fill a vector by less than three quarters."""
    monkeypatch.setattr(packed, "tile_of", lambda dtype: packed_code.tile(dtype, 64, 32))
    assert packed.ends_of(rows, k, n, np.dtype(dtype)) is None


def test_few_columns_are_packed(monkeypatch):
    packed.ends_of.cache_clear()
    monkeypatch.setattr(packed, "on_one_thread", lambda matmul, a, b: packed.computed(a, b, (a.shape[1],)))
    assert packed.ends_of(99, 32, 3, DTYPES[0]) == (32,)
    packed.ends_of.cache_clear()


def test_weights_with_more_elements_than_rows_are_not_packed():
    assert packed.ends_of_weight(31, 32, 32, DTYPES[1]) is None
    assert packed.ends_of_weight(32, 32, 32, DTYPES[1]) == packed.ends_of(32, 32, 32, DTYPES[1])


@pytest.mark.parametrize(("machine", "features", "tile"), [
    ("x86_64", {"fma", "avx512f"}, (12, 2, 16)), ("AMD64", {"fma"}, (6, 2, 8)), ("x86_64", {"avx512f"}, None),
    ("arm64", set(), (12, 2, 4)), ("aarch64", set(), (12, 2, 4)), ("riscv64", {"fma"}, None),
])  # fmt: skip
def test_the_tile_of_a_processor(monkeypatch, machine, features, tile):
    monkeypatch.setattr(packed.platform, "machine", lambda: machine)
    monkeypatch.setattr(disk_cache, "has_feature", lambda name: name in features)
    packed.tile_of.cache_clear()
    result = packed.tile_of(DTYPES[0])
    assert (result and result[:3]) == tile
    packed.tile_of.cache_clear()


OWN_KERNELS = """
import numpy as np
import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.backend.formulas.native import switch

ag.set_default_device("cpu")
switch.LOADS = switch.COMPILES = 1
ag.manual_seed(0)
for dtype in (ag.float32, ag.float64):
    hidden = [layer for _ in range(2) for layer in (nn.Linear(48, 48), nn.Tanh())]
    net = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), *hidden, nn.Linear(48, 1)).to(dtype)
    f = func.vmap(func.hessian(net))
    x, compiled = ag.randn(1001, 2, dtype=dtype), ag.compile(f)
    with switch.numpy_code_alone():
        expected = f(x)
    for _ in range(6):
        assert np.array_equal(compiled(x), expected)
        assert np.array_equal(f(x), expected)
"""


def test_the_kernels_that_blas_has_for_this_processor(tmp_path):
    """Which a process may have replaced by others, with other sums."""
    chosen = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}
    env = {name: value for name, value in os.environ.items() if name not in chosen}
    code = [sys.executable, "-c", OWN_KERNELS]
    process = subprocess.run(code, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
