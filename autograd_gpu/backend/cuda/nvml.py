"""NVML behind a lazy door: the driver's version, and what a GPU is doing. It needs neither CuPy nor a CUDA context."""

from __future__ import annotations

import functools
import warnings
from typing import Any


def load() -> Any:
    """The pynvml module; ImportError that says how to install it."""
    with warnings.catch_warnings():
        # the older package `pynvml`, where something has brought it along, warns about itself and then works
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import pynvml as module
        except ImportError as error:
            raise ImportError(f"{error}; install it with `pip install nvidia-ml-py`") from error
    return module


@functools.cache
def nvml() -> Any:
    """The pynvml module, initialised; ImportError where it is not installed, its NVMLError where no driver answers."""
    module = load()
    module.nvmlInit()
    return module


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA, as (major, minor), that the NVIDIA driver supports; None where none answers."""
    try:
        module = load()
    except ImportError:
        return None
    try:
        version = nvml().nvmlSystemGetCudaDriverVersion()
    except module.NVMLError:
        return None
    return divmod(version // 10, 100)  # 13010 is CUDA 13.1
