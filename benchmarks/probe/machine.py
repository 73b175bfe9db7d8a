"""What the checks run on."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from autograd_gpu.backend.cuda import cublas

from ..environment import device_name
from .table import Found, Lab, check


@check("device")
def device(lab: Lab) -> Found:
    """The device, CuPy's version, and the files of libcublas that it has loaded."""
    if lab.emulated:
        device = "none: the stand-in of tests/support/cuda_emu"
        return {"ok": True, "device": device, "numpy": metadata.version("numpy")}
    cp = lab.cp
    cublas.gemm(cp.ones((8, 8), "float32"), cp.ones((8, 8), "float32"))
    runtime = cp.cuda.runtime
    return {
        "ok": True, "device": device_name("cuda"), "capability": cp.cuda.Device().compute_capability,
        "multiprocessors": runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, 0),
        "memory": runtime.memGetInfo(), "cupy": cp.__version__, "numpy": metadata.version("numpy"),
        "libcublas": libraries("libcublas"), "cublas": cp.cuda.cublas.getVersion(cp.cuda.device.get_cublas_handle()),
    }  # fmt: skip


def libraries(name: str) -> list[str]:
    """The files of this process whose names begin with `name`."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if f"/{name}" in line})
