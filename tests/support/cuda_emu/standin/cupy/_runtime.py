"""cupy.cuda.runtime: the calls of the CUDA runtime that the stand-in has, and CUDA's constants."""

from __future__ import annotations

from typing import Any

from . import _errors, _graph, _stream
from ._copying import memcpy as memcpy
from ._copying import memcpyAsync as memcpyAsync
from ._copying import memset as memset
from ._copying import memsetAsync as memsetAsync
from ._device import ATTRIBUTES, PROPERTIES, VERSION, Device, known
from ._emulation import SETTINGS
from ._errors import CUDARuntimeError
from ._memory import find
from ._pinned import PinnedMemory
from ._pointers import Memory
from ._queue import DEVICES
from ._state import current_device, queue_of, set_device
from ._table import API

is_hip = False
_kept: dict[int, Any] = {}  # memory by address, until it is given back


# ---- devices -------------------------------------------------------------------------------------------


def driverGetVersion() -> int:
    return VERSION


def runtimeGetVersion() -> int:
    return VERSION


def getDevice() -> int:
    return current_device()


def setDevice(device: int) -> None:
    set_device(device)


def getDeviceCount() -> int:
    return len(DEVICES)


def getDeviceProperties(device: int) -> dict[str, Any]:
    known(device)
    return {**PROPERTIES, "totalGlobalMem": SETTINGS.memory, "pciDeviceID": device}


def deviceGetAttribute(attrib: int, device: int) -> int:
    known(device)
    for name, value in ATTRIBUTES.items():
        if API["cupy.cuda.runtime"].get(f"cudaDevAttr{name}") == attrib:
            return value
    raise NotImplementedError(f"the CPU stand-in does not know device attribute {attrib}")


def deviceGetPCIBusId(device: int) -> str:
    known(device)
    return Device(device).pci_bus_id


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    known(device)
    known(peerDevice)
    return 0


def deviceSynchronize() -> None:
    known(current_device()).synchronize()


def memGetInfo() -> tuple[int, int]:
    return Device().mem_info


# ---- memory --------------------------------------------------------------------------------------------


def malloc(size: int) -> int:
    return _keep(Memory(size))


def free(ptr: int) -> None:
    if ptr and _kept.pop(ptr, None) is None:
        raise CUDARuntimeError(_errors.INVALID_VALUE)


def hostAlloc(size: int, flags: int = 0) -> int:
    return _keep(PinnedMemory(size, flags))


freeHost = free


def _keep(memory: Any) -> int:
    ptr = memory.ptr
    _kept[ptr] = memory
    return ptr


def pointerGetMemoryType(ptr: int) -> int:
    block = find(ptr)
    return 0 if block is None else 1 if block.pinned else 2


# ---- streams and events by their handles ---------------------------------------------------------------


def streamSynchronize(stream: int) -> None:
    queue_of(stream).synchronize()


def streamQuery(stream: int) -> int:
    return 0 if queue_of(stream).query() else _errors.NOT_READY


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    _event(event)._make_wait(queue_of(stream))


def eventQuery(event: int) -> int:
    return 0 if _event(event).done else _errors.NOT_READY


def eventSynchronize(event: int) -> None:
    _event(event).synchronize()


def _event(handle: int) -> _stream.Event:
    found = _stream.EVENTS.get(handle)
    if found is None:
        raise CUDARuntimeError(_errors.INVALID_HANDLE)
    return found


def streamBeginCapture(stream: int, mode: int = _graph.RELAXED) -> None:
    _graph.begin(stream, mode)


def streamIsCapturing(stream: int) -> bool:
    return queue_of(stream).is_capturing()
