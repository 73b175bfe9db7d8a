"""Lazy import of NVML, for the driver's version and the load of a GPU. Needs neither CuPy nor a CUDA context."""

from __future__ import annotations

import functools
import warnings
from typing import Any


def load() -> Any:
    """The pynvml module; ImportError with the install command if it is missing."""
    with warnings.catch_warnings():
        # the older package `pynvml` warns that it is deprecated, and works
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import pynvml as module
        except ImportError as error:
            raise ImportError(f"{error}; install it with `pip install nvidia-ml-py`") from error
    return module


@functools.cache
def nvml() -> Any:
    """The pynvml module, initialized; ImportError if it is not installed, its NVMLError if no driver is loaded."""
    module = load()
    module.nvmlInit()
    return module


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA version, (major, minor), that the NVIDIA driver supports; None without pynvml or a driver."""
    try:
        module = load()
    except ImportError:
        return None
    try:
        version = nvml().nvmlSystemGetCudaDriverVersion()
    except module.NVMLError:
        return None
    return divmod(version // 10, 100)  # 13010 is CUDA 13.1
