"""A linear layer with relu as one launch, by cuBLASLt, the library behind cuBLAS that has epilogues.

    1. relu(x @ weightᵀ + bias): the epilogue RELU_BIAS adds a vector along the rows of the column-major result outᵀ.
       Bits may differ from those of product and kernel by the order of sums, since another product may be chosen.
    2. A product is planned once for its sizes, strides, alignment and dtype: descriptors and the first algorithm of the
       library's heuristic. Where there is none, product and kernel run.
    3. A plan's descriptor has the address of the bias, so one thread uses plans at a time.
    4. On each device the first layer of a dtype is preceded by one of small integers, where no order of sums matters.
       It has to have the values of product and kernel, NaN and infinities among them; else these run, with one warning.
    5. Handle and workspace are those of cuBLAS (cublas_handles.py): a handle of cuBLAS is one of cuBLASLt, too.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import warn_user
from .. import counters
from ..arrays.dtypes import float64
from . import capture, cublas, cublas_handles, libcublas, runtime

# cublasLtMatmulDescAttributes_t, cublasLtEpilogue_t and cublasLtMatmulPreferenceAttributes_t, from the header.
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
RELU_BIAS = 6
MOST_WORKSPACE, REDUCTIONS, ALIGNMENTS = 1, 3, (5, 6, 7, 8)
IN_COMPUTE_TYPE = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of long sums are not rounded to half types
ALIGNED = 256  # bytes; what the heuristic takes for granted unless it is told otherwise
BIAS_ALIGNED = 16
_LOCK = threading.RLock()


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t, whose first 64 bytes are the algorithm."""

    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]  # fmt: skip


@dataclass(frozen=True)
class Product:
    """What a plan is made for: outᵀ (n, m) = op(a) op(b), by columns, and the alignment of a, b and the result."""

    device: int
    arithmetic: tuple[int, int]  # cudaDataType_t and cublasComputeType_t
    sizes: tuple[int, int, int]  # n, m, k
    flags: tuple[int, int]
    leading: tuple[int, int]
    alignment: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The descriptor of a product, the layouts of a, b and the result, and an algorithm."""

    descriptor: int
    layouts: tuple[int, ...]
    heuristic: _Heuristic


def linear_relu(x: Any, weight: Any, bias: Any, out: Any = None) -> Any:
    """relu(x @ weightᵀ + bias) for x (m, k), weight (n, k) and bias (n,) of one dtype; None if there is no plan."""
    (m, k), n = x.shape, weight.shape[0]
    device = cublas._device(x, weight, bias, out)
    out = cublas._output(x, (m, n), out)
    if not (m and n and k) or bias.data.ptr % BIAS_ALIGNED:
        return None
    kind, compute, zero, one = cublas._arithmetic(x.dtype, None)
    b_pointer, b_flag, b_leading, b = cublas._operand(x)
    a_pointer, a_flag, a_leading, a = cublas._operand(weight.T)
    place = cublas_handles.place(device)
    alignment = tuple([_alignment(pointer) for pointer in (a_pointer, b_pointer, out.data.ptr)])
    product = Product(device, (kind, compute), (n, m, k), (a_flag, b_flag), (a_leading, b_leading), alignment)
    with _LOCK, place.lock:
        plan = _plan(product, place.number, place.bytes)
        if plan is None:
            return None
        _set("MatmulDesc", plan.descriptor, BIAS_POINTER, bias.data.ptr, ctypes.c_uint64)
        of_a, of_b, of_out = plan.layouts
        _call("cublasLtMatmul", place.number, plan.descriptor, one, a_pointer, of_a, b_pointer, of_b, zero,
              out.data.ptr, of_out, out.data.ptr, of_out, ctypes.addressof(plan.heuristic), place.workspace.ptr,
              place.bytes, place.stream)  # fmt: skip
    del a, b
    if counters.ACTIVE:
        counters.launch("gemm_relu")
        counters.matmul((m, k, n))
    return out


@functools.lru_cache(4096)
def _plan(product: Product, handle: int, workspace: int) -> Plan | None:
    """The plan of a product, or None if the library has no algorithm for it."""
    kind, compute = product.arithmetic
    n, m, k = product.sizes
    a_shape, b_shape = (k, n) if product.flags[0] else (n, k), (m, k) if product.flags[1] else (k, m)
    descriptor = _made("MatmulDesc", compute, cublas.DATA_TYPE[np.dtype(np.float32)])
    for attribute, value in ((TRANSA, product.flags[0]), (TRANSB, product.flags[1]), (EPILOGUE, RELU_BIAS)):
        _set("MatmulDesc", descriptor, attribute, value, ctypes.c_int32)
    shapes = ((a_shape, product.leading[0]), (b_shape, product.leading[1]), ((n, m), n))
    layouts = tuple([_made("MatrixLayout", kind, *shape, leading) for shape, leading in shapes])
    preference = _made("MatmulPreference")
    _set("MatmulPreference", preference, MOST_WORKSPACE, workspace, ctypes.c_uint64)
    _set("MatmulPreference", preference, REDUCTIONS, IN_COMPUTE_TYPE, ctypes.c_uint32)
    for attribute, alignment in zip(ALIGNMENTS, (*product.alignment, product.alignment[2]), strict=True):
        _set("MatmulPreference", preference, attribute, alignment, ctypes.c_uint32)
    heuristic, count = _Heuristic(), ctypes.c_int()
    status = _function("cublasLtMatmulAlgoGetHeuristic")(
        handle, descriptor, *layouts, layouts[2], preference, 1, ctypes.addressof(heuristic), ctypes.addressof(count)
    )
    _call("cublasLtMatmulPreferenceDestroy", preference)
    if status == libcublas.NOT_SUPPORTED or (not status and (not count.value or heuristic.state)):
        return None
    if status:
        raise libcublas.failure("cublasLtMatmulAlgoGetHeuristic", status)
    return Plan(descriptor, layouts, heuristic)


def _alignment(pointer: int) -> int:
    return min(pointer & -pointer, ALIGNED)


def _function(name: str) -> Any:
    return getattr(libcublas.lt_library(), name)


def _call(name: str, *arguments: Any) -> None:
    libcublas.call(name, *arguments)


def _made(kind: str, *arguments: int) -> int:
    """A new descriptor, layout or preference."""
    made = ctypes.c_void_p()
    _call(f"cublasLt{kind}Create", ctypes.byref(made), *arguments)
    return made.value or 0


def _set(kind: str, target: int, attribute: int, value: int, of: Any) -> None:
    number = of(value)
    _call(f"cublasLt{kind}SetAttribute", target, attribute, ctypes.addressof(number), ctypes.sizeof(number))


# ---- whether it is right -----------------------------------------------------------------------------


def is_right(device: int, dtype: np.dtype, relu: Any) -> bool:
    """Whether layers of this dtype on the current device have the values of product and kernel, `relu(z, bias)`.

    False without the library, while a graph is captured, and for float64, which has no epilogues.
    """
    key = device, dtype
    if key not in _RIGHT:
        if dtype == float64 or libcublas.lt_library() is None or capture.is_capturing():
            return False
        _RIGHT[key] = _compared(dtype, relu)
    return _RIGHT[key]


_RIGHT: dict[tuple[int, np.dtype], bool] = {}


def _compared(dtype: np.dtype, relu: Any) -> bool:
    xp = runtime.cupy()
    x = xp.asarray((np.arange(16 * 32).reshape(16, 32) % 5 - 2).astype(dtype))
    x[1, 2], x[2, 3], x[3, 4] = np.nan, np.inf, -np.inf
    weight = xp.asarray((np.arange(64 * 32).reshape(64, 32) % 7 - 3).astype(dtype))
    bias = xp.asarray((np.arange(64) % 9 - 4).astype(dtype))
    out, expected = linear_relu(x, weight, bias), relu(cublas.gemm(x, weight.T), bias)
    if out is None:
        return False
    made, known = [runtime.to_host(array).astype(np.float32) for array in (out, expected)]
    if np.array_equal(made, known, equal_nan=True):
        return True
    warn_user(f"cuBLASLt computes relu(x @ weight.T + bias) in {dtype} with other values than product and kernel. "
              "These run in its place; please report it, with the versions of CuPy and CUDA")
    return False
