"""The library cuBLAS for ctypes: what CDLL loads from the file of CuPy's bindings, behind which it is found.

As ctypes does, a call converts what it is given by the declared types, here compared with the header's. A handle works
on the stream and in the workspace that it was set to; a product in a capture without a workspace is a hazard, since
cuBLAS would then allocate one as a node of the graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import _cublas, _cublaslt
from ._cublas import CUBLASError
from ._errors import CUDARuntimeError, HazardError
from ._handles import Handle, create, destroy, of, used
from ._memory import find, view
from ._state import queue_of

_P, _I, _L, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong, ctypes.c_size_t
_BITS = {_I: 31, _L: 63, _S: 64}
_EXECUTION_FAILED = 13


class Function:
    """A function of the library: `types` are those of its header."""

    argtypes: Any = None
    restype: Any = _I

    def __init__(self, name: str, types: tuple, run: Callable[..., None]) -> None:
        self.name, self.types, self.run = name, types, run

    def __call__(self, *arguments: Any) -> int:
        if self.argtypes is None or tuple(self.argtypes) != self.types or self.restype is not _I:
            raise TypeError(f"{self.name} is declared as {self.restype} of {self.argtypes}; the header has int of "
                            f"{self.types}")
        if len(arguments) != len(self.types):
            raise TypeError(f"{self.name} takes {len(self.types)} arguments, got {len(arguments)}")
        try:
            self.run(*[_converted(self.name, kind, value) for kind, value in zip(self.types, arguments, strict=True)])
        except CUBLASError as error:
            return error.status
        except CUDARuntimeError:
            return _EXECUTION_FAILED
        return 0


def _converted(name: str, kind: Any, value: Any) -> Any:
    if kind not in (_P, *_BITS):
        return value._obj  # of byref
    if value is None and kind is _P:
        return 0
    if type(value) is not int:
        raise ctypes.ArgumentError(f"{name}: {value!r} is no {kind.__name__}")
    if kind in _BITS and not (-1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
        raise HazardError(f"{name}: {value} does not fit a {kind.__name__}, and ctypes cuts it without a word")
    return value


def _set_stream(handle: int, stream: int) -> None:
    queue_of(stream)
    found = of(handle)
    found.stream, found.workspace = stream, None


def _set_workspace(handle: int, address: int, size: int) -> None:
    if address % 256:
        raise CUBLASError(7)
    of(handle).workspace = (address, size)


def _set_math_mode(handle: int, mode: int) -> None:
    of(handle).math_mode = mode


def _workspace(handle: Handle, capturing: bool) -> list:
    """The access to the workspace, which every product is taken to write."""
    if handle.workspace is None:
        if capturing:
            raise HazardError("cuBLAS allocates a workspace in a capture: call cublasSetWorkspace before it, and after "
                              "cublasSetStream, which drops the workspace")
        return []
    address, size = handle.workspace
    block = find(address)
    if block is None or block.pinned or block.freed is not None or address + size > block.ptr + block.size:
        raise HazardError(f"the workspace of {size} bytes at {address:#x} is no device memory in use ({block})")
    return [(block, address, address + size, view(address, (size,), np.dtype(np.uint8)), True)]


def _gemm(handle: int, *rest: Any) -> None:
    """With the arguments of cublasGemmStridedBatchedEx."""
    *numbers, _ = rest
    queue = queue_of(of(handle).stream)
    with used(handle, queue) as state:
        _cublas.multiply(queue, _workspace(state, queue.is_capturing()), state.pointer_mode, *numbers)


def _gemm_ex(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int, B: int,
    Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    _gemm(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0, beta, C, Ctype, ldc, 0, 1,
          computeType, algo)


def _getrf(dtype: str) -> Callable[..., None]:
    return lambda handle, *rest: _cublas.factorize(queue_of(of(handle).stream), handle, *rest, np.dtype(dtype))


_MATRIX, _FACTORS = (_P, _I, _I), (_P, _I, _P, _I, _P, _P, _I)
_FUNCTIONS = {
    "cublasCreate_v2": ((ctypes.POINTER(_P),), lambda pointer: setattr(pointer, "value", create())),
    "cublasDestroy_v2": ((_P,), destroy),
    "cublasSetStream_v2": ((_P, _P), _set_stream),
    "cublasSetWorkspace_v2": ((_P, _P, _S), _set_workspace),
    "cublasSetMathMode": ((_P, _I), _set_math_mode),
    "cublasGemmEx": ((_P, *[_I] * 5, _P, *_MATRIX, *_MATRIX, _P, *_MATRIX, _I, _I), _gemm_ex),
    "cublasGemmStridedBatchedEx": (
        (_P, *[_I] * 5, _P, *_MATRIX, _L, *_MATRIX, _L, _P, *_MATRIX, _L, _I, _I, _I), _gemm,
    ),
    "cublasSgetrfBatched": (_FACTORS, _getrf("f4")),
    "cublasDgetrfBatched": (_FACTORS, _getrf("f8")),
    "cublasLtMatmulDescCreate": ((ctypes.POINTER(_P), _I, _I), _cublaslt.create("desc")),
    "cublasLtMatmulDescSetAttribute": ((_P, _I, _P, _S), _cublaslt.set_attribute("desc")),
    "cublasLtMatrixLayoutCreate": ((ctypes.POINTER(_P), _I, _S, _S, _L), _cublaslt.create("layout")),
    "cublasLtMatmulPreferenceCreate": ((ctypes.POINTER(_P),), _cublaslt.create("preference")),
    "cublasLtMatmulPreferenceDestroy": ((_P,), _cublaslt.destroy),
    "cublasLtMatmulPreferenceSetAttribute": ((_P, _I, _P, _S), _cublaslt.set_attribute("preference")),
    "cublasLtMatmulAlgoGetHeuristic": ((*[_P] * 7, _I, _P, _P), _cublaslt.heuristic),
    "cublasLtMatmul": ((*[_P] * 14, _S, _P), _cublaslt.matmul),
}  # fmt: skip
LIBRARY = SimpleNamespace(**{name: Function(name, types, run) for name, (types, run) in _FUNCTIONS.items()})


def load_from(file: str) -> None:
    """Makes ctypes.CDLL answer LIBRARY for `file`, as the dynamic linker finds cuBLAS behind CuPy's bindings."""

    class CDLL(ctypes.CDLL):
        def __new__(cls, name: Any = None, *args: Any, **kwargs: Any) -> Any:
            return LIBRARY if name == file else super().__new__(cls)

    ctypes.CDLL = CDLL  # type: ignore[misc]
