"""cupy.cuda.Device, and what the stand-in says of its devices: an H100 in its limits, nobody in its name."""

from __future__ import annotations

import threading
from typing import Any

from . import _errors, _handles
from ._emulation import SETTINGS
from ._errors import CUDARuntimeError
from ._queue import DEVICES
from ._queue import Device as QueuesOfDevice
from ._state import current_device, set_device

# What CuPy's getDeviceProperties tells, but for textures and surfaces.
PROPERTIES = {
    "ECCEnabled": 1, "accessPolicyMaxWindowSize": 128 << 20, "asyncEngineCount": 3, "canMapHostMemory": 1,
    "canUseHostPointerForRegisteredMem": 1, "clockRate": 1, "computeMode": 0, "computePreemptionSupported": 1,
    "concurrentKernels": 1, "concurrentManagedAccess": 1, "cooperativeLaunch": 1, "cooperativeMultiDeviceLaunch": 0,
    "deviceOverlap": 1, "directManagedMemAccessFromHost": 0, "globalL1CacheSupported": 1,
    "hostNativeAtomicSupported": 0, "integrated": 0, "isMultiGpuBoard": 0, "kernelExecTimeoutEnabled": 0,
    "l2CacheSize": 50 << 20, "localL1CacheSupported": 1, "luid": b"", "luidDeviceNodeMask": 0, "major": 9,
    "managedMemory": 1, "maxBlocksPerMultiProcessor": 32, "maxGridSize": (2**31 - 1, 65535, 65535),
    "maxThreadsDim": (1024, 1024, 64), "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048,
    "memoryBusWidth": 5120, "memoryClockRate": 1, "minor": 0, "multiGpuBoardGroupID": 0, "multiProcessorCount": 132,
    "name": b"CPU stand-in", "pageableMemoryAccess": 0, "pageableMemoryAccessUsesHostPageTables": 0, "pciBusID": 0,
    "pciDeviceID": 0, "pciDomainID": 0, "persistingL2CacheMaxSize": 32 << 20, "regsPerBlock": 65536,
    "regsPerMultiprocessor": 65536, "reservedSharedMemPerBlock": 1024, "sharedMemPerBlock": 49152,
    "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472, "singleToDoublePrecisionPerfRatio": 2,
    "streamPrioritiesSupported": 1, "tccDriver": 0, "totalConstMem": 65536, "unifiedAddressing": 1,
    "uuid": b"CPU-stand-in-000", "warpSize": 32,
}  # fmt: skip
ATTRIBUTES = {
    "WarpSize": 32, "MultiProcessorCount": 132, "MaxThreadsPerBlock": 1024, "MaxSharedMemoryPerBlock": 49152,
    "MaxSharedMemoryPerBlockOptin": 232448, "ComputeCapabilityMajor": 9, "ComputeCapabilityMinor": 0,
    "MaxThreadsPerMultiProcessor": 2048, "MaxSharedMemoryPerMultiprocessor": 233472, "L2CacheSize": 50 << 20,
}  # fmt: skip
VERSION = 13000  # of CUDA


class _Entered(threading.local):
    def __init__(self) -> None:
        self.devices: list[int] = []


_entered = _Entered()


class Device:
    """A device by its number, the current one by default; `with` makes it current."""

    def __init__(self, device: Any = None) -> None:
        self.id = current_device() if device is None else int(device)

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        _entered.devices.append(current_device())
        set_device(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        set_device(_entered.devices.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __lt__(self, other: Device) -> bool:
        return self.id < other.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> None:
        set_device(self.id)

    def synchronize(self) -> None:
        known(self.id).synchronize()

    @property
    def compute_capability(self) -> str:
        return f"{PROPERTIES['major']}{PROPERTIES['minor']}"

    @property
    def mem_info(self) -> tuple[int, int]:
        return SETTINGS.memory - known(self.id).allocated, SETTINGS.memory

    @property
    def pci_bus_id(self) -> str:
        return f"0000:{self.id:02x}:00.0"

    @property
    def attributes(self) -> dict[str, int]:
        return dict(ATTRIBUTES)

    @property
    def cublas_handle(self) -> int:
        known(self.id)
        with self:
            return _handles.own()


def is_available() -> bool:
    return True


def get_local_runtime_version() -> int:
    return VERSION


def get_device_id() -> int:
    return current_device()


def get_compute_capability() -> str:
    return Device().compute_capability


def get_cublas_handle() -> int:
    return Device().cublas_handle


def known(number: int) -> QueuesOfDevice:
    """Device `number`; CUDARuntimeError if there is none."""
    if not 0 <= number < len(DEVICES):
        raise CUDARuntimeError(_errors.INVALID_DEVICE)
    return DEVICES[number]
