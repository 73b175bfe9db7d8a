"""DLPack: memory of another library as an array, and ours for another library."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .device import Device
from .namespace import namespace_on
from .strides import extent

_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_VERSIONED, _READ_ONLY = b"dltensor_versioned", 1

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class _Head(ctypes.Structure):
    """The first fields of DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
    )  # fmt: skip


class _Exporter:
    """Hands out the capsule of `source`, and remembers whether it allows writing."""

    def __init__(self, source: Any) -> None:
        self.source, self.writeable = source, False

    def __dlpack__(self, **kwargs: Any) -> Any:
        capsule = self.source.__dlpack__(**kwargs)
        if _is_valid(capsule, _VERSIONED):
            self.writeable = not _Head.from_address(_pointer(capsule, _VERSIONED)).flags & _READ_ONLY
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.source.__dlpack_device__()


def imported(source: Any) -> Any:
    """The memory of `source`, which has `__dlpack__`, as a NumPy or CuPy array: CuPy's waits on the current stream.

    What says that it is read-only stays so, and so does what does not say (DLPack before 1.0, as JAX has it).
    """
    kind, ordinal = source.__dlpack_device__()
    try:
        if int(kind) not in _HOST:
            return namespace_on(Device("cuda", ordinal)).from_dlpack(source)
        exporter = _Exporter(source)
        array = np.from_dlpack(exporter)
    except (RuntimeError, BufferError) as error:
        if "dtype" not in str(error):
            raise
        raise TypeError(f"from_dlpack: NumPy and CuPy take no DLPack memory of dtype {getattr(source, 'dtype', '?')}; "
                        "export it as integers of the same size, and view these: "
                        "ag.from_dlpack(x.view(torch.int16)).view(ag.bfloat16)") from error
    return _writeable(array) if exporter.writeable and not array.flags.writeable else array


def _writeable(array: np.ndarray) -> np.ndarray:
    """`array`, which NumPy 2.1 makes read-only whatever the exporter says, as one that can be written."""
    begin, end = extent(array)
    memory = (ctypes.c_char * (end - begin)).from_address(begin)
    memory.owner = array  # type: ignore[attr-defined]
    first = array.__array_interface__["data"][0] - begin
    return np.ndarray(array.shape, array.dtype, memoryview(memory), first, array.strides)


def exported(array: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The capsule of an array. CuPy makes `stream` wait for the current one, as the array API says.

    Copied on request, and where strides are negative, since PyTorch aborts on these.
    """
    if min(array.strides, default=0) < 0:
        if copy is False:
            raise BufferError("a tensor with negative strides is exported by DLPack as a copy, which copy=False "
                              "forbids; leave it out, or export t.clone()")
        copy = True
    if copy:
        array, copy = array.copy(), None
    if isinstance(array, np.ndarray):
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"a CPU tensor cannot be exported to the DLPack device {tuple(dl_device)}; use t.cuda()")
        if stream is not None:
            raise BufferError(f"a CPU tensor knows no stream, but stream={stream!r} was given; leave it out")
        if not array.flags.writeable and (max_version is None or max_version[0] < 1):
            raise BufferError("the memory of this tensor came in read-only, which a consumer of DLPack before 1.0 "
                              "could not know; export t.clone()")
    return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
