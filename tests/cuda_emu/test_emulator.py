"""Right kernels give right results, in every order and every build; wrong launches and sources are refused."""

import ml_dtypes
import numpy as np
import pytest
from cuda_emu import build, toolchain
from cuda_emu.samples import every_order, kernels, nans, needs_emulator, random, run, wrong
from selection import first

pytestmark = [pytest.mark.cpu, needs_emulator]


# Right kernels: the races build must find nothing in them


@pytest.fixture(params=toolchain.CHECKS, scope="module")
def right(request):
    return kernels("right.cu", request.param)


@every_order
@pytest.mark.parametrize("n", first([1027, 1, 3, 4]))
def test_copy(right, order, n):
    x, y = random(n), nans(n)
    run(right["copy"], -(-n // 1024), 256, x, y, np.int32(n), order=order)
    np.testing.assert_array_equal(x, y)


def test_traffic():
    """Of one grid, so that both launches read as many arguments."""
    copy, result = kernels("right.cu", "races")["copy"], []
    for n in (1024, 2048):
        run(copy, 2, 256, random(n), nans(n), np.int32(n))
        result.append(np.array(copy.traffic()))
    assert (result[1] - result[0]).tolist() == [4096, 4096]


@every_order
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (37, 45), (5, 70), (64, 33)])
def test_column_sum(right, order, rows, cols):
    x, out = random(rows, cols), np.zeros(cols, np.float32)
    grid = (-(-cols // 32), -(-rows // 32), 1)
    run(right["column_sum"], grid, (32, 32, 1), x, out, np.int32(rows), np.int32(cols), order=order)
    np.testing.assert_allclose(out, x.sum(0), rtol=1e-5, atol=1e-5)


@every_order
@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("__half", np.float16)])
@pytest.mark.parametrize("cols", [1, 129])
def test_row_softmax(right, order, name, dtype, cols):
    x, y = random(3, cols).astype(dtype), nans(3, cols).astype(dtype)
    run(right[f"row_softmax<{name}>"], 3, 64, x, y, np.int32(cols), shared_bytes=4 * cols, order=order)
    e = np.exp(x.astype(np.float32) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6 if dtype == np.float32 else 1e-3)


@every_order
def test_fp8(right, order):
    x = np.concatenate([100 * random(1000), [0, -0.0, 448, 449, 1e-9, -1e9, 57344, 2**-9, 2**-10]]).astype(np.float32)
    codes = np.zeros((2, len(x)), np.uint8)
    run(right["to_fp8"], 4, 256, x, *codes, np.int32(len(x)), order=order)
    for code, dtype in zip(codes, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2), strict=True):
        most = float(ml_dtypes.finfo(dtype).max)
        np.testing.assert_array_equal(code.view(dtype), x.clip(-most, most).astype(dtype))

    every = np.arange(256, dtype=np.uint8)
    e4m3, e5m2 = np.zeros(256, np.float16), np.zeros(256, ml_dtypes.bfloat16)
    run(right["from_fp8"], 1, 256, every, e4m3, e5m2, order=order)
    np.testing.assert_array_equal(e4m3, every.view(ml_dtypes.float8_e4m3fn).astype(np.float16))
    np.testing.assert_array_equal(e5m2.astype(np.float32), every.view(ml_dtypes.float8_e5m2).astype(np.float32))


def test_order_of_turns(right):
    def turns(order):
        seen = np.zeros(3 * 64, np.int32)
        run(right["turns"], 3, 64, np.zeros(1, np.int32), seen, order=order)
        return seen.tolist()

    every = list(range(3 * 64))
    assert turns("forward") == every
    assert turns("reverse") == every[::-1]
    assert turns(7) == turns(7)
    assert every != turns(7) != turns(8) != every
    assert sorted(turns(7)) == sorted(turns(-1)) == every


@every_order
def test_pointer_table(right, order):
    arrays = [random(n) for n in (1, 70, 300)]
    expected = [a * np.float32(3) for a in arrays]
    run(right["scale_each"], (2, 3, 1), 64, arrays, np.array([1, 70, 300], np.int32), np.float32(3), order=order)
    for a, b in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@every_order
@pytest.mark.parametrize("alive", [1, 33, 64])
def test_threads_that_finish_early(right, order, alive):
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    run(right["rotate"], 1, 64, x, y, np.int32(alive), order=order)
    np.testing.assert_array_equal(y[:alive], np.roll(x[:alive], -1))


@every_order
def test_syncwarp(right, order):
    x, y = random(64), nans(64)
    run(right["reverse_warps"], 1, 64, x, y, order=order)
    np.testing.assert_array_equal(y, np.concatenate([x[31::-1], x[:31:-1]]))


@every_order
def test_last_block_reads_what_the_others_wrote(right, order):
    x, out = random(320), nans(1)
    run(right["sum_in_one_launch"], 5, 64, x, nans(5), np.zeros(1, np.uint32), out, order=order)
    np.testing.assert_allclose(out, x.sum(), rtol=1e-5, atol=1e-5)


@every_order
def test_collectives(right, order):
    x = np.random.randint(0, 100, 64).astype(np.int32)
    out = np.zeros((20, 64), np.int32)
    run(right["collectives"], 1, 64, x, out, order=order)
    lane, warps = np.arange(32), x.reshape(2, 32)

    def fetch(source):
        return warps[:, source].ravel()

    def per_warp(f):
        return np.repeat([f(w) for w in warps], 32).astype(np.uint32).astype(np.int32)

    swapped = fetch(lane ^ 1)
    matches = [sum(1 << k for k in range(32) if w[k] % 5 == w[i] % 5) for w in warps for i in range(32)]
    expected = [
        fetch(np.full(32, 3)), fetch((lane + 1) % 8 + lane // 8 * 8), fetch(np.where(lane < 2, lane, lane - 2)),
        fetch(np.where(lane % 16 > 13, lane, lane + 2)), fetch(lane ^ 5), swapped, swapped, swapped,
        per_warp(lambda w: sum(1 << i for i in range(32) if w[i] % 3 == 0)), per_warp(lambda w: (w == x[40]).any()),
        per_warp(lambda w: (w != x[40]).all()), np.array(matches, np.uint32).astype(np.int32), per_warp(np.sum),
        per_warp(np.max), per_warp(np.min), per_warp(np.bitwise_xor.reduce), np.full(64, (x % 2).sum()), np.ones(64),
        np.zeros(64), np.full(64, -1),
    ]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


@every_order
def test_atomics(right, order):
    x = np.random.randint(-50, 50, 96).astype(np.int32)
    ints, bits = np.zeros(5, np.int32), np.array([0, -1, 0, 0], np.int32)
    sums = [np.zeros(1, dtype) for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
    run(right["atomics"], 1, 96, x, ints, bits, *sums, order=order)
    assert ints.tolist() == [x.sum(), -x.sum(), max(x.max(), 0), min(x.min(), 0), 2 * 96]
    named = int(np.bitwise_or.reduce(1 << x.astype(np.int64) % 32))
    assert bits.view(np.uint32).tolist() == [named, 2**32 - 1 - named, int(np.bitwise_xor.reduce(x)) % 2**32, 96 % 10]
    assert [float(s[0]) for s in sums] == [48, 24, 96, 96]


def test_arithmetic(right):
    out = nans(21)
    run(right["arithmetic"], 1, 1, out)
    x = np.float64(np.float32(0.3))
    expected = [np.exp(x), np.log(x), x / 3, 1 / x, x**-0.5, x * x - x, 1, x**3, x, 2]
    expected += [-(2**31), 8, 31, 4, 7, x, 7, 1, 3, 0.5, 2]
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_signature(right, capfd):
    kernel = right["signature"]
    assert [(p.kind, p.size, p.floating) for p in kernel.parameters] == [
        ("struct", 24, False), ("read", 8, True), ("write", 8, True), ("write", 8, False), ("write", 8, False),
        ("table", 8, True), ("table", 8, True), ("scalar", 4, True), ("scalar", 8, False), ("scalar", 1, False),
    ]  # fmt: skip
    shape = np.array([(2, 3, (0.5, 0.25))], [("rows", "i4"), ("cols", "i4"), ("weights", "f8", 2)])
    null = np.uintp(0)
    run(kernel, 1, 1, shape[0], null, null, null, null, null, null, np.float32(1.5), np.int64(2**40), np.True_)
    assert capfd.readouterr().out == "2 x 3, 0.5 0.25, 1.5, 1099511627776\n"


def test_clock_and_ucontext():
    """The port to other CPUs, and a clock that never stands still."""
    source = """
        extern "C" __global__ void clocks(long long* out) {
            __shared__ long long before[64];
            before[threadIdx.x] = clock64();
            __syncthreads();
            out[threadIdx.x] = __shfl_xor_sync(0xffffffff, clock64(), 1) - before[63 - threadIdx.x];
        }"""
    out = np.zeros(64, np.int64)
    for options in ((), ("-DEMU_UCONTEXT",)):
        run(build.compile(source, options).kernels["clocks"], 1, 64, out)
        assert (out > 0).all()


# Wrong launches and wrong sources


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        (1, (64, 32, 1), 0, r"invalid configuration argument: .* 2048 threads .* CUDA's limit is 1024"),
        (1, (1, 1, 65), 0, "invalid configuration argument: .* block"),
        (0, 32, 0, "invalid configuration argument: .* grid"),
        ((1, 65536, 1), 32, 0, "invalid configuration argument: .* grid"),
        ((1, 1), 32, 0, "three extents"),
        (1, 32, 49153, "invalid argument: .* 49153 bytes of dynamic shared memory; it may have 49152"),
    ],
)
def test_invalid_launch(grid, block, shared, message):
    with pytest.raises(build.InvalidLaunch, match=message):
        wrong("never_written", grid, block, random(64), shared_bytes=shared)


def test_limits_of_one_kernel():
    copy = kernels("right.cu")["copy"]
    with pytest.raises(build.InvalidLaunch, match=r"512 threads .* its __launch_bounds__ is 256"):
        run(copy, 1, 512, random(1), random(1), np.int32(1))
    kernel, y = kernels("wrong.cu")["dynamic_never_written"], random(64)
    kernel.max_dynamic_shared_bytes = 100_000
    run(kernel, 1, 64, y, shared_bytes=100_000)
    assert np.isnan(y).all()


def test_wrong_arguments():
    with pytest.raises(build.InvalidLaunch, match="write_at has 2 parameters, not 1"):
        wrong("write_at", 1, 32, random(1))
    with pytest.raises(build.InvalidLaunch, match=r"argument 1 of write_at has 8 bytes; the parameter .* has 4"):
        wrong("write_at", 1, 32, random(1), np.int64(0))
    with pytest.raises(build.EmulationError, match=r"no kernel 'write_to' in this module, which has .*'write_at'"):
        wrong("write_to", 1, 32)
    with pytest.raises(ValueError, match="order is 'forward', 'reverse' or"):
        wrong("trap", 1, 32, order="sideways")
    with pytest.raises(ValueError, match="check is one of none, races,"):
        kernels("wrong.cu", check="all")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('extern "C" __global__ void f(int* x) {\n    *x = y;\n}', r"source\.cu:2:10: error: .y. was not declared"),
        ('extern "C" __global__ void f(float** x) {}', r"a table of arrays is a parameter of type T\* const\*"),
        ('extern "C" __global__ void f(long long* x) { atomicAdd(x, 1); }', "atomicAdd has no overload for this type"),
        ("__global__ void f(int* x) {}", "the source has no kernel"),
    ],
)
def test_compile_error(source, message):
    with pytest.raises(build.CompileError, match=message):
        build.compile(source)


def test_objects_are_cached_until_a_header_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRAD_GPU_EMU_CACHE", str(tmp_path / "cache"))
    source = '#include "state.h"\n// __global__ void no() {}\nextern "C" __global__ void f(int* x) { *x = NUMBER; }'
    x = np.zeros(1, np.int32)
    for number, objects in ((1, 1), (1, 1), (2, 2)):
        (tmp_path / "state.h").write_text(f"#define NUMBER {number}")
        options = ("-arch=sm_90", "--use_fast_math", f"-I{tmp_path}")  # the first two mean nothing here
        run(build.compile(source, options).kernels["f"], 1, 1, x)
        assert x[0] == number
        assert len(list((tmp_path / "cache").glob("*.so"))) == objects


def test_cudas_headers_are_compiled_once(tmp_path, monkeypatch):
    """g++ reads them precompiled, which is what it stops at where they are spoilt."""
    monkeypatch.setenv("AUTOGRAD_GPU_EMU_CACHE", str(tmp_path))
    build.compile('extern "C" __global__ void f(int* x) { *x = 1; }')
    (header,), (precompiled,) = tmp_path.glob("*.h"), tmp_path.glob("*.h.gch")
    header.write_text("#error the headers are read once more")
    build.compile('extern "C" __global__ void f(int* x) { *x = 2; }', [f"-I{tmp_path}"])
    precompiled.unlink()
    precompiled.touch()
    with pytest.raises(build.CompileError, match="read once more"):
        build.compile('extern "C" __global__ void f(int* x) { *x = 3; }')


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(build.EmulationError, match=r"cuda_fp16\.h is not there: pip install nvidia-cuda-runtime"):
        toolchain.find_headers([tmp_path], [tmp_path])
    runtime, target = tmp_path / "nvidia/cuda_runtime/include", tmp_path / "nvidia/cuda_cccl/include"
    runtime.mkdir(parents=True)
    (runtime / "cuda_fp16.h").touch()
    with pytest.raises(build.EmulationError, match="nv/target is not there: pip install cupy-cuda13x"):
        toolchain.find_headers([tmp_path], [])
    (target / "nv").mkdir(parents=True)
    (target / "nv/target").touch()
    assert toolchain.find_headers([tmp_path], []) == (runtime, target)

    monkeypatch.setenv("PATH", "")
    with pytest.raises(build.EmulationError, match="needs g"):
        build.compile('extern "C" __global__ void f(int without_a_compiler) {}')
