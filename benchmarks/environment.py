"""What a result was measured on: device, CPU, versions, threads, date, commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from autograd_gpu.backend.cpu import blas
from autograd_gpu.info import cores, cpu_model

PACKAGES = ("autograd_gpu", "numpy", "torch", "jax", "jaxlib", "cupy-cuda12x", "cupy-cuda13x", "llvmlite")
# Variables that change how fast a product is: OPENBLAS_CORETYPE=Haswell halved it on an AVX-512 machine.
PREFIXES = ("OPENBLAS_", "OMP_", "MKL_", "XLA_")


def environment(device: str) -> dict[str, Any]:
    """Describe this machine and process; every value can be written as JSON."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(),
        "device": device_name(device),
        "cpu": cpu_model(),
        "cores": cores(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "threads": threads(),
    }


def place(environment: dict[str, Any], device: str) -> str:
    """Where something was measured: the device, and for a CPU its cores and the kernels of BLAS."""
    if device != "cpu":
        return str(environment["device"])
    return ", ".join([f"{environment['device']}, {environment['cores']} cores", *blas_kernels(environment)])


def blas_kernels(environment: dict[str, Any]) -> list[str]:
    """The kernels of each OpenBLAS that was loaded, such as ["OpenBLAS with SkylakeX kernels"]."""
    pools = [str(pool) for pool in environment["threads"].values()]  # such as "2, SkylakeX kernels"
    names = {pool.partition(", ")[2] for pool in pools if pool.endswith("kernels")}
    return [f"OpenBLAS with {name}" for name in sorted(names)]


def device_name(device: str) -> str:
    """The processor that does the work: the CPU's name, or the GPU's with driver and CUDA version."""
    if device == "cpu":
        return cpu_model()
    import cupy

    index = int(device.partition(":")[2] or cupy.cuda.Device().id)
    name = cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
    driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    return f"{name} (driver API {driver}, runtime {runtime})"


def versions() -> dict[str, str]:
    """Installed versions of what is compared; a package that is not installed has no entry."""
    by_name = {}
    for package in PACKAGES:
        try:
            by_name[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if "autograd_gpu" not in by_name:  # run from a checkout
        import autograd_gpu

        by_name["autograd_gpu"] = getattr(autograd_gpu, "__version__", "checkout")
    return by_name


def threads() -> dict[str, Any]:
    """Thread settings of the libraries that are loaded, and the kernels that BLAS chose for this CPU."""
    settings: dict[str, Any] = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    if (kernels := blas.kernels()) is not None:
        settings["numpy"] = f"{blas.limit_of('numpy').threads()}, {kernels} kernels"
    if "torch" in sys.modules:
        settings["torch"] = sys.modules["torch"].get_num_threads()
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return settings
    for pool in threadpool_info():
        kernels = f", {pool['architecture']} kernels" if "architecture" in pool else ""
        settings[Path(pool["filepath"]).name.split("-")[0]] = f"{pool['num_threads']}{kernels}"
    return settings


def git_commit() -> str | None:
    """The checkout's commit, with `+` if files differ from it; None outside a repository."""
    root = Path(__file__).resolve().parent.parent
    commands = (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    answers = []
    for command in commands:
        try:
            run = subprocess.run(
                ["git", "-C", str(root), *command], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        answers.append(run.stdout.strip())
    commit, changes = answers
    return commit + ("+" if changes else "")
