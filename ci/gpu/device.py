"""The stage device: what the GPU is, and which versions are installed: python -m ci.gpu.device FILE --seconds S."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from . import sanitizer

# By the names of distributions, since some take seconds to import.
PACKAGES = (
    "numpy", "scipy", "ml-dtypes", "cupy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-ml-py", "safetensors",
    "torch", "jax", "jaxlib", "pytest", "pytest-xdist", "pytest-timeout", "pytest-benchmark", "hypothesis",
    "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "nvidia-cublas", "nvidia-cublas-cu12",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """What can be said without a GPU."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "host_memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "compute-sanitizer": sanitizer.find(),
        "g++": shutil.which("g++"),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def gpu() -> dict[str, Any]:
    """What NVML says."""
    import pynvml as nv

    nv.nvmlInit()
    first = nv.nvmlDeviceGetHandleByIndex(0)

    def ask(question: Callable[..., Any], *args: Any) -> Any:
        try:
            return question(*args)
        except nv.NVMLError as error:  # a virtual machine may hide clocks: say so in place of the value
            return f"not available: {error}"

    cuda = nv.nvmlSystemGetCudaDriverVersion()
    clocks = {"sm": nv.NVML_CLOCK_SM, "memory": nv.NVML_CLOCK_MEM, "graphics": nv.NVML_CLOCK_GRAPHICS}
    return {
        "name": ask(nv.nvmlDeviceGetName, first),
        "devices": nv.nvmlDeviceGetCount(),
        "memory_bytes": nv.nvmlDeviceGetMemoryInfo(first).total,
        "driver": ask(nv.nvmlSystemGetDriverVersion),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "clock_mhz": {name: ask(nv.nvmlDeviceGetClockInfo, first, clock) for name, clock in clocks.items()},
        "max_clock_mhz": {name: ask(nv.nvmlDeviceGetMaxClockInfo, first, clock) for name, clock in clocks.items()},
        "power_limit_mw": ask(nv.nvmlDeviceGetPowerManagementLimit, first),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Writes what is known, the GPU's part last: asking for that may hang."""
    parser = argparse.ArgumentParser(prog="python -m ci.gpu.device", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, required=True, help="after so long it ends, whatever it waits for")
    args = parser.parse_args(argv)
    signal.setitimer(signal.ITIMER_REAL, args.seconds)  # ends the process, which no Python code has to allow
    facts = machine()
    _write(args.file, facts)
    _write(args.file, gpu() | facts)
    print(args.file.read_text())


def _write(path: Path, facts: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(facts, indent=2) + "\n")
    os.replace(part, path)


if __name__ == "__main__":
    main()
