"""cuBLAS by ctypes on the stand-in: what a handle is set to, and the mistakes that a real library would not report."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_emu.programs import found

from autograd_gpu.backend.cuda.libcublas import LT_SIGNATURES, SIGNATURES

pytestmark = [pytest.mark.emulated, pytest.mark.smoke]
BYTES = 4 << 20
ONE = np.ones(2, "float32")


@pytest.fixture
def library(cp):
    from cupy_backends.cuda.libs import cublas

    loaded = ctypes.CDLL(cublas.__file__)
    for name, types in {**SIGNATURES, **LT_SIGNATURES}.items():
        getattr(loaded, name).argtypes = types
    return loaded


@pytest.fixture
def handle(cp, library):
    """A handle, a stream, workspaces, and matrices."""
    number = ctypes.c_void_p()
    assert library.cublasCreate_v2(ctypes.byref(number)) == 0
    spaces = [cp.cuda.alloc(BYTES) for _ in range(2)]
    a, c = cp.ones((4, 4), "float32"), [cp.empty((4, 4), "float32") for _ in range(2)]
    cp.cuda.Device().synchronize()
    yield SimpleNamespace(number=number.value, spaces=spaces, a=a, c=c, stream=cp.cuda.Stream(non_blocking=True))
    cp.cuda.Device().synchronize()
    assert library.cublasDestroy_v2(number.value) == 0


def enter(library, handle, stream, space=0):
    assert library.cublasSetStream_v2(handle.number, stream.ptr) == 0
    assert library.cublasSetWorkspace_v2(handle.number, handle.spaces[space].ptr, BYTES) == 0


def multiply(library, handle, m=4, into=0):
    one, a = ONE.ctypes.data, handle.a.data.ptr
    return library.cublasGemmEx(handle.number, 0, 0, m, 4, 4, one, a, 0, 4, a, 0, 4, one + 4, handle.c[into].data.ptr,
                                0, 4, 68, -1)  # fmt: skip


def test_work_goes_to_the_stream_that_is_set(cp, schedule, library, handle):
    enter(library, handle, handle.stream)
    handle.c[0].fill(0)
    handle.stream.wait_event(cp.cuda.Stream.null.record())
    assert multiply(library, handle) == 0
    handle.stream.synchronize()
    assert handle.c[0].tolist() == [[4.0] * 4] * 4


@pytest.mark.parametrize("order", ["stream, workspace", "workspace, stream"])
def test_a_capture_needs_a_workspace(cp, schedule, library, handle, order):
    if order == "stream, workspace":
        enter(library, handle, handle.stream)
    else:
        library.cublasSetWorkspace_v2(handle.number, handle.spaces[0].ptr, BYTES)
        library.cublasSetStream_v2(handle.number, handle.stream.ptr)
    handle.c[0].fill(0)
    handle.stream.wait_event(cp.cuda.Stream.null.record())
    handle.stream.begin_capture()
    if order == "stream, workspace":
        multiply(library, handle)
        handle.stream.end_capture().launch(handle.stream)
        handle.stream.synchronize()
        assert handle.c[0].tolist() == [[4.0] * 4] * 4
    else:
        with found("HazardError", "cuBLAS allocates a workspace in a capture"):
            multiply(library, handle)
        handle.stream.end_capture()


@pytest.mark.parametrize("shared", [False, True])
def test_a_workspace_of_two_streams(cp, schedule, library, handle, shared):
    other = cp.cuda.Stream(non_blocking=True)
    enter(library, handle, handle.stream)
    multiply(library, handle)
    enter(library, handle, other, 0 if shared else 1)
    if shared:
        with found("RaceError", "race: gemm"):
            multiply(library, handle, into=1)
    else:
        assert multiply(library, handle, into=1) == 0


def test_a_workspace_that_was_freed(cp, schedule, library, handle):
    enter(library, handle, handle.stream)
    handle.spaces.clear()
    cp.get_default_memory_pool().free_all_blocks()
    with found("HazardError", "the workspace of 4194304 bytes at 0x.* is no device memory in use"):
        multiply(library, handle)


def test_what_ctypes_would_not_report(cp, library, handle, monkeypatch):
    with found("HazardError", "2147483648 does not fit a c_int, and ctypes cuts it without a word"):
        multiply(library, handle, m=1 << 31)
    with pytest.raises(ctypes.ArgumentError, match=r"cublasSetMathMode: 1\.5 is no c_int"):
        library.cublasSetMathMode(handle.number, 1.5)
    with pytest.raises(TypeError, match="cublasSetMathMode takes 2 arguments, got 1"):
        library.cublasSetMathMode(handle.number)
    monkeypatch.setattr(library.cublasSetMathMode, "argtypes", (ctypes.c_int, ctypes.c_int))
    with pytest.raises(TypeError, match="the header has int of"):
        library.cublasSetMathMode(handle.number, 0)


def test_statuses(cp, library, handle):
    assert library.cublasSetWorkspace_v2(handle.number, handle.spaces[0].ptr + 16, BYTES // 2) == 7
    assert multiply(library, handle, m=-1) == 7


# ---- cuBLASLt ------------------------------------------------------------------------------------------


def lt_product(library, handle, space, epilogue=6, alignment=64, k=4):
    """A descriptor with a bias, a layout of (4, k) matrices, an algorithm for them in a buffer, and its status."""

    def made(kind, *given):
        number = ctypes.c_void_p()
        assert getattr(library, f"cublasLt{kind}Create")(ctypes.byref(number), *given) == 0
        return number.value

    def put(kind, target, attribute, value, of):
        number = of(value)
        size = ctypes.sizeof(number)
        return getattr(library, f"cublasLt{kind}SetAttribute")(target, attribute, ctypes.addressof(number), size)

    desc, layout, preference = made("MatmulDesc", 68, 0), made("MatrixLayout", 0, 4, k, 4), made("MatmulPreference")
    assert put("MatmulDesc", desc, 7, epilogue, ctypes.c_uint32) == 0
    assert put("MatmulDesc", desc, 8, handle.a.data.ptr, ctypes.c_uint64) == 0
    assert put("MatmulDesc", desc, 8, 1, ctypes.c_uint32) == 7  # an address has eight bytes
    assert put("MatmulPreference", preference, 1, BYTES, ctypes.c_uint64) == 0
    for attribute in (5, 6, 7, 8):
        assert put("MatmulPreference", preference, attribute, alignment, ctypes.c_uint32) == 0
    results, count = (ctypes.c_uint64 * 12)(), ctypes.c_int()
    pointers = [ctypes.addressof(x) for x in (results, count)]
    status = library.cublasLtMatmulAlgoGetHeuristic(handle.number, desc, *[layout] * 4, preference, 1, *pointers)
    assert library.cublasLtMatmulPreferenceDestroy(preference) == 0
    return desc, layout, results, status


def lt_multiply(library, handle, desc, layout, algorithm, c, size=BYTES):
    one, a = ONE.ctypes.data, handle.a.data.ptr
    zero = ONE[1:].ctypes.data
    return library.cublasLtMatmul(
        handle.number, desc, one, a, layout, a, layout, zero, c, layout, c, layout, ctypes.addressof(algorithm),
        handle.spaces[0].ptr, size, handle.stream.ptr,
    )  # fmt: skip


def test_products_with_an_epilogue(cp, schedule, library, handle):
    desc, layout, algorithm, status = lt_product(library, handle, 0)
    assert status == 0
    handle.stream.wait_event(cp.cuda.Stream.null.record())
    assert lt_multiply(library, handle, desc, layout, algorithm, handle.c[0].data.ptr) == 0
    handle.stream.synchronize()
    assert handle.c[0].tolist() == [[5.0] * 4] * 4


def test_mistakes_with_epilogues(cp, library, handle):
    assert lt_product(library, handle, 0, epilogue=32)[-1] == 15  # gelu, which nobody here asks for
    desc, layout, algorithm, _ = lt_product(library, handle, 0)
    other = lt_product(library, handle, 0, k=2)[2]
    assert lt_multiply(library, handle, desc, layout, other, handle.c[0].data.ptr) == 7  # made for another product
    with found("HazardError", "is not aligned as was promised: 64"):
        lt_multiply(library, handle, desc, layout, algorithm, handle.c[0].data.ptr + 4)
    with found("HazardError", "the workspace of 16 bytes .* is not as was promised"):
        lt_multiply(library, handle, desc, layout, algorithm, handle.c[0].data.ptr, 16)
    with found("HazardError", "is no desc of cuBLASLt"):
        lt_multiply(library, handle, layout, layout, algorithm, handle.c[0].data.ptr)


def test_another_file_is_loaded_as_ever():
    assert isinstance(ctypes.CDLL(None), ctypes.CDLL)
    assert ctypes.CDLL(None).getpid() > 0
