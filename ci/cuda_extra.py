"""Print the extra that brings the right CuPy, "cuda12" or "cuda13"; say why on stderr.

Used by the Makefile after the base install. Never fails: without a GPU it prints what `--without-gpu` names.
"""

import argparse
import sys
from importlib.util import find_spec

import pynvml


def cuda_extra(without_gpu):
    """Return (extra, what was found)."""
    if find_spec("cupy"):  # two CuPy wheels in one environment overwrite each other
        return "", "CuPy is already installed, so it is used as it is"
    instead = f"the extra [{without_gpu}] is installed" if without_gpu else "everything runs on the CPU"
    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetCudaDriverVersion()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return without_gpu, f"no NVIDIA driver answers ({error}), so {instead}"
    major, minor = version // 1000, version % 1000 // 10
    driver = f"the NVIDIA driver supports CUDA {major}.{minor}"
    if major < 12:
        return without_gpu, f"{driver}, but CuPy 14 needs 12.0 or newer, so {instead}"
    extra = "cuda12" if major == 12 else "cuda13"  # a newer driver runs what was built for an older CUDA
    return extra, f"{driver}, so the extra [{extra}] is installed"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-gpu", default="", metavar="EXTRA", help="what to print where no driver answers")
    extra, reason = cuda_extra(parser.parse_args().without_gpu)
    print(f"cuda_extra: {reason}", file=sys.stderr)
    print(extra)
