"""Compiles and launches right.cu and wrong.cu, for the tests."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from cuda_emu import build, toolchain

HERE = Path(__file__).parent
NAMES = {
    "right.cu": ("row_softmax<float>", "row_softmax<__half>"),
    "wrong.cu": ("written_by_block_0<float>",),
}
every_order = pytest.mark.parametrize("order", ["forward", "reverse", 7])


def missing():
    """Why the emulator cannot work here, if it cannot."""
    if shutil.which("g++") is None:
        return "needs g++"
    try:
        toolchain.include_folders()
    except build.EmulationError as error:
        return str(error)
    return ""


needs_emulator = pytest.mark.skipif(bool(missing()), reason=missing())


def kernels(file, check="none"):
    return build.compile((HERE / file).read_text(), name_expressions=NAMES[file], check=check).kernels


def run(kernel, grid, block, *values, **how):
    """Launch with arrays, tables of arrays (lists) and NumPy scalars; grid and block may be one number."""
    values = [np.array([a.ctypes.data for a in v]) if isinstance(v, list) else v for v in values]
    addresses = [np.uintp(v.ctypes.data) if isinstance(v, np.ndarray) else v for v in values]
    extents = [(n, 1, 1) if isinstance(n, int) else n for n in (grid, block)]
    kernel.launch(*extents, [v.tobytes() for v in addresses], **how)


def wrong(name, *launch, check="none", **how):
    run(kernels("wrong.cu", check)[name], *launch, **how)


def random(*shape):
    return np.random.standard_normal(shape).astype(np.float32)


def nans(*shape):
    return np.full(shape, np.nan, np.float32)
