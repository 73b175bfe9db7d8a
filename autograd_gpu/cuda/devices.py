"""CUDA devices: their number, the current one, their properties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..backend.cuda import capture, runtime
from ..backend.transfer import copy_engine

MIB = 2**20


def device_count() -> int:
    """The number of CUDA devices; 0 without CuPy, a driver or a GPU. CUDA_VISIBLE_DEVICES can hide devices.

    >>> ag.cuda.device_count() >= 0
    True
    """
    return runtime.count_devices() if runtime.is_available() else 0


def current_device() -> int:
    """The index of this thread's current device.

    >>> if ag.cuda.is_available():
    ...     assert 0 <= ag.cuda.current_device() < ag.cuda.device_count()
    """
    return runtime.device_index()


def set_device(device: Any) -> None:
    """Sets this thread's current device; negative numbers have no effect. Prefer the context `device()`.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.set_device("cuda:0")
    """
    _entering(device).use()


@contextmanager
def device(device: Any) -> Iterator[None]:
    """Context with `device` as this thread's current device; None and negative numbers have no effect.

    >>> if ag.cuda.is_available():
    ...     with ag.cuda.device(0):
    ...         x = ag.ones(3, device="cuda:0")
    """
    if device is None or (isinstance(device, int) and device < 0):
        yield
        return
    with _entering(device):
        yield


def _entering(device: Any) -> Any:
    """The cupy.cuda.Device; RuntimeError in the capture of another device's graph."""
    chosen = runtime.cupy_device(device)
    capture.check_device(chosen.id)
    return chosen


def synchronize(device: Any = None) -> None:
    """Blocks until all work on all streams of `device` (default: the current one) is complete.

    Also releases the device arrays that `ag.hooks.offload` has copied to the host.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.synchronize()
    """
    chosen = runtime.cupy_device(device)
    chosen.synchronize()
    copy_engine.settle(chosen.id)


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a device: sizes in bytes, clock rates in kHz, memory bus width in bits.

    `uuid` is None if CuPy truncates it. `cupy.cuda.runtime.getDeviceProperties(index)` has the other properties.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.get_device_properties().warp_size
    ... else:
    ...     32
    32
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: bool
    is_multi_gpu_board: bool
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int
    uuid: str | None

    def __repr__(self) -> str:
        return (
            f"DeviceProperties(name={self.name!r}, major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // MIB} MiB, multi_processor_count={self.multi_processor_count}, "
            f"shared_memory_per_multiprocessor={self.shared_memory_per_multiprocessor // 1024} KiB, "
            f"L2_cache_size={self.L2_cache_size // MIB} MiB, uuid={self.uuid})"
        )


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of `device` (default: the current one).

    >>> if ag.cuda.is_available():
    ...     gibibytes = ag.cuda.get_device_properties().total_memory / 2**30
    """
    index = runtime.device_index(device)
    raw = runtime.cupy().cuda.runtime.getDeviceProperties(index)
    return DeviceProperties(
        name=raw["name"].decode(),
        major=raw["major"],
        minor=raw["minor"],
        total_memory=raw["totalGlobalMem"],
        multi_processor_count=raw["multiProcessorCount"],
        warp_size=raw["warpSize"],
        max_threads_per_block=raw["maxThreadsPerBlock"],
        max_threads_per_multi_processor=raw["maxThreadsPerMultiProcessor"],
        regs_per_multiprocessor=raw["regsPerMultiprocessor"],
        shared_memory_per_block=raw["sharedMemPerBlock"],
        shared_memory_per_block_optin=raw["sharedMemPerBlockOptin"],
        shared_memory_per_multiprocessor=raw["sharedMemPerMultiprocessor"],
        L2_cache_size=raw["l2CacheSize"],
        clock_rate=raw["clockRate"],
        memory_clock_rate=raw["memoryClockRate"],
        memory_bus_width=raw["memoryBusWidth"],
        is_integrated=bool(raw["integrated"]),
        is_multi_gpu_board=bool(raw["isMultiGpuBoard"]),
        pci_domain_id=raw["pciDomainID"],
        pci_bus_id=raw["pciBusID"],
        pci_device_id=raw["pciDeviceID"],
        uuid=_uuid(raw["uuid"]),
    )


def _uuid(raw: bytes) -> str | None:
    """The 16 bytes as text; None if CuPy truncated them at a zero byte, as a C string."""
    if len(raw) != 16:
        return None
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def get_device_name(device: Any = None) -> str:
    """The product name of `device` (default: the current one), such as 'NVIDIA H100 80GB HBM3'.

    >>> name = ag.cuda.get_device_name() if ag.cuda.is_available() else "none"
    """
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of `device` (default: the current one) as (major, minor), such as (9, 0).

    >>> if ag.cuda.is_available():
    ...     tensor_cores_take_bfloat16 = ag.cuda.get_device_capability() >= (8, 0)
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16: from compute capability 8.0 on; False without CUDA.

    >>> if not ag.cuda.is_available():
    ...     assert not ag.cuda.is_bf16_supported()
    """
    return runtime.is_available() and get_device_capability() >= (8, 0)


def init() -> None:
    """Checks that CUDA is available: ImportError or RuntimeError that says what is missing. It needs no other call.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.init()
    """
    runtime.count_devices()


def is_initialized() -> bool:
    """Whether CuPy is imported, with which CUDA starts at its first use.

    >>> ag.cuda.is_initialized() in (True, False)
    True
    """
    return runtime.loaded() is not None


def ipc_collect() -> None:
    """Does nothing: no memory is shared between processes.

    >>> ag.cuda.ipc_collect()
    """
