"""A report of the installation, and of missing or limited parts: `python -m autograd_gpu info`."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from .backend.cpu import blas
from .backend.cuda import runtime
from .backend.formulas.native import switch as native

PACKAGES = ("numpy", "scipy", "ml-dtypes", "nvidia-ml-py")
_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")  # in OpenBLAS' order
_CHILD = "from autograd_gpu.backend.cpu import blas; print(blas.kernels())"


def lines() -> Iterator[tuple[str, str]]:
    """The lines of the report as (subject, text); a continuation line has an empty subject."""
    yield "Python", f"{platform.python_version()}, {platform.platform()}"
    yield "packages", ", ".join([f"{name} {_version(name)}" for name in PACKAGES])
    yield "CPU", f"{cpu_model()}, {_counted(cores(), 'core')} for this process"
    yield from _blas()
    yield "native code", native.state()
    yield from _cuda()
    if importlib.util.find_spec("opt_einsum") is None:
        yield "optional", "opt_einsum, a faster search for einsum's order of products: `pip install opt_einsum`"


def cpu_model() -> str:
    """The processor's name from the operating system."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines()
             if line.startswith("model name")] if cpuinfo.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas() -> Iterator[tuple[str, str]]:
    kernels = blas.kernels()
    if kernels is None:
        show: Any = np.show_config  # NumPy 2.1's stubs have no `mode`
        library = show(mode="dicts")["Build Dependencies"]["blas"]
        yield "BLAS", f"{library['name']} {library['version']}, which says nothing about its kernels"
    else:
        threads = blas.limit_of("numpy").threads()
        yield "BLAS", f"OpenBLAS in NumPy, {kernels} kernels, {_counted(threads, 'thread')}"
        if (set_by := next((name for name in _THREADS if name in os.environ), None)) and threads < cores():
            idle = _counted(cores() - threads, "core")
            yield "", f"{set_by}={os.environ[set_by]} keeps products from the other {idle}"
        if better := _better_kernels(kernels):
            yield "", (f"products are HELD BACK: OPENBLAS_CORETYPE={os.environ['OPENBLAS_CORETYPE']} chooses {kernels} "
                       f"kernels, and this processor would get {better} ones: `unset OPENBLAS_CORETYPE`")
    if disabled := os.environ.get("NPY_DISABLE_CPU_FEATURES"):
        yield "", (f"NumPy's loops are HELD BACK: NPY_DISABLE_CPU_FEATURES={disabled!r} turns instructions off: "
                   "`unset NPY_DISABLE_CPU_FEATURES`")


def _better_kernels(kernels: str) -> str | None:
    """The kernels that OpenBLAS selects without OPENBLAS_CORETYPE; None if they are the ones in use."""
    if not os.environ.get("OPENBLAS_CORETYPE"):
        return None
    free = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    free["PYTHONPATH"] = os.pathsep.join(sys.path)
    child = subprocess.run([sys.executable, "-c", _CHILD], env=free, capture_output=True, text=True, check=True)
    return None if child.stdout.strip() == kernels else child.stdout.strip()


def _cuda() -> Iterator[tuple[str, str]]:
    try:
        count = runtime.count_devices()
    except (ImportError, RuntimeError) as error:
        yield "CUDA", f"none: {error}"
        return
    module = runtime.cupy()
    versions = [divmod(item() // 10, 100) for item in (module.cuda.runtime.driverGetVersion,
                                                         module.cuda.runtime.runtimeGetVersion)]
    driver, built = [f"{major}.{minor}" for major, minor in versions]
    yield "CUDA", f"CuPy {module.__version__}, CUDA {built}, on a driver for CUDA {driver}"
    for index in range(count):
        item = module.cuda.runtime.getDeviceProperties(index)
        yield "", (f"cuda:{index}: {item['name'].decode()}, {item['totalGlobalMem'] / 2**30:.1f} GiB, "
                   f"compute capability {item['major']}.{item['minor']}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return f"is missing (`pip install {package}`)"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
