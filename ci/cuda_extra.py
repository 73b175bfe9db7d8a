"""Print the extra that brings the right CuPy, "cuda12" or "cuda13", or nothing; say why on stderr.

Used by the Makefile after the base install. Never fails: a machine without a GPU runs on the CPU.
"""

import sys
from importlib.util import find_spec

import pynvml


def cuda_extra():
    """Return (extra, what was found)."""
    if find_spec("cupy"):  # two CuPy wheels in one environment overwrite each other
        return "", "CuPy is already installed, so it is used as it is"
    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetCudaDriverVersion()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return "", f"no NVIDIA driver answers ({error}), so everything runs on the CPU"
    major, minor = version // 1000, version % 1000 // 10
    found = f"the NVIDIA driver supports CUDA {major}.{minor}"
    if major < 12:
        return "", f"{found}, but CuPy 14 needs 12.0 or newer, so everything runs on the CPU"
    extra = "cuda12" if major == 12 else "cuda13"  # a newer driver runs what was built for an older CUDA
    return extra, f"{found}, so the extra [{extra}] is installed"


if __name__ == "__main__":
    extra, found = cuda_extra()
    print(f"cuda_extra: {found}", file=sys.stderr)
    print(extra)
