"""What ag.cuda answers, and the errors it raises, without CuPy, a driver or a device."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkout import ROOT, SUPPORT

import autograd_gpu as ag
from autograd_gpu.backend.cuda import diagnostics, nvml
from autograd_gpu.backend.cuda import runtime as cuda

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _no_module_of_another_test():
    cuda.cupy.cache_clear()
    yield
    cuda.cupy.cache_clear()



def test_a_cupy_that_another_thread_is_importing_is_not_there_yet(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    assert float(ag.tensor(2.0).sum()) == 2.0
    assert ag.ones(2).is_cuda is False


# every function that cannot answer without a device
ASKS = {
    "ones": lambda: ag.ones(2, device="cuda"),
    "to": lambda: ag.ones(2).to("cuda"),
    "Stream": lambda: ag.cuda.Stream(),
    "ExternalStream": lambda: ag.cuda.ExternalStream(1),
    "Event": lambda: ag.cuda.Event(),
    "current_stream": lambda: ag.cuda.current_stream(),
    "default_stream": lambda: ag.cuda.default_stream(),
    "current_device": lambda: ag.cuda.current_device(),
    "set_device": lambda: ag.cuda.set_device(0),
    "device": lambda: ag.cuda.device(0).__enter__(),
    "synchronize": lambda: ag.cuda.synchronize(),
    "get_device_name": lambda: ag.cuda.get_device_name(),
    "get_device_capability": lambda: ag.cuda.get_device_capability(),
    "get_device_properties": lambda: ag.cuda.get_device_properties(),
    "mem_get_info": lambda: ag.cuda.mem_get_info(),
    "memory_summary": lambda: ag.cuda.memory_summary(),
    "set_per_process_memory_fraction": lambda: ag.cuda.set_per_process_memory_fraction(0.5),
    "get_per_process_memory_fraction": lambda: ag.cuda.get_per_process_memory_fraction(),
    "utilization": lambda: ag.cuda.utilization(),
    "memory_usage": lambda: ag.cuda.memory_usage(),
    "temperature": lambda: ag.cuda.temperature(),
    "power_draw": lambda: ag.cuda.power_draw(),
    "clock_rate": lambda: ag.cuda.clock_rate(),
}
COUNTS = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "device_count")


def errors():
    """{what was asked: (name of the exception, its text)}."""
    seen = {}
    for name, ask in ASKS.items():
        with pytest.raises((ImportError, RuntimeError)) as raised:
            ask()
        seen[name] = raised.type.__name__, str(raised.value)
    return seen


def check_what_answers():
    """What gives an answer without a device does so, without a warning or an error."""
    assert not ag.cuda.is_available()
    assert [getattr(ag.cuda, name)() for name in COUNTS] == [0] * len(COUNTS)
    assert set(ag.cuda.memory_stats().values()) == {0}
    ag.cuda.reset_peak_memory_stats()
    ag.cuda.empty_cache()
    ag.cuda.manual_seed(0)
    ag.cuda.manual_seed_all(0)
    with ag.cuda.device(None), ag.cuda.device(-1), ag.cuda.stream(None):
        ag.cuda.set_stream(None)
    assert issubclass(ag.cuda.OutOfMemoryError, MemoryError)


def in_new_process(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


def fake_cupy(status, driver=13010, count=0):
    """A CuPy that finds no device; `status` is what its runtime says to that."""

    def get_device_count():
        if status:
            raise CUDARuntimeError(status)
        return count

    runtime = SimpleNamespace(getDeviceCount=get_device_count, driverGetVersion=lambda: driver,
                              runtimeGetVersion=lambda: 13020, CUDARuntimeError=CUDARuntimeError)  # fmt: skip
    cuda = SimpleNamespace(runtime=runtime, is_available=lambda: False,
                           memory=SimpleNamespace(OutOfMemoryError=MemoryError))  # fmt: skip
    return SimpleNamespace(cuda=cuda, ndarray=type("ndarray", (), {}))


@pytest.mark.parametrize(
    ("cupy", "visible", "words"),
    [
        (fake_cupy(35, driver=0), None, ["no NVIDIA driver is loaded", "--gpus all", "nvidia-smi"]),
        (fake_cupy(35, driver=12040), None, [
            "driver supports CUDA 12.4, but CuPy is built for CUDA 13.2", "update the driver",
            "`pip uninstall cupy-cuda13x` and `pip install 'cupy-cuda12x[ctk]'`",
        ]),
        (fake_cupy(35, driver=11080), None, ["CUDA 11.8, but", "update the driver"]),
        (fake_cupy(100), "", ["CUDA_VISIBLE_DEVICES='' hides every GPU", "unset it", "nvidia-smi -L"]),
        (fake_cupy(100), None, ["finds no GPU", "nvidia-smi -L"]),
        (fake_cupy(0), None, ["finds no GPU", "nvidia-smi -L"]),
        (fake_cupy(3), None, ["status 3", "forked", "'spawn'"]),
        (fake_cupy(999), None, ["status 999", "nvidia-smi"]),
    ],
)  # fmt: skip
def test_errors_with_cupy_and_without_a_device(monkeypatch, cupy, visible, words):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    check_what_answers()
    for name, (kind, text) in errors().items():
        assert kind == "RuntimeError", name
        assert text.startswith("CUDA is not available: "), name
        assert all(word in text for word in words), (name, text)


WITHOUT_CUPY = f"""
import json, sys
sys.path[:0] = {[str(Path(__file__).parent), str(SUPPORT)]}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "cupy":
            raise ModuleNotFoundError("No module named 'cupy'", name="cupy")

sys.meta_path.insert(0, Blocked())
import test_missing_device as tests
tests.check_what_answers()
print(json.dumps([tests.errors(), "cupy" in sys.modules]))
"""


def test_errors_without_cupy():
    result, imported = in_new_process(WITHOUT_CUPY)
    assert not imported
    assert {kind for kind, _ in result.values()} == {"ImportError"}
    for name, (_, text) in result.items():
        assert "needs CuPy, which is not installed" in text, name
        assert "pip install 'cupy-cuda1" in text, name


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (None, "no NVIDIA driver answers either: install the driver, then CuPy with `pip install 'cupy-cuda13x[ctk]'`"),
        ((11, 8), "CUDA 12 or newer, but the NVIDIA driver here supports CUDA 11.8: update the driver first"),
        ((12, 9), "supports CUDA 12.9: `pip install 'cupy-cuda12x[ctk]'`"),
        ((13, 1), "supports CUDA 13.1: `pip install 'cupy-cuda13x[ctk]'`"),
        ((14, 0), "supports CUDA 14.0: `pip install 'cupy-cuda13x[ctk]'`"),
    ],
)
def test_the_wheel_that_is_named_fits_the_driver(monkeypatch, driver, words):
    monkeypatch.setattr(nvml, "driver_cuda", lambda: driver)
    text = str(diagnostics.no_cupy(ModuleNotFoundError("No module named 'cupy'", name="cupy")))
    assert words in text


def test_a_broken_cupy_is_not_called_missing():
    text = str(diagnostics.no_cupy(ImportError("libfoo.so: cannot open\nmore")))
    assert "is installed but cannot be imported (libfoo.so: cannot open)" in text
    assert "not installed" not in text


def test_errors_of_what_is_installed_here():
    if ag.cuda.is_available():
        pytest.skip("a CUDA device is present")
    check_what_answers()
    for name, (_, text) in errors().items():
        assert "needs CuPy, which" in text or text.startswith("CUDA is not available: "), (name, text)


def test_import_leaves_cupy_and_nvml_alone():
    code = (
        "import json, sys, autograd_gpu as ag\n"
        "ag.cuda.memory_allocated(), ag.cuda.memory_stats(), ag.cuda.empty_cache()\n"
        "print(json.dumps([name in sys.modules for name in ('cupy', 'pynvml')]))"
    )
    assert in_new_process(code) == [False, False]
