"""Fixtures of the tests that look inside the stand-in."""

import gc
import os

import pytest
from cuda_emu.programs import KERNELS


@pytest.fixture(params=["late", "eager", "random:1", "random:2", "random:3"])
def schedule(request, cp):
    return request.param


@pytest.fixture
def cp(request):
    """CuPy's stand-in, in the test's schedule where it has one; nothing found may be left over."""
    import cupy
    from cupy import _emulation

    if "schedule" in request.fixturenames:
        _emulation.configure(schedule=request.node.callspec.params["schedule"])
    yield cupy
    cupy.cuda.Device().synchronize()
    gc.collect()
    _emulation.check()
    _emulation.configure(schedule=os.environ["AUTOGRAD_GPU_EMU_SCHEDULE"])


@pytest.fixture(scope="module")
def kernels():
    import cupy

    module = cupy.RawModule(code=KERNELS, options=("-std=c++17",))
    return {name: module.get_function(name) for name in ("scale", "scale_all", "put")}
