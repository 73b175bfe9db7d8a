"""Matrix products on CUDA: cuBLAS on views as they lie, where CuPy's own matmul copies transposed operands, widens half
types and knows TF32 as a switch for the whole process only.

How a product runs:

    1. Promote nothing: both operands have one dtype, float16, bfloat16, float32 or float64. Sums are float32 or wider.
    2. A matrix whose rows or columns are dense is passed as it lies, with a transpose flag; any other is copied.
    3. cuBLAS counts by columns, so it is asked for outᵀ = bᵀ aᵀ: a row-major matrix is its own transpose there.
    4. Where one operand is the same for the whole batch and the other's rows lie evenly, the batch is folded into the
       rows: one product of two matrices.
    5. Every other batch is one gemmStridedBatchedEx; batch dimensions that do not collapse into one stride are copied.
    6. For half types the handle is told, for the call, to keep partial sums in float32: cuBLAS may otherwise divide a
       long sum and round each part to the half type.

Calls go to the current stream of the current device; each one counts as a launch and a product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..config import float32_matmul
from . import counters, cuda
from .dtypes import FLOATS, HALF, bfloat16, float16, float32, float64

# cudaDataType_t, cublasComputeType_t and cublasOperation_t, from the headers; cublasGemmAlgo_t has DEFAULT = -1.
DATA_TYPE = {float32: 0, float64: 1, float16: 2, bfloat16: 14}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
_HALF_TYPES = (DATA_TYPE[float16], DATA_TYPE[bfloat16])
OP_N, OP_T = 0, 1
DEFAULT_ALGORITHM = -1
WIDE_PARTIAL_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION of cublasMath_t
LARGEST = 2**31 - 1  # sizes and leading dimensions are 32-bit there

# alpha and beta are read from host memory, in the type that sums are kept in; kept alive here.
_SCALARS = {dtype: np.arange(2, dtype=dtype) for dtype in (float32, float64)}
_ZERO_AND_ONE = {dtype: (pair.ctypes.data, pair.ctypes.data + dtype.itemsize) for dtype, pair in _SCALARS.items()}

# A matrix as cuBLAS takes it: its address, the flag, the leading dimension; and the array, so that it stays alive.
Operand = tuple[int, int, int, Any]


def matmul(a: Any, b: Any, out: Any = None, accumulate: bool = False, precision: str | None = None) -> Any:
    """a @ b for arrays of one floating dtype: (..., m, k) @ (..., k, n) -> (..., m, n), batches broadcasting.

    `out` is row-major with the result's shape; with `accumulate` the product is added to what it holds. `precision`
    overrides what `set_float32_matmul_precision` has set, for this call.
    """
    if a.dtype not in FLOATS:
        return _by_cupy(a, b)
    if a.ndim == 2 and b.ndim == 2:
        return gemm(a, b, out, accumulate, precision)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if out is not None:
        _check_out(a, shape, out)
    count = math.prod(batch) if a.shape[-1] else 0
    if count and _shared(b) and math.prod(a.shape[:-2]) == count:
        rows = _folded(a)
        if rows is not None:
            flat = None if out is None else out.reshape(rows.shape[0], shape[-1])
            return gemm(rows, _first(b), flat, accumulate, precision).reshape(shape)
    if count and _shared(a) and math.prod(b.shape[:-2]) == count and out is None:
        columns = _folded(b.swapaxes(-1, -2))
        if columns is not None:
            flipped = gemm(columns, _first(a).T, None, False, precision)
            return flipped.reshape(*batch, shape[-1], shape[-2]).swapaxes(-1, -2)
    return bmm(a, b, shape, out, accumulate, precision)


def gemm(a: Any, b: Any, out: Any = None, accumulate: bool = False, precision: str | None = None) -> Any:
    """One product of two matrices: (m, k) @ (k, n) -> (m, n)."""
    (m, k), n = a.shape, b.shape[1]
    _check_device(a, b, out)
    out = _output(a, (m, n), out)
    if not out.size or not k:
        return _without_products(out, accumulate)
    if counters.ACTIVE:
        counters.launch("gemm")
        counters.matmul((m, k, n))
    a_pointer, a_flag, a_leading, a = _operand(a)
    b_pointer, b_flag, b_leading, b = _operand(b)
    compute, zero, one = _arithmetic(a.dtype, precision)
    _check_sizes(m, n, k, a_leading, b_leading)
    kind = DATA_TYPE[a.dtype]
    _call(
        "gemmEx", kind, b_flag, a_flag, n, m, k, one, b_pointer, kind, b_leading, a_pointer, kind, a_leading,
        one if accumulate else zero, out.data.ptr, DATA_TYPE[out.dtype], n, compute, DEFAULT_ALGORITHM,
    )  # fmt: skip
    return out


def bmm(
    a: Any, b: Any, shape: tuple[int, ...], out: Any = None, accumulate: bool = False, precision: str | None = None
) -> Any:
    """A batch of products in one call; `shape` is that of the result."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    _check_device(a, b, out)
    out = _output(a, shape, out)
    if not out.size or not k:
        return _without_products(out, accumulate)
    batch = math.prod(shape[:-2])
    if counters.ACTIVE:
        counters.launch("gemm_batched")
        counters.matmul((batch, m, k, n))
    a, b = _one_batch(a, shape[:-2]), _one_batch(b, shape[:-2])
    a_pointer, a_flag, a_leading, a = _operand(a)
    b_pointer, b_flag, b_leading, b = _operand(b)
    compute, zero, one = _arithmetic(a.dtype, precision)
    _check_sizes(m, n, k, a_leading, b_leading, batch)
    kind, size = DATA_TYPE[a.dtype], a.dtype.itemsize
    _call(
        "gemmStridedBatchedEx", kind, b_flag, a_flag, n, m, k, one, b_pointer, kind, b_leading, b.strides[0] // size,
        a_pointer, kind, a_leading, a.strides[0] // size, one if accumulate else zero, out.data.ptr,
        DATA_TYPE[out.dtype], n, m * n, batch, compute, DEFAULT_ALGORITHM,
    )  # fmt: skip
    return out


def _call(function: str, kind: int, *arguments: int) -> None:
    """`function` of cuBLAS for operands of cudaDataType `kind`."""
    bindings, handle = cuda.cublas(), cuda.cublas_handle()
    if kind not in _HALF_TYPES:
        getattr(bindings, function)(handle, *arguments)
        return
    mode = bindings.getMathMode(handle)
    try:
        bindings.setMathMode(handle, mode | WIDE_PARTIAL_SUMS)
        getattr(bindings, function)(handle, *arguments)
    finally:
        bindings.setMathMode(handle, mode)  # the handle is CuPy's


def _by_cupy(a: Any, b: Any) -> Any:
    """Integers, which cuBLAS does not multiply."""
    out = cuda.cupy().matmul(a, b)
    if counters.ACTIVE:
        counters.launch("matmul")
        counters.matmul((*out.shape[:-2], a.shape[-2], a.shape[-1], b.shape[-1]))
    return out


def _arithmetic(dtype: np.dtype, precision: str | None) -> tuple[int, int, int]:
    """The compute type, and the addresses of 0 and 1 in the type of the sums."""
    if dtype == float64:
        return COMPUTE_64F, *_ZERO_AND_ONE[float64]
    fast = dtype == float32 and (precision or float32_matmul.precision) != "highest"
    return COMPUTE_32F_FAST_TF32 if fast else COMPUTE_32F, *_ZERO_AND_ONE[float32]


def _output(a: Any, shape: tuple[int, ...], out: Any) -> Any:
    if out is None:
        return cuda.cupy().empty(shape, a.dtype)
    _check_out(a, shape, out)
    return out


def _check_out(a: Any, shape: tuple[int, ...], out: Any) -> None:
    allowed = (a.dtype, float32) if a.dtype in HALF else (a.dtype,)
    if out.shape != shape or not out.flags.c_contiguous or out.dtype not in allowed:
        raise ValueError(f"out must be row-major with shape {shape} and dtype {a.dtype}; got shape {out.shape}, "
                         f"dtype {out.dtype}, strides {out.strides}")


def _check_device(*arrays: Any) -> None:
    """cuBLAS takes addresses and would read another device's by faults that end the process' use of CUDA."""
    here = cuda.cupy().cuda.runtime.getDevice()
    for array in arrays:
        if array is not None and array.data.device_id != here:
            there = array.data.device_id
            raise RuntimeError(f"matmul: an array is on cuda:{there}, but the current device is cuda:{here}; "
                               f"call inside `with ag.cuda.device({there}):`")


def _without_products(out: Any, accumulate: bool) -> Any:
    """Empty sums are zero."""
    if not accumulate:
        out.fill(0)
    return out


def _operand(x: Any) -> Operand:
    """A matrix, or a batch of them in one stride, as it lies if its rows or columns are dense, else a copy."""
    rows, columns = x.shape[-2:]
    size = x.dtype.itemsize
    across, along = x.strides[-2] // size, x.strides[-1] // size
    if (along == 1 or columns == 1) and (across >= columns or rows == 1):
        return x.data.ptr, OP_N, across if rows > 1 else columns, x
    if (across == 1 or rows == 1) and (along >= rows or columns == 1):
        return x.data.ptr, OP_T, along if columns > 1 else rows, x
    return _operand(cuda.cupy().ascontiguousarray(x))


def _is_dense(x: Any) -> bool:
    return x.flags.c_contiguous or x.flags.f_contiguous


def _check_sizes(*sizes: int) -> None:
    if max(sizes) > LARGEST:
        raise ValueError(f"cuBLAS takes sizes and strides of rows up to {LARGEST}; got {max(sizes)}: split the product")


def _shared(x: Any) -> bool:
    """Whether all matrices of the batch are one and the same."""
    return all(size == 1 or stride == 0 for size, stride in zip(x.shape[:-2], x.strides[:-2], strict=True))


def _first(x: Any) -> Any:
    return x[(0,) * (x.ndim - 2)]


def _folded(x: Any) -> Any:
    """x (..., r, c) as a matrix of all its rows, a view; None if they do not lie evenly."""
    return _collapsed(x, x.ndim - 1)


def _one_batch(x: Any, batch: tuple[int, ...]) -> Any:
    """x with its batch dimensions broadcast to `batch` and collapsed into one: a view if one stride can say it.

    A negative stride cannot: cuBLAS does not promise to take one.
    """
    xp = cuda.cupy()
    if _shared(x):  # stride 0; at most one matrix is copied
        x = _first(x)
        return xp.broadcast_to(x if _is_dense(x) else xp.ascontiguousarray(x), (math.prod(batch), *x.shape))
    x = xp.broadcast_to(x, (*batch, *x.shape[-2:]))
    view = _collapsed(x, len(batch))
    if view is None or view.strides[0] < 0:
        return xp.ascontiguousarray(x).reshape(-1, *x.shape[-2:])
    return view


def _collapsed(x: Any, dims: int) -> Any:
    """x with its first `dims` dimensions made one, as a view; None if no single stride reaches all of them."""
    count, step = 1, 0  # the innermost dimension that has more than one element gives the stride
    for size, stride in zip(reversed(x.shape[:dims]), reversed(x.strides[:dims]), strict=True):
        if size == 1:
            continue
        if count > 1 and stride != step * count:
            return None
        step = stride if count == 1 else step
        count *= size
    return x.reshape(-1, *x.shape[dims:])
