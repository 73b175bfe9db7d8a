"""The load of a GPU from all processes, by NVML as in `nvidia-smi`."""

from __future__ import annotations

from typing import Any

from ..backend.cuda import runtime
from ..backend.cuda.nvml import load, nvml
from .devices import get_device_properties


def _handle(module: Any, index: int) -> Any:
    """NVML's handle of CUDA device `index`, by UUID or PCI address: indices differ under CUDA_VISIBLE_DEVICES.

    MIG instances share the PCI address of their GPU, so the UUID is used first if it is known.
    """
    uuid = get_device_properties(index).uuid
    for kind in ("GPU", "MIG") if uuid else ():
        try:
            return module.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}")
        except module.NVMLError:
            continue
    return module.nvmlDeviceGetHandleByPciBusId(runtime.cupy().cuda.Device(index).pci_bus_id)


def _ask(what: str, device: Any, query: str, *args: int) -> Any:
    """The result of an NVML query about `device`; RuntimeError with NVML's reason if it fails."""
    index = runtime.device_index(device)
    module = load()
    try:
        return getattr(nvml(), query)(_handle(module, index), *args)
    except module.NVMLError as error:
        raise RuntimeError(
            f"NVML does not report the {what} of cuda:{index}: {error}; see whether `nvidia-smi -q` does"
        ) from error


def utilization(device: Any = None) -> int:
    """The percentage of the last sample period (1/6 to 1 s) in which a kernel was running on `device`.

    RuntimeError if NVML does not report it, for instance on a MIG instance; likewise in the functions below.

    >>> if ag.cuda.is_available():
    ...     assert 0 <= ag.cuda.utilization() <= 100
    """
    return int(_ask("utilization", device, "nvmlDeviceGetUtilizationRates").gpu)


def memory_usage(device: Any = None) -> int:
    """The percentage of the last sample period in which the memory of `device` was read or written.

    >>> if ag.cuda.is_available():
    ...     assert 0 <= ag.cuda.memory_usage() <= 100
    """
    return int(_ask("memory usage", device, "nvmlDeviceGetUtilizationRates").memory)


def temperature(device: Any = None) -> int:
    """The temperature of the GPU die of `device` in degrees Celsius.

    >>> if ag.cuda.is_available():
    ...     assert ag.cuda.temperature() < 120
    """
    return int(_ask("temperature", device, "nvmlDeviceGetTemperature", 0))  # 0: the sensor of the die


def power_draw(device: Any = None) -> int:
    """The power draw of `device` in milliwatts.

    >>> if ag.cuda.is_available():
    ...     watts = ag.cuda.power_draw() / 1000
    """
    return int(_ask("power draw", device, "nvmlDeviceGetPowerUsage"))


def clock_rate(device: Any = None) -> int:
    """The current clock rate of the multiprocessors of `device` in MHz.

    >>> if ag.cuda.is_available():
    ...     megahertz = ag.cuda.clock_rate()
    """
    return int(_ask("clock rate", device, "nvmlDeviceGetClockInfo", 1))  # 1: the clock of the multiprocessors
