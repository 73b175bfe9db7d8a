"""cuBLAS by NumPy and LAPACK: products and LU factors, with the checks that cuBLAS makes and those that it cannot make.

Matrices lie by columns. Sums are kept in the compute type; half types are rounded once, when the result is stored. TF32
keeps 10 bits of the inputs' mantissas, so that a product that should not have been TF32 differs visibly.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import numpy as np

from ._errors import HazardError
from ._handles import create as create
from ._handles import destroy as destroy
from ._handles import of, used
from ._memory import find, view
from ._queue import Queue
from ._state import current_queue, queue_of

try:
    import ml_dtypes
except ImportError:  # then nobody has bfloat16 arrays either
    ml_dtypes = None

_STATUS = {7: "CUBLAS_STATUS_INVALID_VALUE", 15: "CUBLAS_STATUS_NOT_SUPPORTED", 1: "CUBLAS_STATUS_NOT_INITIALIZED"}
_TYPES = {0: np.dtype("f4"), 1: np.dtype("f8"), 2: np.dtype("f2")}
if ml_dtypes is not None:
    _TYPES[14] = np.dtype(ml_dtypes.bfloat16)

# Compute type -> (type of alpha, beta and the sums, allowed (A and B, C)); cudaDataType: 0 f32, 1 f64, 2 f16, 14 bf16.
_HALF_OR_SINGLE = {(2, 2), (2, 0), (14, 14), (14, 0), (0, 0)}
_COMPUTE = {
    64: ("f2", {(2, 2)}), 65: ("f2", {(2, 2)}),
    68: ("f4", _HALF_OR_SINGLE), 69: ("f4", _HALF_OR_SINGLE),
    74: ("f4", {(0, 0)}), 75: ("f4", {(0, 0)}), 77: ("f4", {(0, 0)}),
    70: ("f8", {(1, 1)}), 71: ("f8", {(1, 1)}),
}  # fmt: skip
_LARGEST = 2**31 - 1  # what CuPy's bindings convert to a C int
_ROUNDED_TO = {74: 10, 75: 7, 77: 10}  # bits of the mantissa that the inputs keep


class CUBLASError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_STATUS[status])

    def __reduce__(self) -> tuple:
        return type(self), (self.status,)


def getPointerMode(handle: int) -> int:
    return of(handle).pointer_mode


def setPointerMode(handle: int, mode: int) -> None:
    of(handle).pointer_mode = mode


def getMathMode(handle: int) -> int:
    return of(handle).math_mode


def setMathMode(handle: int, mode: int) -> None:
    of(handle).math_mode = mode


def setStream(handle: int, stream: int) -> None:
    of(handle)
    _refuse_capture(queue_of(stream))


def getVersion(handle: int) -> int:
    return 130000


def gemmEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int, B: int,
    Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    gemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0, beta, C, Ctype,
                         ldc, 0, 1, computeType, algo)


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int,
    strideA: int, B: int, Btype: int, ldb: int, strideB: int, beta: int, C: int, Ctype: int, ldc: int, strideC: int,
    batchCount: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    """C = alpha op(A) op(B) + beta C for each matrix of the batch."""
    if max(m, n, k, lda, ldb, ldc, batchCount) > _LARGEST:
        raise OverflowError("value too large to convert to int")
    of(handle)
    queue = current_queue()
    _refuse_capture(queue)
    with used(handle, queue) as state:
        multiply(queue, [], state.pointer_mode, transa, transb, m, n, k, alpha, A, Atype, lda, strideA, B, Btype, ldb,
                 strideB, beta, C, Ctype, ldc, strideC, batchCount, computeType)  # fmt: skip


def multiply(
    queue: Queue, workspace: list, pointer_mode: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    A: int, Atype: int, lda: int, strideA: int, B: int, Btype: int, ldb: int, strideB: int, beta: int, C: int,
    Ctype: int, ldc: int, strideC: int, batchCount: int, computeType: int,
) -> None:  # fmt: skip
    """The product as work of `queue`, which also touches `workspace`."""
    _check_shapes(transa, transb, m, n, k, lda, ldb, ldc, batchCount)
    scale, bits = _check_types(Atype, Btype, Ctype, computeType)
    if not (m and n and batchCount):
        return
    if batchCount > 1 and abs(strideC) < ldc * (n - 1) + m:
        raise HazardError(f"C: matrices of {m} x {n}, leading dimension {ldc}, overlap at stride {strideC}")
    factors = _Factors(pointer_mode, alpha, beta, scale)
    a = _matrices("A", A, _TYPES[Atype], (k, m) if transa else (m, k), lda, strideA, batchCount)
    b = _matrices("B", B, _TYPES[Btype], (n, k) if transb else (k, n), ldb, strideB, batchCount)
    c = _matrices("C", C, _TYPES[Ctype], (m, n), ldc, strideC, batchCount)

    def run() -> None:
        first, second = (_rounded(x[3].astype(scale), bits) for x in (a, b))
        first, second = (x.swapaxes(1, 2) if t else x for x, t in ((first, transa), (second, transb)))
        by, plus = factors.values()
        result = by * np.matmul(first, second)
        c[3][...] = result if plus == 0 else result + plus * c[3].astype(scale)

    accesses = [(*c[:4], True), *[(*x[:4], False) for x in (a, b) if x[0] is not None]]
    queue.push(run, "gemm", [*accesses, *factors.accesses, *workspace])


def sgetrfBatched(
    handle: int, n: int, Aarray: int, lda: int, PivotArray: int, infoArray: int, batchSize: int
) -> None:  # fmt: skip
    queue = current_queue()
    _refuse_capture(queue)
    factorize(queue, handle, n, Aarray, lda, PivotArray, infoArray, batchSize, np.dtype("f4"))


def dgetrfBatched(
    handle: int, n: int, Aarray: int, lda: int, PivotArray: int, infoArray: int, batchSize: int
) -> None:  # fmt: skip
    queue = current_queue()
    _refuse_capture(queue)
    factorize(queue, handle, n, Aarray, lda, PivotArray, infoArray, batchSize, np.dtype("f8"))


def factorize(
    queue: Queue, handle: int, n: int, Aarray: int, lda: int, PivotArray: int, infoArray: int, batchSize: int,
    dtype: np.dtype,
) -> None:  # fmt: skip
    """P L U of the square matrices at the addresses that lie at `Aarray`, in place; pivots and info count from 1.

    It waits for the stream, unlike cuBLAS: which memory the work touches is known by the addresses only.
    """
    if min(n, batchSize) < 0 or lda < max(1, n):
        raise CUBLASError(7)
    with used(handle, queue):
        if not (n and batchSize):
            return
        pointers = _matrices("Aarray", Aarray, np.dtype("u8"), (batchSize, 1), batchSize, 0, 1)
        queue.push(lambda: None, "getrf", [(*pointers, False)])
        queue.synchronize()
        each = [_matrices("A", int(ptr), dtype, (n, n), lda, 0, 1) for ptr in pointers[3].ravel()]
        pivots = _matrices("PivotArray", PivotArray, np.dtype("i4"), (n, batchSize), n, 0, 1)
        info = _matrices("infoArray", infoArray, np.dtype("i4"), (batchSize, 1), batchSize, 0, 1)
        getrf = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs("getrf", dtype=dtype)

        def run() -> None:
            for i, (_, _, _, matrix) in enumerate(each):
                matrix[0], order, info[3][0, i, 0] = getrf(matrix[0])
                pivots[3][0, :, i] = order + 1

        queue.push(run, "getrf", [(*x, True) for x in (*each, pivots, info)])


def _refuse_capture(queue: Queue) -> None:
    """CuPy asks whether the stream is captured whenever it sets it, which every call does."""
    if queue.is_capturing():
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")


def _check_shapes(
    transa: int, transb: int, m: int, n: int, k: int, lda: int, ldb: int, ldc: int, batch: int
) -> None:
    if min(m, n, k, batch) < 0 or not {transa, transb} <= {0, 1, 2}:
        raise CUBLASError(7)
    if lda < max(1, k if transa else m) or ldb < max(1, n if transb else k) or ldc < max(1, m):
        raise CUBLASError(7)


def _check_types(a: int, b: int, c: int, compute: int) -> tuple[np.dtype, int]:
    """The type of the sums, and to how many mantissa bits inputs are rounded (0: not)."""
    compute = {0: 68, 1: 70, 2: 64}.get(compute, compute)  # as cudaDataType, which older callers pass
    if compute not in _COMPUTE or a != b or (a, c) not in _COMPUTE[compute][1]:
        raise CUBLASError(15)
    return np.dtype(_COMPUTE[compute][0]), _ROUNDED_TO.get(compute, 0)


class _Factors:
    """alpha and beta: read at the call in pointer mode HOST, by the kernel in mode DEVICE."""

    def __init__(self, mode: int, alpha: int, beta: int, dtype: np.dtype) -> None:
        self.accesses = []
        views = []
        for address in (alpha, beta):
            block = find(address)
            if (block is not None and not block.pinned) != (mode == 1):
                where = "device" if block else "host"
                raise HazardError(f"alpha or beta at {address:#x} is {where} memory, but the pointer mode is "
                                  f"{'DEVICE' if mode else 'HOST'}")
            if mode:
                raw = view(address, (1,), dtype)
                views.append(raw)
                self.accesses.append((block, address, address + dtype.itemsize, raw, False))
            else:
                views.append(np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype))
        self._views = views

    def values(self) -> tuple[Any, Any]:
        return self._views[0][0], self._views[1][0]


def _matrices(
    name: str, ptr: int, dtype: np.dtype, shape: tuple[int, int], leading: int, stride: int, batch: int
) -> Any:
    """The access to a batch of matrices by columns, every one of which must lie within the block that `ptr` is in."""
    rows, columns = shape
    size = dtype.itemsize
    if not (rows and columns):
        return None, 0, 0, np.zeros((batch, rows, columns), dtype)
    block = find(ptr)
    if block is None or block.pinned or block.freed is not None:
        raise HazardError(f"{name} at {ptr:#x} is no device memory in use ({block})")
    if ptr % size:
        raise HazardError(f"{name} at {ptr:#x} is not aligned for {dtype}")
    first, last = min(0, stride * (batch - 1)), max(0, stride * (batch - 1))
    low, high = ptr + first * size, ptr + (last + (columns - 1) * leading + rows) * size
    if low < block.ptr or high > block.ptr + block.size:
        raise HazardError(f"{name}: {batch} matrices of {rows} x {columns}, leading dimension {leading}, stride "
                          f"{stride}, do not lie in {block}: they take the bytes {low:#x} to {high:#x}")
    raw = view(ptr, (batch, rows, columns), dtype, (stride * size, size, leading * size))
    return block, low, high, raw


def _rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """float32 rounded to `bits` of mantissa, ties to even."""
    if not bits:
        return x
    drop = 23 - bits
    words = x.view(np.uint32)
    rounded = words + ((1 << (drop - 1)) - 1) + ((words >> drop) & 1)
    return np.where(np.isfinite(x), (rounded & np.uint32(~((1 << drop) - 1) & 0xFFFFFFFF)).view(np.float32), x)

