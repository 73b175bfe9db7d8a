"""Errors for a CUDA that does not work: what is missing (CuPy, driver, device) and what to do next."""

from __future__ import annotations

import os
from typing import Any

from . import nvml

INITIALIZATION_ERROR, INSUFFICIENT_DRIVER, NO_DEVICE = 3, 35, 100  # statuses of the CUDA runtime


def no_cupy(error: ImportError) -> ImportError:
    """The error to raise after `import cupy` failed with `error`."""
    return ImportError(f"device 'cuda' needs CuPy, which {_how_to_install(error)}")


def no_device(runtime: Any, error: Any = None) -> RuntimeError:
    """The error to raise after getDeviceCount of CuPy's `runtime` failed with `error`, or returned 0."""
    return RuntimeError(f"CUDA is not available: {_what_to_do(runtime, error)}")


def is_fork_error(error: BaseException) -> bool:
    """Whether CUDA refuses to work because this process was forked after its parent had used CUDA."""
    kind = type(error).__name__
    return kind in ("CUDARuntimeError", "CUDADriverError") and getattr(error, "status", 0) == INITIALIZATION_ERROR


def _how_to_install(error: ImportError) -> str:
    if not (isinstance(error, ModuleNotFoundError) and error.name == "cupy"):
        cause = str(error).strip().partition("\n")[0]
        return f"is installed but cannot be imported ({cause}); `python -c 'import cupy'` says more"
    driver = nvml.driver_cuda()
    if driver is None:
        return (
            "is not installed, and no NVIDIA driver answers either: install the driver, then CuPy with "
            "`pip install 'cupy-cuda13x[ctk]'` (cupy-cuda12x for a driver older than CUDA 13)"
        )
    supported = f"the NVIDIA driver here supports CUDA {_text(driver)}"
    if driver < (12, 0):
        return f"is not installed and needs CUDA 12 or newer, but {supported}: update the driver first"
    return f"is not installed; {supported}: `pip install '{_wheel(min(driver[0], 13))}[ctk]'`"


def _what_to_do(runtime: Any, error: Any) -> str:
    status = NO_DEVICE if error is None else error.status
    if status == NO_DEVICE:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return "the NVIDIA driver answers but finds no GPU; `nvidia-smi -L` must list one"
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU; unset it, or name one that `nvidia-smi -L` lists"
    if status == INITIALIZATION_ERROR:
        return f"{error}; a process forked after CUDA was used cannot use it: start it by the method 'spawn'"
    if status != INSUFFICIENT_DRIVER:
        return f"{error}; see `nvidia-smi`"
    driver, built = (divmod(v // 10, 100) for v in (runtime.driverGetVersion(), runtime.runtimeGetVersion()))  # 13010
    if driver == (0, 0):
        return (
            "CuPy is installed, but no NVIDIA driver is loaded; install one (https://www.nvidia.com/drivers), or start "
            "the container with `--gpus all`, until `nvidia-smi` lists the GPU"
        )
    old = f"the NVIDIA driver supports CUDA {_text(driver)}, but CuPy is built for CUDA {_text(built)}"
    if driver < (12, 0):
        return f"{old}; update the driver"
    swap = f"`pip uninstall {_wheel(built[0])}` and `pip install '{_wheel(driver[0])}[ctk]'`"
    return f"{old}; update the driver, or change CuPy: {swap}"


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _wheel(major: int) -> str:
    return f"cupy-cuda{major}x"
