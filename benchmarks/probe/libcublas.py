"""cuBLAS by ctypes, in the library that CuPy has loaded, with a handle of our own: CuPy's calls refuse a capture.

cublasSetStream gives the handle a workspace of cuBLAS' own again, so that cublasSetWorkspace has to come behind it: one
that is allocated during a capture may belong to no graph.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from autograd_gpu.backend.cuda.cublas import (
    COMPUTE_32F,
    COMPUTE_32F_FAST_TF32,
    COMPUTE_64F,
    DATA_TYPE,
    DEFAULT_ALGORITHM,
)

from .table import Lab

WORKSPACE = 32 << 20  # bytes, what cuBLAS recommends for Hopper
NO_TRANSPOSE = 0


def path() -> str:
    """The file of libcublas in this process; RuntimeError where none is loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    files = sorted({line.split(maxsplit=5)[5] for line in lines if "/libcublas.so" in line})
    if not files:
        raise RuntimeError("no libcublas.so is loaded in this process: CuPy brings it on a real device alone")
    return files[0]


class Handle:
    """A handle on `stream`, with a workspace of CuPy's memory."""

    def __init__(self, lab: Lab, stream: Any) -> None:
        self.library = ctypes.CDLL(path())
        size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
        self.library.cublasSetStream_v2.argtypes = [pointer, pointer]
        self.library.cublasSetWorkspace_v2.argtypes = [pointer, pointer, size]
        self.library.cublasDestroy_v2.argtypes = [pointer]
        matrix = [pointer, number, number]  # address, cudaDataType, leading dimension
        flags_and_sizes, tail = [number] * 5, [number, number]
        self.library.cublasGemmEx.argtypes = [
            pointer, *flags_and_sizes, pointer, *matrix, *matrix, pointer, *matrix, *tail,
        ]  # fmt: skip
        self.handle, self.stream = pointer(), stream
        self._call("cublasCreate_v2", ctypes.byref(self.handle))
        self.workspace = lab.cp.cuda.alloc(WORKSPACE)
        self._call("cublasSetStream_v2", self.handle, stream.ptr)
        self._call("cublasSetWorkspace_v2", self.handle, self.workspace.ptr, WORKSPACE)

    def gemm(self, a: Any, b: Any, out: Any, fast: bool = False) -> None:
        """out = a @ b for contiguous matrices, which cuBLAS sees transposed."""
        (m, k), n = a.shape, b.shape[1]
        wide = np.float64 if a.dtype == np.float64 else np.float32
        compute = COMPUTE_64F if wide is np.float64 else COMPUTE_32F_FAST_TF32 if fast else COMPUTE_32F
        one, zero = (np.array(value, wide) for value in (1, 0))
        kind = DATA_TYPE[a.dtype]
        self._call(
            "cublasGemmEx", self.handle, NO_TRANSPOSE, NO_TRANSPOSE, n, m, k, one.ctypes.data, b.data.ptr, kind, n,
            a.data.ptr, kind, k, zero.ctypes.data, out.data.ptr, kind, n, compute, DEFAULT_ALGORITHM,
        )  # fmt: skip

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self.library, function)(*arguments)
        if status:
            raise RuntimeError(f"{function} answers status {status}")

    def close(self) -> None:
        self._call("cublasDestroy_v2", self.handle)
