"""CuPy behind a lazy door: nothing here imports it before a CUDA array is asked for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

INSTALL = "install CuPy with `pip install 'cupy-cuda13x[ctk]'` (or cupy-cuda12x, by the driver's CUDA version)"


def cupy() -> Any:
    """The cupy module; ImportError that says how to install it."""
    try:
        import cupy as module
    except ImportError as error:
        raise ImportError(f"device 'cuda' needs CuPy, which cannot be imported ({error}); {INSTALL}") from error
    return module


def loaded() -> Any | None:
    """The cupy module if somebody has imported it already, else None."""
    return sys.modules.get("cupy")


def is_available() -> bool:
    """Whether CuPy is installed and a device answers."""
    try:
        return bool(cupy().cuda.is_available())
    except ImportError:
        return False


def require_device(index: int) -> Any:
    """The cupy module, after checking that device `index` exists."""
    module = cupy()
    try:
        count = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f"device 'cuda:{index}' is not available: {error}; check with nvidia-smi") from error
    if index >= count:
        raise RuntimeError(f"device 'cuda:{index}' does not exist: {count} CUDA device(s) found")
    return module


def from_host(array: np.ndarray, index: int) -> Any:
    """A copy of a NumPy array on device `index`."""
    module = require_device(index)
    with module.cuda.Device(index):
        return module.asarray(array)


def to_host(array: Any) -> np.ndarray:
    return array.get()


def to_device(array: Any, index: int) -> Any:
    """`array` on device `index`, itself if it is there already."""
    module = require_device(index)
    if array.device.id == index:
        return array
    with module.cuda.Device(index):
        return module.asarray(array)


def special() -> Any:
    import cupyx.scipy.special

    return cupyx.scipy.special


def scipy_linalg() -> Any:
    import cupyx.scipy.linalg

    return cupyx.scipy.linalg


def raising_linalg_errors() -> Any:
    """A context in which cupy.linalg looks at cuSOLVER's answer, which waits for the device, and raises LinAlgError."""
    import cupyx

    return cupyx.errstate(linalg="raise")


def cublas() -> Any:
    """CuPy's low-level cuBLAS bindings."""
    from cupy_backends.cuda.libs import cublas as bindings

    return bindings


def cublas_handle() -> int:
    """The cuBLAS handle of this device and thread; CuPy's calls set it to the current stream themselves."""
    return int(cupy().cuda.device.get_cublas_handle())
