"""What CuPy promises of memory, streams, graphs and kernels, asked as in test_standin.py: on a GPU, of CuPy itself."""

import gc
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]

SCALE = r"""
extern "C" __global__ void scale(const float* x, float* out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}
template <class T> __global__ void reverse(const T* x, T* out, long long n) {
  extern __shared__ unsigned char memory[];
  T* tile = reinterpret_cast<T*>(memory);
  int i = threadIdx.x;
  if (i < n) tile[i] = x[i];
  __syncthreads();
  if (i < n) out[i] = tile[n - 1 - i];
}
"""


@pytest.fixture(scope="module")
def xp():
    import cupy

    return cupy


@pytest.fixture
def pool(xp):
    """A pool of its own, for figures that no other test disturbs."""
    pool = xp.cuda.MemoryPool()
    with xp.cuda.using_allocator(pool.malloc):
        yield pool


# ---- memory --------------------------------------------------------------------------------------------


def same(found, expected):
    np.testing.assert_array_equal(found.get(), expected)


def test_pool_accounts(xp, pool):
    a = xp.empty(100, "uint8")
    assert (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()) == (512, 512, 0)
    b = xp.empty(2000, "uint8")
    assert (pool.used_bytes(), pool.total_bytes()) == (512 + 2048, 512 + 2048)
    del b
    assert (pool.used_bytes(), pool.free_bytes(), pool.n_free_blocks()) == (512, 2048, 1)
    c = xp.empty(600, "uint8")  # a part of the free block
    assert (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()) == (512 + 1024, 2560, 1)
    del a, c
    assert pool.n_free_blocks() == 2  # the parts are one again
    pool.free_all_blocks()
    assert (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()) == (0, 0, 0)


def test_pool_keeps_blocks_by_stream(xp, pool):
    stream = xp.cuda.Stream(non_blocking=True)
    a = xp.empty(100)
    del a
    with stream:
        xp.empty(100)
    assert (pool.total_bytes(), pool.n_free_blocks()) == (2048, 2)
    pool.free_all_blocks(stream)
    assert pool.total_bytes() == 1024


def test_pool_limit(xp, pool):
    pool.set_limit(size=4096)
    a = xp.empty(3072, "uint8")
    text = r"Out of memory allocating 2,048 bytes \(allocated so far: 3,072 bytes, limit set to: 4,096 bytes\)\."
    with pytest.raises(xp.cuda.memory.OutOfMemoryError, match=text):
        xp.empty(2048, "uint8")
    assert pool.get_limit() == 4096
    del a
    xp.empty(4096, "uint8")  # what is cached makes room


def test_memory_hooks(xp, pool):
    seen = []

    class Hook(xp.cuda.MemoryHook):
        name = "test"

        def alloc_preprocess(self, **facts):
            seen.append(("alloc", facts["mem_size"]))

        def malloc_postprocess(self, **facts):
            seen.append(("malloc", facts["size"], facts["mem_size"]))
            assert facts["mem_ptr"]

        def free_preprocess(self, **facts):
            seen.append(("free", facts["mem_size"]))

    with Hook():
        a = xp.empty(100, "uint8")
        del a
        xp.empty(50, "uint8")
    expected = [("alloc", 512), ("malloc", 100, 512), ("free", 512), ("malloc", 50, 512), ("free", 512)]
    assert seen == expected


def test_allocators(xp):
    sizes = []

    def allocator(size):
        sizes.append(size)
        return xp.get_default_memory_pool().malloc(size)

    with xp.cuda.using_allocator(allocator):
        xp.empty(10, "uint8")
        with pytest.raises(ValueError, match="using_allocator"):
            xp.cuda.set_allocator(None)
    assert sizes == [10]


def test_pointers(xp):
    a = xp.zeros(8, "uint8")
    a.data.memset(1, 4)
    (a.data + 4).copy_from_device_async(a.data, 2)
    assert a.tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    host = np.full(8, 9, "uint8")
    a.data.copy_from_host_async(host.ctypes.data, 8)
    xp.cuda.runtime.memsetAsync(a.data.ptr, 3, 2, 0)
    assert a.tolist() == [3, 3, 9, 9, 9, 9, 9, 9]
    memory = xp.cuda.UnownedMemory(a.data.ptr, 8, a)
    assert xp.ndarray(2, "uint32", xp.cuda.MemoryPointer(memory, 0)).tolist() == [0x09090303, 0x09090909]


def test_pinned_memory(xp):
    import cupyx

    host = cupyx.empty_pinned((3, 4), "float32")
    host[...] = np.arange(12).reshape(3, 4)
    assert xp.cuda.pinned_memory.is_memory_pinned(host.ctypes.data)
    stream = xp.cuda.Stream(non_blocking=True)
    a, back = xp.empty((3, 4), "float32"), cupyx.zeros_pinned((3, 4), "float32")
    xp.cuda.Stream.null.synchronize()
    a.set(host, stream=stream)
    a.get(stream=stream, out=back, blocking=False)
    stream.synchronize()
    np.testing.assert_array_equal(back, host)
    pool = xp.cuda.PinnedMemoryPool()
    pointer = pool.malloc(700)
    assert isinstance(pointer, xp.cuda.PinnedMemoryPointer)
    assert np.frombuffer(pointer, "uint8", 700).size == 700
    assert (pointer + 8).ptr == pointer.ptr + 8
    assert pointer.mem.size == 1024
    del pointer
    gc.collect()
    assert pool.n_free_blocks() == 1


# ---- streams, graphs, kernels --------------------------------------------------------------------------


def test_streams_and_events(xp):
    first, second = xp.cuda.Stream(non_blocking=True), xp.cuda.Stream(non_blocking=True)
    with first:
        begin = first.record()
        a = xp.arange(1000.0) * 2
        end = first.record()
    second.wait_event(end)
    with second:
        b = a + 1
    second.synchronize()
    assert end.done
    assert first.done
    assert xp.cuda.get_elapsed_time(begin, end) >= 0
    assert b.get(stream=second)[-1] == 1999
    assert xp.cuda.Event().done  # never recorded
    with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidResourceHandle"):
        xp.cuda.get_elapsed_time(xp.cuda.Event(disable_timing=True), end)
    with pytest.raises(ValueError, match="Timing must be disabled"):
        xp.cuda.Event(interprocess=True)


def test_current_stream_is_the_threads(xp):
    stream, seen = xp.cuda.Stream(), []
    with stream:
        assert xp.cuda.get_current_stream() is stream
        thread = threading.Thread(target=lambda: seen.append(xp.cuda.get_current_stream()))
        thread.start()
        thread.join()
    assert seen == [xp.cuda.Stream.null]
    assert xp.cuda.get_current_stream() == xp.cuda.Stream.null
    assert (stream.is_non_blocking, xp.cuda.Stream(non_blocking=True).is_non_blocking) == (False, True)
    assert xp.cuda.Stream.from_external(stream) == stream


def test_host_functions(xp):
    stream, seen = xp.cuda.Stream(), []
    stream.launch_host_func(seen.append, 1)
    stream.add_callback(lambda s, status, arg: seen.append((s is stream, status, arg)), 2)
    stream.synchronize()
    assert seen == [1, (True, 0, 2)]


def test_graph_replays_on_new_data(xp):
    stream = xp.cuda.Stream(non_blocking=True)
    with stream:
        x, out = xp.zeros(4), xp.empty(4)
        xp.add(x, 1, out=out)  # compiles
        stream.synchronize()
        stream.begin_capture()
        assert stream.is_capturing()
        xp.multiply(x, 2, out=out)
        out += 1
        graph = stream.end_capture()
        for value in (1, 2):
            x.fill(value)
            graph.upload()
            graph.launch()
            assert out.get(stream=stream).tolist() == [2 * value + 1] * 4


@pytest.mark.parametrize(("refused", "error", "text", "spoils"), [
    (lambda xp, s, a: s.synchronize(), RuntimeError, "cudaErrorStreamCaptureUnsupported", True),
    (lambda xp, s, a: xp.cuda.Device().synchronize(), RuntimeError, "cudaErrorStreamCaptureUnsupported", True),
    (lambda xp, s, a: s.record().synchronize(), RuntimeError, "cudaErrorCapturedEvent", True),
    (lambda xp, s, a: a.get(), RuntimeError, "D2H transfers are disallowed", False),
    (lambda xp, s, a: xp.asarray(np.ones(3)), RuntimeError, "H2D transfers are disallowed", False),
    (lambda xp, s, a: xp.stack([a] * 9), RuntimeError, "H2D transfers are disallowed", False),
    (lambda xp, s, a: a.data.memset(0, 8), RuntimeError, "synchronous API calls are disallowed", False),
    (lambda xp, s, a: a @ a.T, NotImplementedError, "cuBLAS API during stream capture is currently unsupported", False),
    (lambda xp, s, a: xp.random.rand(3), NotImplementedError, "cuRAND API during stream capture", False),
], ids=["stream", "device", "event", "get", "asarray", "stack", "memset", "matmul", "rand"])  # fmt: skip
def test_what_a_capture_refuses(xp, refused, error, text, spoils):
    stream = xp.cuda.Stream(non_blocking=True)
    with stream:
        a = xp.ones((3, 3), "float32")
        stream.synchronize()
        stream.begin_capture()
        with pytest.raises(error, match=text):
            refused(xp, stream, a)
        if spoils:
            with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureInvalidated"):
                stream.end_capture()
        else:
            assert isinstance(stream.end_capture(), xp.cuda.Graph)
    assert not stream.is_capturing()


def test_what_is_never_captured(xp):
    with pytest.raises(RuntimeError, match="cannot capture on the default"):
        xp.cuda.Stream.null.begin_capture()
    blocking, other = xp.cuda.Stream(), xp.cuda.Stream(non_blocking=True)
    blocking.begin_capture()
    with pytest.raises(xp.cuda.driver.CUDADriverError, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
        xp.ones(3)  # a kernel in the null stream, which waits for blocking ones
    with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
        blocking.end_capture()
    blocking.begin_capture()
    with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureImplicit"):
        xp.empty(3).data.memset_async(0, 24)  # by the runtime, not by the driver
    with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
        blocking.end_capture()
    stray = other.record()
    other.begin_capture()
    with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureIsolation"):
        other.wait_event(stray)
    with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureInvalidated"):
        other.end_capture()


def test_a_capture_forks_and_joins(xp):
    main, side = xp.cuda.Stream(non_blocking=True), xp.cuda.Stream(non_blocking=True)
    with main:
        x, y = xp.ones(3), xp.ones(3)
        main.synchronize()
        main.begin_capture()
        side.wait_event(main.record())
        with side:
            x += 1
        with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureUnjoined"):
            main.end_capture()
        main.begin_capture()
        side.wait_event(main.record())
        with side:
            x += 1
        main.wait_event(side.record())
        y += x
        graph = main.end_capture()
        graph.launch()
        assert y.get(stream=main).tolist() == [3, 3, 3]


def test_kernels(xp):
    module = xp.RawModule(code=SCALE, options=("-std=c++17",), name_expressions=["reverse<float>", "reverse<int>"])
    x = xp.arange(1000, dtype="float32")
    out = xp.empty_like(x)
    scale = module.get_function("scale")
    scale((8,), (128,), (x, out, np.float32(0.5), np.int32(1000)))
    same(out, np.arange(1000, dtype="float32") / 2)
    for name, dtype in (("reverse<float>", "float32"), ("reverse<int>", "int32")):
        values = xp.arange(100).astype(dtype)
        turned = xp.empty_like(values)
        module.get_function(name)((1,), (128,), (values, turned, 100), shared_mem=400)  # a Python int is 64 bits
        same(turned, np.arange(100)[::-1].astype(dtype))
    assert scale.attributes["max_threads_per_block"] == 1024
    scale.max_dynamic_shared_size_bytes = 64 << 10
    assert scale.max_dynamic_shared_size_bytes == 64 << 10
    with pytest.raises(TypeError, match="size one"):
        scale((1,), (32,), (x, np.ones(3, "float32"), np.float32(1), np.int32(3)))
    with pytest.raises(xp.cuda.driver.CUDADriverError, match="CUDA_ERROR_INVALID_VALUE"):
        scale((1,), (2048,), (x, out, np.float32(1), np.int32(3)))


def test_kernels_that_do_not_compile_or_exist(xp):
    with pytest.raises(xp.cuda.compiler.CompileException):
        xp.RawKernel('extern "C" __global__ void f() { nothing; }', "f").compile()
    with pytest.raises(xp.cuda.driver.CUDADriverError, match="NOT_FOUND"):
        xp.RawModule(code=SCALE, options=("-std=c++17",)).get_function("absent")


def product(xp, m, n, k, dtype, out_dtype, compute, flags=(0, 0), batch=1, alpha=1.0, beta=0.0, precise="float32"):
    """alpha op(a) op(b) + beta c by columns, by cuBLAS and by NumPy in float64."""
    from cupy_backends.cuda.libs import cublas

    codes = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
    dtypes = {**{name: np.dtype(name) for name in list(codes)[:3]}, "bfloat16": np.dtype(ml_dtypes.bfloat16)}
    random = np.random.default_rng(0)
    shapes = [(batch, *((k, m) if flags[0] else (m, k))), (batch, *((n, k) if flags[1] else (k, n))), (batch, m, n)]
    hosts = [random.standard_normal(shape).astype(dtypes[name]) for shape, name in
             zip(shapes, (dtype, dtype, out_dtype), strict=True)]  # fmt: skip
    a, b, c = (xp.asarray(np.ascontiguousarray(host.swapaxes(1, 2))) for host in hosts)  # by columns
    factors = np.array([alpha, beta], precise)
    cublas.gemmStridedBatchedEx(
        xp.cuda.device.get_cublas_handle(), *flags, m, n, k, factors.ctypes.data,
        a.data.ptr, codes[dtype], a.shape[2], m * k, b.data.ptr, codes[dtype], b.shape[2], n * k,
        factors.ctypes.data + factors.itemsize, c.data.ptr, codes[out_dtype], m, m * n, batch, compute, -1,
    )  # fmt: skip
    first, second, third = (host.astype("float64") for host in hosts)
    first, second = (x.swapaxes(1, 2) if flag else x for x, flag in zip((first, second), flags, strict=True))
    return c.get().swapaxes(1, 2).astype("float64"), alpha * first @ second + beta * third


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("dtype", "out_dtype", "compute", "tolerance"), [
    ("float32", "float32", 68, 1e-5), ("float64", "float64", 70, 1e-13), ("float16", "float16", 68, 2e-3),
    ("float16", "float32", 68, 1e-5), ("bfloat16", "bfloat16", 68, 2e-2), ("bfloat16", "float32", 68, 1e-5),
    ("float32", "float32", 77, 4e-3),
])  # fmt: skip
def test_gemm(xp, dtype, out_dtype, compute, tolerance, flags):
    precise = "float64" if compute == 70 else "float32"
    found, expected = product(xp, 5, 4, 33, dtype, out_dtype, compute, flags, 3, 0.5, 2.0, precise)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=5 * tolerance)


def test_tf32_is_visible(xp):
    errors = [abs(np.subtract(*product(xp, 32, 32, 64, "float32", "float32", compute))).max() for compute in (68, 77)]
    assert errors[0] < 3e-5 < 5e-4 < errors[1]


def test_gemm_checks_its_arguments(xp):
    from cupy_backends.cuda.libs import cublas

    one, a = np.ones(2, "float32"), xp.ones((8, 8), "float32")
    right = {"m": 8, "n": 8, "k": 8, "Atype": 0, "lda": 8, "Btype": 0, "ldb": 8, "Ctype": 0, "ldc": 8,
             "computeType": 68}  # fmt: skip
    for wrong, text in (({"lda": 7}, "INVALID_VALUE"), ({"ldc": 4}, "INVALID_VALUE"), ({"m": -1}, "INVALID_VALUE"),
                        ({"Btype": 1}, "NOT_SUPPORTED"), ({"Ctype": 2}, "NOT_SUPPORTED"),
                        ({"computeType": 70}, "NOT_SUPPORTED")):  # fmt: skip
        with pytest.raises(cublas.CUBLASError, match=text):
            cublas.gemmEx(handle=xp.cuda.device.get_cublas_handle(), transa=0, transb=0, alpha=one.ctypes.data,
                          beta=one.ctypes.data, A=a.data.ptr, B=a.data.ptr, C=xp.empty_like(a).data.ptr, algo=-1,
                          **right | wrong)  # fmt: skip


def test_one_device_or_more(xp):
    runtime = xp.cuda.runtime
    free, total = runtime.memGetInfo()
    assert 0 < free <= total
    assert runtime.getDeviceCount() >= 1
    assert runtime.getDeviceProperties(0)["warpSize"] == 32
    with xp.cuda.Device(0) as device:
        assert (device.id, int(device), runtime.getDevice()) == (0, 0, 0)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidDevice: invalid device ordinal"):
        runtime.setDevice(99)


def test_synchronisation_can_be_forbidden(xp):
    import cupyx

    a = xp.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with cupyx.allow_synchronize(False), pytest.raises(cupyx.DeviceSynchronized):
            float(a[0])
