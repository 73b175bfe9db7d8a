"""The functions of cuBLAS that we call, by ctypes, in the library that CuPy has loaded.

CuPy's own bindings set the stream of the handle before each call, and refuse to while that stream is being captured.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from . import runtime

_INT, _LONG, _ADDRESS = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_MATRIX = (_ADDRESS, _INT, _INT)  # address, cudaDataType_t, leading dimension
_PRODUCT = (_ADDRESS, *[_INT] * 5, _ADDRESS)  # handle, two transpose flags, m, n, k, alpha
_FACTORS = (_ADDRESS, _INT, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT)  # handle, n, arrays, lda, pivots, info, count

SIGNATURES = {
    "cublasCreate_v2": (ctypes.POINTER(_ADDRESS),),
    "cublasDestroy_v2": (_ADDRESS,),
    "cublasSetStream_v2": (_ADDRESS, _ADDRESS),
    "cublasSetWorkspace_v2": (_ADDRESS, _ADDRESS, ctypes.c_size_t),
    "cublasSetMathMode": (_ADDRESS, _INT),
    "cublasGemmEx": (*_PRODUCT, *_MATRIX, *_MATRIX, _ADDRESS, *_MATRIX, _INT, _INT),
    "cublasGemmStridedBatchedEx": (
        *_PRODUCT, *_MATRIX, _LONG, *_MATRIX, _LONG, _ADDRESS, *_MATRIX, _LONG, _INT, _INT, _INT,
    ),
    "cublasSgetrfBatched": _FACTORS,
    "cublasDgetrfBatched": _FACTORS,
}  # fmt: skip

# Of cuBLASLt, on which cuBLAS is built; the library that has them comes with it.
LT_SIGNATURES = {
    "cublasLtMatmulDescCreate": (ctypes.POINTER(_ADDRESS), _INT, _INT),
    "cublasLtMatmulDescSetAttribute": (_ADDRESS, _INT, _ADDRESS, ctypes.c_size_t),
    "cublasLtMatrixLayoutCreate": (ctypes.POINTER(_ADDRESS), _INT, ctypes.c_size_t, ctypes.c_size_t, _LONG),
    "cublasLtMatmulPreferenceCreate": (ctypes.POINTER(_ADDRESS),),
    "cublasLtMatmulPreferenceDestroy": (_ADDRESS,),
    "cublasLtMatmulPreferenceSetAttribute": (_ADDRESS, _INT, _ADDRESS, ctypes.c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (*[_ADDRESS] * 7, _INT, _ADDRESS, _ADDRESS),
    "cublasLtMatmul": (*[_ADDRESS] * 14, ctypes.c_size_t, _ADDRESS),
}  # fmt: skip

NOT_SUPPORTED = 15
_STATUS = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", NOT_SUPPORTED: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip
_ADVICE = {
    1: "; no cuBLAS context could be made: is the driver as new as CUDA's libraries, and memory left on the device?",
    3: "; no memory is left on the device outside of CuPy's pool: free arrays, then call "
       "cupy.get_default_memory_pool().free_all_blocks()",
    13: "; an earlier kernel failed, or the call was not allowed while another stream is being captured",
}  # fmt: skip


@functools.cache
def library() -> Any:
    """The library, with the types of the arguments of SIGNATURES."""
    return _declared(SIGNATURES)


@functools.cache
def lt_library() -> Any:
    """The same with cuBLASLt; None if it is not found behind CuPy's bindings."""
    return _declared(LT_SIGNATURES) if all(hasattr(library(), name) for name in LT_SIGNATURES) else None


def _declared(signatures: dict[str, tuple[Any, ...]]) -> Any:
    loaded = runtime.cublas_library()
    for name, types in signatures.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = types, _INT
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Calls the function `name`; RuntimeError if it fails."""
    status = getattr(library() if name in SIGNATURES else lt_library(), name)(*arguments)
    if status:
        raise failure(name, status)


def failure(name: str, status: int, operands: str = "") -> RuntimeError:
    """The error to raise for a status other than 0; `operands` says what the function was called for."""
    what = f" for {operands}" if operands else ""
    named = f"CUBLAS_STATUS_{_STATUS[status]}" if status in _STATUS else "an unknown status"
    return RuntimeError(f"{name} failed{what}: {named} ({status}){_ADVICE.get(status, '')}")
