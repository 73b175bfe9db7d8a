"""Lazy import of CuPy: nothing here imports it before the first use of CUDA."""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import counters
from ..arrays.device import Device
from ..cpu import pool
from . import diagnostics


@functools.cache
def cupy() -> Any:
    """The cupy module; ImportError with the install command if it is missing."""
    try:
        return _import()
    except ImportError as error:
        raise diagnostics.no_cupy(error) from error


def _import() -> Any:
    import cupy as module

    return module


class _Current:
    """CuPy's functions for this thread's current device and stream, looked up once: every operation calls them."""

    device: Callable[[], int]  # the index of the current device
    stream: Callable[..., Any]  # the current stream of the current device, or of a device given by its index

    def __getattr__(self, name: str) -> Any:
        if name not in ("device", "stream"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        module = cupy().cuda
        self.device, self.stream = module.runtime.getDevice, module.get_current_stream
        return getattr(self, name)


current = _Current()


def loaded() -> Any | None:
    """The cupy module if it is imported already, else None."""
    module = sys.modules.get("cupy")
    return module if hasattr(module, "ndarray") else None  # another thread may be in the middle of the import


def is_available() -> bool:
    """Whether CuPy is installed and finds a CUDA device; never raises.

    >>> device = "cuda" if ag.cuda.is_available() else "cpu"
    """
    try:
        return bool(_import().cuda.is_available())
    except ImportError:
        return False


def count_devices() -> int:
    """The number of CUDA devices, at least 1. ImportError or RuntimeError that says what is missing and what to do."""
    runtime = cupy().cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        raise diagnostics.no_device(runtime, error) from error
    if count == 0:
        raise diagnostics.no_device(runtime)
    return count


def require_device(index: int) -> Any:
    """The cupy module, after checking that device `index` exists."""
    count = count_devices()
    if not 0 <= index < count:
        raise RuntimeError(f"device 'cuda:{index}' does not exist: CUDA shows {count} device(s), numbered from 0")
    return cupy()


@functools.cache
def multiprocessors(index: int) -> int:
    """The number of streaming multiprocessors of device `index`."""
    runtime = cupy().cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, index))


def from_host(array: np.ndarray, index: int) -> Any:
    """A copy of a NumPy array on device `index`."""
    module = require_device(index)
    if counters.ACTIVE:
        counters.copied("host to device", array.nbytes)
    with module.cuda.Device(index):
        if array.ndim == 0:  # asarray loses the sign of -0.0 (exact.py)
            return module.full((), array[()], array.dtype)
        return module.asarray(array)


def to_host(array: Any) -> np.ndarray:
    """A copy of a CuPy array in host memory; a large one in memory of the pool, which no page fault interrupts."""
    if counters.ACTIVE:
        counters.copied("device to host", array.nbytes)
    if array.nbytes < pool.SMALLEST:
        return array.get()
    return array.get(out=pool.empty(array.shape, array.dtype))


def to_device(array: Any, index: int) -> Any:
    """A CuPy array on device `index`: the same array if it is there already, else a copy.

    The copy runs on the current stream of the target device, after the work queued so far on the current stream of the
    source device, which waits for it: CUDA orders copies between devices by itself on null streams only.
    """
    module = require_device(index)
    source = array.device
    if source.id == index:
        return array
    if counters.ACTIVE:
        counters.copied("device to device", array.nbytes)
    with source:
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            array = module.ascontiguousarray(array)
        before = module.cuda.get_current_stream()
        ready = before.record()
    with module.cuda.Device(index):
        stream = module.cuda.get_current_stream()
        stream.wait_event(ready)
        copy = module.asarray(array)
        done = stream.record()
    with source:
        before.wait_event(done)  # before the source's memory is reused
    return copy


# Whether a CuPy array is C-contiguous; array.flags.c_contiguous takes 30 times as long, 1 us.
c_contiguous = operator.attrgetter("_c_contiguous")


def special() -> Any:
    import cupyx.scipy.special

    return cupyx.scipy.special


def scipy_linalg() -> Any:
    import cupyx.scipy.linalg

    return cupyx.scipy.linalg


def cupyx() -> Any:
    import cupyx as module

    return module


def nccl() -> Any:
    """CuPy's bindings of NCCL; ImportError that says what to install if the library is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of CuPy, which says the same
        from cupy.cuda import nccl as module
    if not module.available:
        raise ImportError("CuPy finds no NCCL: pip install 'autograd-gpu[nccl]'")
    return module


def raising_linalg_errors() -> Any:
    """A context in which cupy.linalg checks cuSOLVER's info, which synchronizes, and raises LinAlgError."""
    return cupyx().errstate(linalg="raise")


def cublas_library() -> Any:
    """The cuBLAS library that CuPy calls, for ctypes; the import loads it.

    A function that is not in the extension module of CuPy's bindings is looked up in the libraries behind it.
    """
    from cupy_backends.cuda.libs import cublas as bindings

    return ctypes.CDLL(bindings.__file__)


def device_index(device: Any = None) -> int:
    """The index of an existing CUDA device; None, "cuda" and negative numbers mean the current device.

    `device` is a number, a name, a Device or a cupy.cuda.Device. ValueError for the CPU, TypeError for any other type,
    RuntimeError if the device does not exist.
    """
    module = require_device(0)
    if isinstance(device, Device | str) and device != "cuda":
        named = Device(device)
        if named.type != "cuda":
            raise ValueError(f"expected a CUDA device, but got {str(named)!r}")
        device = named.index
    elif isinstance(device, module.cuda.Device):
        device = device.id
    if device is None or device == "cuda" or (isinstance(device, int) and device < 0):
        return int(module.cuda.runtime.getDevice())
    if not isinstance(device, int):
        raise TypeError(f"expected a CUDA device as a number, a name or a Device, but got {device!r}")
    require_device(device)
    return device


def cupy_device(device: Any = None) -> Any:
    """`device`, in any form that `device_index` takes, as a cupy.cuda.Device, which is a context manager."""
    index = device_index(device)
    return cupy().cuda.Device(index)
