"""The --device option, what "cuda" means on this machine, the `device` fixture, and a fixed seed for every test.

`--device cuda` is the GPU where an NVIDIA driver answers. Elsewhere it is the emulator of tests/support/cuda_emu: a
stand-in for CuPy, and our kernels compiled for the CPU. The report says which, and an emulated run is never a GPU
result.
"""

import gc
import importlib.util
import os
import re
import shutil
import sys
import tempfile

import gpu_session
import numpy as np
import pytest
import torch_version
from _pytest import runner
from checkout import STAND_IN

MACHINE_CODE = pytest.StashKey[tempfile.TemporaryDirectory]()
SCHEDULE = pytest.StashKey[str]()  # present in an emulated run: the order in which streams run


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where tensors live")
    parser.addoption("--schedule", default="late", help="how emulated streams run: late, eager, random:SEED")
    parser.addoption("--addresses", default="unique", help="of emulated memory: unique, or pool, as CuPy repeats them")
    gpu_session.add_options(parser)


def pytest_configure(config):
    gpu_session.register(config)
    if hasattr(config, "workerinput") and not config.getoption("outcomes"):
        config.pluginmanager.register(FewReports())
    config.stash[MACHINE_CODE] = tempfile.TemporaryDirectory()  # not the user's folder
    os.environ["AUTOGRAD_GPU_CACHE_DIR"] = config.stash[MACHINE_CODE].name
    if config.getoption("device") == "cpu":
        return
    if _gpu_answers():
        if importlib.util.find_spec("cupy") is None:
            raise pytest.UsageError("a GPU answers, but CuPy is not installed: pip install -e '.[cuda13]' (or cuda12)")
    else:
        _emulate(config)
    import autograd_gpu as ag

    ag.set_default_device("cuda")
    if SCHEDULE in config.stash:
        import emulated

        from autograd_gpu.compilation import watching

        emulated.share_objects()
        watching.LIBRARIES.add("cuda_emu")  # its code is none of the user's, as CuPy's is not


def pytest_unconfigure(config):
    config.stash[MACHINE_CODE].cleanup()


class StreamsEnd:
    """Waits for emulated streams that a test has dropped: until then every wait of a later test goes through all."""

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item):
        import cupy._queue

        for device in cupy._queue.DEVICES:
            if device.retired:
                device.synchronize()


class FewReports:
    """In a worker of pytest-xdist: of a test that passes only the call is reported.

    What a worker tells of setups and teardowns takes as long as running a small test, and there are 80,000.
    """

    def pytest_runtest_protocol(self, item, nextitem):
        for report in runner.runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def _gpu_answers():
    import pynvml

    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetCount() > 0
    except pynvml.NVMLError:
        return False


def _emulate(config):
    if shutil.which("g++") is None:
        raise pytest.UsageError("--device cuda without a GPU compiles the kernels for the CPU and needs g++")
    assert "cupy" not in sys.modules, "CuPy was imported before the stand-in could take its place"
    sys.path.insert(0, str(STAND_IN))
    os.environ["AUTOGRAD_GPU_EMU_SCHEDULE"] = config.getoption("schedule")
    os.environ["AUTOGRAD_GPU_EMU_ADDRESSES"] = config.getoption("addresses")
    config.stash[SCHEDULE] = config.getoption("schedule")
    config.pluginmanager.register(StreamsEnd())


def pytest_report_header(config):
    lines, version = [_device_header(config)], torch_version.installed()
    if version is not None and version < torch_version.HOLDS_FOR:
        lines.append(f"PyTorch {version[0]}.{version[1]}: what holds for newer ones only is skipped (torch_version.py)")
    return lines


def _device_header(config):
    if config.getoption("device") == "cpu":
        return "device: cpu"
    if SCHEDULE in config.stash:
        settings = f"streams run {config.stash[SCHEDULE]}, addresses are {config.getoption('addresses')}"
        return f"device: cuda (emulated), no NVIDIA driver answers; {settings}"
    import cupy

    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return f"device: cuda ({gpu['name'].decode()})"


def reasons_to_skip(config):
    """By mark: why this device cannot run a test, or has no need to."""
    emulated, on_cpu = SCHEDULE in config.stash, config.getoption("device") == "cpu"
    reasons = {}
    if emulated or on_cpu:
        reasons["gpu"] = "needs a real CUDA device: run with --device cuda where there is one"
    if emulated:
        reasons["same_on_cpu"] = "runs the Python code of the CPU: run with --device cpu, or where there is a GPU"
    else:
        reasons["emulated"] = "looks inside the emulator: run with --device cuda where there is no GPU"
    if on_cpu:
        reasons["cuda"] = "needs CUDA: run with --device cuda, which is emulated where there is no GPU"
    else:
        reasons["cpu"] = "has nothing to do with a device: run with --device cpu"
    return reasons


def pytest_ignore_collect(collection_path, config):
    """A file whose own mark says that this run has none of it is not even imported, unless it is asked for.

    Importing them is a quarter of the time that collecting takes, and on a GPU the emulator is not there to import.
    """
    if collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        text, expression = collection_path.read_text(encoding="utf-8"), config.option.markexpr
        line = re.search(r"^pytestmark = .*", text, re.MULTILINE)
        marks = re.findall(r"\bpytest\.mark\.(\w+)", line[0]) if line else []
        left_out = {"more"} if expression.startswith("not more") else set()
        if (reasons_to_skip(config).keys() | left_out) & set(marks):
            return True
        sought = re.search(r"(?:^|\bnot more and )(more|smoke)$", expression)
        return True if sought and not _may_have(sought[1], text, collection_path) else None
    return None


def _may_have(mark, text, path):
    """Whether a file has tests of this mark: it names the mark, or what gives it (selection.py, a conftest.py)."""
    given = mark == "more" and ("selection import" in text or (path.parent / "conftest.py").exists())
    return given or re.search(rf"\bmark\.{mark}\b", text) is not None


def pytest_collection_modifyitems(config, items):
    """Skips what this device cannot run; an emulated run leaves out what never touches a device.

    In a run that has others these are deselected, since reporting ten thousand skips takes time. Tests that may take
    longer than others come first.
    """
    reasons, torch, kept, dropped = reasons_to_skip(config), torch_version.installed(), [], []
    for item in items:
        older = torch_version.reason_to_skip(item.nodeid, torch)
        if older:
            item.add_marker(pytest.mark.skip(reason=older))
        results = [reason for name, reason in reasons.items() if item.get_closest_marker(name)]
        for reason in results:
            item.add_marker(pytest.mark.skip(reason=reason))
        (dropped if results else kept).append(item)
    if kept:
        config.hook.pytest_deselected(items=dropped)
        items[:] = sorted(kept, key=_is_short)  # no worker ends with the long ones


def _is_short(item):
    """Whether a test is not allowed more time than others."""
    mark = item.get_closest_marker("timeout")
    return mark is None or mark.args[0] <= float(item.config.getini("timeout"))


def pytest_collection_finish():
    """What collecting has made stays: no collection of garbage needs to look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def device(request):
    """The device of this run, "cpu" or "cuda"; also the default device, so that `ag.ones(2)` lives there."""
    return request.config.getoption("device")


@pytest.fixture(scope="module", autouse=True)
def _settled():
    """What earlier modules have left stays: tests that collect garbage, or fork, would pay for all of it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seed():
    """Seed NumPy's global generator, so that a test sees the same numbers alone and in the whole suite."""
    np.random.seed(0)


@pytest.fixture
def launches(request):
    """`with launches() as found:` counts what CuPy and we launch; for tests marked `emulated`."""
    assert request.node.get_closest_marker("emulated"), "mark it: a GPU does not count, and would run this test"
    from cupy._emulation import counted

    return counted


@pytest.fixture
def cp():
    """CuPy, or its stand-in."""
    from autograd_gpu.backend.cuda import runtime

    return runtime.cupy()


@pytest.fixture(params=["late", "eager", "random:1"])
def schedule(request, cp):
    """Emulated streams run in each order, and nothing may be wrong at the end. A GPU has an order of its own."""
    if SCHEDULE not in request.config.stash:
        if request.param != "late":
            pytest.skip("the order in which a GPU's streams run cannot be chosen")
        yield
        return
    from cupy import _emulation

    _emulation.configure(schedule=request.param)
    yield _emulation
    gc.collect()
    _emulation.check()
    _emulation.configure(schedule=request.config.getoption("schedule"))


@pytest.fixture
def own_slabs(cp, monkeypatch):
    """Slabs of page-locked memory that no other test has used."""
    from autograd_gpu.backend import keyed_singleton
    from autograd_gpu.backend.transfer import pinned_memory

    with monkeypatch.context() as patch:
        patch.setattr(pinned_memory, "_slabs", keyed_singleton.KeyedSingleton(pinned_memory.growing))
        yield
        gc.collect()
        cp.cuda.Device().synchronize()


@pytest.fixture
def no_gc():
    """Nothing is freed but by reference counts."""
    gc.disable()
    yield
    gc.enable()
