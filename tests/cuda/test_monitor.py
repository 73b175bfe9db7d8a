"""NVML: the driver's version, and what a GPU is doing; by a fake pynvml where none answers."""

import dataclasses
import sys
from types import ModuleType, SimpleNamespace

import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cuda import nvml, runtime
from autograd_gpu.cuda import monitor


class NVMLError(Exception):
    pass


def fake_nvml(version=13010, known=(), broken=False):
    """A pynvml whose handles are what they were asked by; `known` are the UUIDs that it has."""
    module = ModuleType("pynvml")
    module.NVMLError = NVMLError

    def refuse(*_):
        raise NVMLError("Not Supported")

    def by_uuid(uuid):
        return uuid if uuid in known else refuse()

    rates = SimpleNamespace(gpu=37, memory=12)
    module.asked = []
    module.nvmlInit = refuse if broken else lambda: None
    module.nvmlSystemGetCudaDriverVersion = lambda: version
    module.nvmlDeviceGetHandleByUUID = by_uuid
    module.nvmlDeviceGetHandleByPciBusId = lambda address: address
    module.nvmlDeviceGetUtilizationRates = lambda handle: module.asked.append(handle) or rates
    module.nvmlDeviceGetTemperature = lambda handle, sensor: 41 + sensor
    module.nvmlDeviceGetPowerUsage = lambda handle: 71000
    module.nvmlDeviceGetClockInfo = lambda handle, clock: {1: 1980}[clock]
    return module


@pytest.fixture
def use_nvml(monkeypatch):
    """A function that puts a fake pynvml in place for the test."""

    def use(module):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        nvml.nvml.cache_clear()
        return module

    yield use
    nvml.nvml.cache_clear()


def test_the_driver_is_asked_for_its_cuda(use_nvml):
    use_nvml(fake_nvml(version=12040))
    assert nvml.driver_cuda() == (12, 4)
    use_nvml(fake_nvml(broken=True))
    assert nvml.driver_cuda() is None
    use_nvml(None)  # as if it were not installed
    assert nvml.driver_cuda() is None
    with pytest.raises(ImportError, match="pip install nvidia-ml-py"):
        nvml.nvml()


@pytest.mark.cuda
@pytest.mark.parametrize("kind", ["GPU", "MIG", None])
def test_monitor_asks_nvml_about_the_same_gpu(monkeypatch, use_nvml, kind):
    uuid = "01020304-0506-0708-090a-0b0c0d0e0f10"
    properties = dataclasses.replace(ag.cuda.get_device_properties(), uuid=kind and uuid)
    monkeypatch.setattr(monitor, "get_device_properties", lambda index: properties)
    module = use_nvml(fake_nvml(known={f"{kind}-{uuid}"}))
    assert (ag.cuda.utilization(), ag.cuda.memory_usage("cuda:0")) == (37, 12)
    assert module.asked == [f"{kind}-{uuid}" if kind else runtime.cupy_device(0).pci_bus_id] * 2
    assert (ag.cuda.temperature(), ag.cuda.power_draw(), ag.cuda.clock_rate()) == (41, 71000, 1980)


@pytest.mark.cuda
def test_monitor_passes_on_why_not(use_nvml):
    use_nvml(fake_nvml(broken=True))
    with pytest.raises(RuntimeError, match=r"NVML does not report the power draw of cuda:0: Not Supported"):
        ag.cuda.power_draw()


@pytest.mark.gpu
def test_monitor():
    assert 0 <= ag.cuda.utilization() <= 100
    assert 0 <= ag.cuda.memory_usage() <= 100
    assert 0 < ag.cuda.clock_rate() < 10_000
