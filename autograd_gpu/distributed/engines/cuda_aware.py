"""MPI on device arrays: whether this MPI takes them, which is asked and then tried, and the engine for it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend.cuda import runtime
from .mpi import MPIEngine

_CUDA = 0  # MPIX_GPU_SUPPORT_CUDA


def says_so() -> bool:
    """Whether the loaded MPI says that it takes device memory: a wrong "yes" would be a crash."""
    process = ctypes.CDLL(None)
    if hasattr(process, "MPIX_GPU_query_support"):  # MPICH
        answer = ctypes.c_int(0)
        failed = process.MPIX_GPU_query_support(_CUDA, ctypes.byref(answer))
        return not failed and bool(answer.value)
    if hasattr(process, "MPIX_Query_cuda_support"):  # Open MPI
        return bool(process.MPIX_Query_cuda_support())
    return False


def is_cuda_aware(host: MPIEngine, device: int) -> bool:
    """Whether the MPI of all ranks of the group takes device arrays: it says so, and brings one to another rank."""
    comm, mpi = host.comm, host.mpi
    if not comm.allreduce(says_so(), mpi.LAND):
        return False
    module = runtime.require_device(device)
    with module.cuda.Device(device):
        sent, received = module.full(1 << 16, comm.Get_rank() + 1, np.int32), module.zeros(1 << 16, np.int32)
        module.cuda.get_current_stream().synchronize()
        before, after = (host.rank - 1) % host.size, (host.rank + 1) % host.size
        comm.Sendrecv([sent, mpi.INT32_T], after, 0, [received, mpi.INT32_T], before, 0)
        right = bool((received == before + 1).all())
    return bool(comm.allreduce(right, mpi.LAND))


class CUDAAwareEngine(MPIEngine):
    """The MPI engine on device arrays: what the current stream has queued is complete before MPI reads memory."""

    def _buffer(self, array: Any) -> list[Any]:
        runtime.cupy().cuda.get_current_stream().synchronize()
        return super()._buffer(array)

    def split(self, ranks: Sequence[int]) -> None:
        raise AssertionError("groups split their host engines")
