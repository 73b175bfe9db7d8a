"""Matrix products on CUDA by cuBLAS, on strided views without copies.

CuPy's own matmul copies transposed operands, converts half types to float32, and has only a process-wide TF32 switch.

    1. Both operands have the same dtype: float16, bfloat16, float32 or float64. Accumulation is in float32 or float64.
    2. A matrix with dense rows or columns is passed without a copy, with a transpose flag; any other is copied.
    3. cuBLAS is column-major and sees a row-major matrix as its transpose, so the call computes outᵀ = bᵀ aᵀ.
    4. If one operand is the same for the whole batch and the rows of the other have one stride, the batch is folded
       into the rows: one product of two matrices.
    5. Any other batch is one gemmStridedBatchedEx; batch dimensions that do not merge into one stride are copied.
    6. The handles (cublas_handles.py) keep partial sums of half types in float32: by default cuBLAS may split a long
       sum and round each part to the half type.

Calls go to the current stream of the current device, and count as one launch and one product each. A CUDA graph may
contain them (cublas_handles.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...modes import float32_matmul
from .. import counters
from ..arrays.dtypes import FLOATS, HALF, bfloat16, float16, float32, float64, wide
from . import cublas_handles, libcublas, runtime

# cudaDataType_t, cublasComputeType_t and cublasOperation_t, from the headers; cublasGemmAlgo_t has DEFAULT = -1.
DATA_TYPE = {float32: 0, float64: 1, float16: 2, bfloat16: 14}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
OP_N, OP_T = 0, 1
DEFAULT_ALGORITHM = -1
LARGEST = 2**31 - 1  # sizes and leading dimensions are 32-bit ints in cuBLAS

# alpha and beta are read from host memory, in the accumulation type; these arrays own that memory.
_SCALARS = {dtype: np.arange(2, dtype=dtype) for dtype in (float32, float64)}
_ZERO_AND_ONE = {dtype: (pair.ctypes.data, pair.ctypes.data + dtype.itemsize) for dtype, pair in _SCALARS.items()}
_ARITHMETIC = {
    dtype: (kind, COMPUTE_64F if dtype == float64 else COMPUTE_32F, *_ZERO_AND_ONE[wide(dtype)])
    for dtype, kind in DATA_TYPE.items()
}
_TF32 = (DATA_TYPE[float32], COMPUTE_32F_FAST_TF32, *_ZERO_AND_ONE[float32])

# A matrix argument of cuBLAS: address, transpose flag, leading dimension; and the array, which keeps the memory alive.
Operand = tuple[int, int, int, Any]


def matmul(a: Any, b: Any, out: Any = None, accumulate: bool = False, precision: str | None = None) -> Any:
    """a @ b for arrays of the same dtype: (..., m, k) @ (..., k, n) -> (..., m, n), broadcasting batches.

    `out` is row-major with the result's shape; with `accumulate` the product is added to it. `precision` overrides
    `set_float32_matmul_precision` for this call.
    """
    if a.dtype not in FLOATS:
        return _by_cupy(a, b)
    if a.ndim == 2 and b.ndim == 2:
        return gemm(a, b, out, accumulate, precision)
    (*a_batch, m, k), (*b_batch, _, n) = a.shape, b.shape
    batch = a_batch if a_batch == b_batch else np.broadcast_shapes(a_batch, b_batch)
    shape, count = (*batch, m, n), math.prod(batch) if k else 0
    if count and _shared(b) and math.prod(a_batch) == count:
        rows = _folded(a)
        if rows is not None:
            flat = None if out is None else _output(a, shape, out).reshape(rows.shape[0], n)
            return gemm(rows, _first(b), flat, accumulate, precision).reshape(shape)
    if count and _shared(a) and math.prod(b_batch) == count and out is None:
        columns = _folded(b.swapaxes(-1, -2))
        if columns is not None:
            flipped = gemm(columns, _first(a).T, None, False, precision)
            return flipped.reshape(*batch, n, m).swapaxes(-1, -2)
    return bmm(a, b, shape, out, accumulate, precision)


def gemm(a: Any, b: Any, out: Any = None, accumulate: bool = False, precision: str | None = None) -> Any:
    """The product of two matrices: (m, k) @ (k, n) -> (m, n); arguments as in `matmul`."""
    (m, k), n = a.shape, b.shape[1]
    device = _device(a, b, out)
    out = _output(a, (m, n), out)
    if not (m and n and k):
        return _without_products(out, accumulate)
    place = cublas_handles.place(device)
    a_pointer, a_flag, a_leading, a = _operand(a)
    b_pointer, b_flag, b_leading, b = _operand(b)
    if (m | n | k | a_leading | b_leading) > LARGEST:
        raise _too_large(m, n, k, a_leading, b_leading)
    kind, compute, zero, one = _arithmetic(a.dtype, precision)
    with place.lock:
        place.take()
        status = place.gemm(
            place.number, b_flag, a_flag, n, m, k, one, b_pointer, kind, b_leading, a_pointer, kind, a_leading,
            one if accumulate else zero, out.data.ptr, DATA_TYPE[out.dtype], n, compute, DEFAULT_ALGORITHM,
        )  # fmt: skip
    if status:
        raise libcublas.failure("cublasGemmEx", status, f"({m}, {k}) @ ({k}, {n}) of {a.dtype}")
    if counters.ACTIVE:
        counters.launch("gemm")
        counters.matmul((m, k, n))
    return out


def bmm(
    a: Any, b: Any, shape: tuple[int, ...], out: Any = None, accumulate: bool = False, precision: str | None = None
) -> Any:
    """A batch of products in one cuBLAS call; `shape` is that of the result, other arguments as in `matmul`."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    device, batch = _device(a, b, out), math.prod(shape[:-2])
    out = _output(a, shape, out)
    if not (m and n and k and batch):
        return _without_products(out, accumulate)
    place = cublas_handles.place(device)
    a, b = _one_batch(a, shape[:-2], batch), _one_batch(b, shape[:-2], batch)
    a_pointer, a_flag, a_leading, a = _operand(a)
    b_pointer, b_flag, b_leading, b = _operand(b)
    if (m | n | k | a_leading | b_leading | batch) > LARGEST:
        raise _too_large(m, n, k, a_leading, b_leading, batch)
    size = a.itemsize
    kind, compute, zero, one = _arithmetic(a.dtype, precision)
    with place.lock:
        place.take()
        status = place.gemm_batched(
            place.number, b_flag, a_flag, n, m, k, one, b_pointer, kind, b_leading, b.strides[0] // size,
            a_pointer, kind, a_leading, a.strides[0] // size, one if accumulate else zero, out.data.ptr,
            DATA_TYPE[out.dtype], n, m * n, batch, compute, DEFAULT_ALGORITHM,
        )  # fmt: skip
    if status:
        operands = f"{batch} products ({m}, {k}) @ ({k}, {n}) of {a.dtype}"
        raise libcublas.failure("cublasGemmStridedBatchedEx", status, operands)
    if counters.ACTIVE:
        counters.launch("gemm_batched")
        counters.matmul((batch, m, k, n))
    return out


def getrf_batched(columns: Any, addresses: Any, pivots: Any, info: Any) -> None:
    """P L U of square column-major matrices, in place; the other arrays are as in cublasSgetrfBatched."""
    count, n, place = info.size, columns.shape[-1], cublas_handles.place(columns.device.id)
    name = "cublasSgetrfBatched" if columns.dtype == float32 else "cublasDgetrfBatched"
    with place.lock:
        place.take()
        status = getattr(libcublas.library(), name)(
            place.number, n, addresses.data.ptr, n, pivots.data.ptr, info.data.ptr, count
        )
    if status:
        raise libcublas.failure(name, status, f"{count} matrices ({n}, {n}) of {columns.dtype}")


def _too_large(*sizes: int) -> ValueError:
    return ValueError(f"cuBLAS takes sizes and strides of rows up to {LARGEST}; got {max(sizes)}: split the product")


def _by_cupy(a: Any, b: Any) -> Any:
    """a @ b by CuPy, for integers, which cuBLAS does not support."""
    out = runtime.cupy().matmul(a, b)
    if counters.ACTIVE:
        counters.launch("matmul")
        counters.matmul((*out.shape[:-2], a.shape[-2], a.shape[-1], b.shape[-1]))
    return out


def _arithmetic(dtype: np.dtype, precision: str | None) -> tuple[int, int, int, int]:
    """The cuBLAS types of operands and accumulation, and the addresses of 0 and 1 in the accumulation type."""
    if dtype == float32 and (precision or float32_matmul.precision) != "highest":
        return _TF32
    return _ARITHMETIC[dtype]


def _output(a: Any, shape: tuple[int, ...], out: Any) -> Any:
    if out is None:
        return runtime.cupy().empty(shape, a.dtype)
    _check_out(a, shape, out)
    return out


def _check_out(a: Any, shape: tuple[int, ...], out: Any) -> None:
    allowed = (a.dtype, float32) if a.dtype in HALF else (a.dtype,)
    if out.shape != shape or not runtime.c_contiguous(out) or out.dtype not in allowed:
        raise ValueError(f"out must be row-major with shape {shape} and dtype {a.dtype}; got shape {out.shape}, "
                         f"dtype {out.dtype}, strides {out.strides}")


def _device(*arrays: Any) -> int:
    """The current device; RuntimeError if an array is on another one.

    cuBLAS takes addresses; reading those of another device would be a fault that ends the CUDA context of the process.
    """
    here = runtime.current.device()
    for array in arrays:
        if array is not None and array.data.device_id != here:
            there = array.data.device_id
            raise RuntimeError(f"matmul: an array is on cuda:{there}, but the current device is cuda:{here}; "
                               f"call inside `with ag.cuda.device({there}):`")
    return here


def _without_products(out: Any, accumulate: bool) -> Any:
    """`out` of a product with an empty dimension: zeros, or unchanged with `accumulate`."""
    if not accumulate:
        out.fill(0)
    return out


def _operand(x: Any) -> Operand:
    """The cuBLAS argument for a matrix or a batch with one stride; copies it if neither rows nor columns are dense."""
    rows, columns = x.shape[-2:]
    if runtime.c_contiguous(x):
        return x.data.ptr, OP_N, columns, x
    size, strides = x.itemsize, x.strides
    row_stride, column_stride = strides[-2] // size, strides[-1] // size
    if (column_stride == 1 or columns == 1) and (row_stride >= columns or rows == 1):
        return x.data.ptr, OP_N, row_stride if rows > 1 else columns, x
    if (row_stride == 1 or rows == 1) and (column_stride >= rows or columns == 1):
        return x.data.ptr, OP_T, column_stride if columns > 1 else rows, x
    return _operand(runtime.cupy().ascontiguousarray(x))


def _is_dense(x: Any) -> bool:
    return x.flags.c_contiguous or x.flags.f_contiguous


def _shared(x: Any) -> bool:
    """Whether all matrices of the batch are the same memory."""
    return max([size for size, stride in zip(x.shape[:-2], x.strides[:-2], strict=True) if stride], default=1) == 1


def _first(x: Any) -> Any:
    return x[(0,) * (x.ndim - 2)]


def _folded(x: Any) -> Any:
    """x (..., r, c) as a matrix of all its rows, as a view; None if the rows have no common stride."""
    return _collapsed(x, x.ndim - 1)


def _one_batch(x: Any, batch: tuple[int, ...], count: int) -> Any:
    """x with its batch dimensions broadcast to `batch` and merged into one of size `count`.

    A view if the merged dimension has one non-negative stride, else a copy: cuBLAS does not document negative strides.
    """
    if x.ndim == 3 and x.shape[0] == count and x.strides[0] > 0:
        return x
    xp = runtime.cupy()
    if _shared(x):  # stride 0; at most one matrix is copied
        x = _first(x)
        return xp.broadcast_to(x if _is_dense(x) else xp.ascontiguousarray(x), (count, *x.shape))
    x = xp.broadcast_to(x, (*batch, *x.shape[-2:]))
    view = _collapsed(x, len(batch))
    if view is None or view.strides[0] < 0:
        return xp.ascontiguousarray(x).reshape(-1, *x.shape[-2:])
    return view


def _collapsed(x: Any, dims: int) -> Any:
    """x with its first `dims` dimensions merged into one, as a view; None if they do not merge into one stride."""
    count, step = 1, 0  # the innermost dimension that has more than one element gives the stride
    for size, stride in zip(reversed(x.shape[:dims]), reversed(x.strides[:dims]), strict=True):
        if size == 1:
            continue
        if count > 1 and stride != step * count:
            return None
        step = stride if count == 1 else step
        count *= size
    return x.reshape(-1, *x.shape[dims:])
