"""Function: one compiled kernel on one device, which runs in the emulator when its stream gets there.

Every argument is compared with the compiler's own table of the kernel's parameters: its size, whether it is floating,
and for pointers whether the kernel reads or writes there, which is what the race check goes by.
"""

from __future__ import annotations

import operator
import struct
from typing import Any

import numpy as np

from . import _clock, _emulation
from ._access import access, check_device
from ._array import ndarray
from ._emulation import SETTINGS
from ._errors import CUDADriverError, HazardError
from ._memory import Block, find, view
from ._pointers import MemoryPointer
from ._queue import Queue, accesses_of
from ._scalar import CPointer, CScalar
from ._state import current_device, current_queue

_BYTES = np.dtype(np.uint8)
_POINTERS = ("read", "write", "table")  # kinds of parameters


class Function:
    """A kernel on the device that was current when its module was loaded there; RawKernel.kernel gives it."""

    def __init__(self, module: Any, funcname: str) -> None:
        if funcname not in module.kernels:
            raise CUDADriverError(500)
        self.module, self._name, self._device = module, funcname, current_device()

    @property
    def _compiled(self) -> Any:
        """The emulator's kernel."""
        return self.module.kernels[self._name]

    def __call__(
        self, grid: tuple, block: tuple, args: Any, shared_mem: int = 0, stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        if not SETTINGS.computes:
            current_queue(stream).push(_nothing, self._name, (), 1)
            return
        grid, block = _three("grid", grid), _three("block", block)
        name, kernel, queue = self._name, self._compiled, current_queue(stream)
        self._check_launch(args, enable_cooperative_groups)
        packed, accesses, tables = [], [], []
        for position, (parameter, value) in enumerate(zip(kernel.parameters, args, strict=True)):
            where = f"{name}, argument {position}"
            raw = _pack(where, parameter, value)
            packed.append(raw)
            if parameter.kind in _POINTERS:
                accesses += _pointed(value, raw, parameter.kind == "write", where)
            if parameter.kind == "table":
                tables.append(value._a if isinstance(value, ndarray) else np.frombuffer(raw, np.uint64))
            if parameter.kind == "struct":
                accesses += _inside(value, where)
        order = _order()

        def run() -> None:
            for words in tables:
                _check_table(name, words)
            kernel.launch(grid, block, packed, shared_mem, order)

        _check_configuration(kernel, grid, block, shared_mem)
        queue.push(run, name, accesses, kernels=1)
        _emulation.launches.append((name, grid, block))
        del _emulation.launches[:-1000]

    def linear_launch(
        self, size: int, args: Any, shared_mem: int = 0, block_max_size: int = 128, stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        blocks, threads = min(2**31 - 1, -(-size // block_max_size)), min(block_max_size, size)
        self((blocks,), (threads,), args, shared_mem, stream, enable_cooperative_groups)

    def _check_launch(self, args: Any, cooperative: bool) -> None:
        if cooperative:
            raise NotImplementedError("the CPU stand-in does not run cooperative kernels")
        if self._device != current_device():  # its module lies in that device's context
            raise CUDADriverError(400)
        parameters = self._compiled.parameters
        if len(args) != len(parameters):
            raise TypeError(f"{self._name} has {len(parameters)} parameters, got {len(args)} arguments")


def _nothing() -> None:
    """The work of a kernel where nothing is computed."""


def _three(name: str, sizes: tuple) -> tuple[int, int, int]:
    """A grid or a block in three dimensions; CuPy launches one where 0 is asked for."""
    if type(sizes) is not tuple:
        raise TypeError(f"Argument '{name}' has incorrect type (expected tuple, got {type(sizes).__name__})")
    x, y, z = [operator.index(max(1, size)) for size in (*sizes, 1, 1)[:3]]
    return x, y, z


# ---- arguments -----------------------------------------------------------------------------------------


def _pack(where: str, parameter: Any, value: Any) -> bytes:
    """The bytes that the launch reads for one argument; TypeError if the kernel declares something else."""
    pointer = parameter.kind in _POINTERS
    if isinstance(value, (ndarray, MemoryPointer)) or value is None:
        if not pointer:
            raise TypeError(f"{where}: a pointer for a parameter that the kernel takes by value "
                            f"({parameter.kind}, {parameter.size} bytes)")
        return struct.pack("<q", 0 if value is None else _address(where, parameter, value))
    scalar = _scalar(where, value)
    if pointer and not (scalar.dtype.kind in "iu" and scalar.itemsize == 8):
        raise TypeError(f"{where}: the kernel takes a pointer, got {value!r}")
    if scalar.nbytes != parameter.size:
        raise TypeError(f"{where}: the kernel takes {parameter.size} bytes, got {scalar.nbytes} "
                        f"({type(value).__name__}, {scalar.dtype}); a real GPU would read garbage. Pass a NumPy "
                        "scalar of the parameter's type")
    if parameter.kind == "scalar" and (scalar.dtype.kind in "fV") != parameter.floating:
        raise _wrong_type(where, "is", parameter, scalar.dtype)
    return scalar.tobytes()


def _address(where: str, parameter: Any, value: Any) -> int:
    if isinstance(value, ndarray):
        check_device(value)
        codes = value.itemsize == 1 or parameter.kind == "table"  # float8 arrays are uint8
        if not codes and (value.dtype.kind in "fV") != parameter.floating:
            raise _wrong_type(where, "points to", parameter, value.dtype)
        value = value.data
    return value.ptr


def _wrong_type(where: str, what: str, parameter: Any, dtype: np.dtype) -> TypeError:
    declared = "a floating type" if parameter.floating else "an integer type"
    return TypeError(f"{where}: the parameter {what} {declared}, got {dtype}; a real GPU would read garbage")


def _scalar(where: str, value: Any) -> np.ndarray:
    """A Python number as CuPy passes it (int64, float64, bool), a NumPy scalar or array of one element as it is."""
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise TypeError(f"You are trying to pass a numpy.ndarray of shape {value.shape} as a kernel parameter. "
                            "Only numpy.ndarrays of size one can be passed by value. If you meant to pass a pointer "
                            "to __global__ memory, you need to pass a cupy.ndarray instead.")
        return value
    if isinstance(value, CScalar):
        return value._memory
    if isinstance(value, CPointer):
        raise NotImplementedError(f"{where}: the CPU stand-in cannot tell what lies at a bare CPointer; pass a CScalar")
    return CScalar(value)._memory


def _pointed(value: Any, raw: bytes, writes: bool, where: str) -> list[_clock.Access]:
    """What a pointer argument lets the kernel touch: the array, or from a bare address on the rest of its block."""
    if isinstance(value, ndarray):
        return [access(value, writes)]
    return _reached(*struct.unpack("<Q", raw), writes, where)


def _inside(value: Any, where: str) -> list[_clock.Access]:
    """What the addresses in a struct let the kernel touch, and write: a NumPy array's fields of type uint64."""
    fields = value.dtype.names or () if isinstance(value, np.ndarray) else ()
    words = [value[name].ravel() for name in fields if value.dtype[name].base == np.uint64]
    return [access for each in words for address in each.tolist() for access in _reached(address, True, where)]


def _reached(address: int, writes: bool, where: str) -> list[_clock.Access]:
    """From an address on the rest of its block; nothing from a null pointer."""
    block = find(address) if address else None
    if address and (block is None or block.freed is not None):
        raise HazardError(f"{where}: {address:#x} is no device memory in use ({block})")
    return [] if block is None else [rest_of(block, address, writes)]


def rest_of(block: Block, address: int, writes: bool) -> _clock.Access:
    high = block.ptr + block.size
    return block, address, high, view(address, (high - address,), _BYTES), writes


def _check_table(name: str, words: np.ndarray) -> None:
    """Every pointer in a table must lead to live memory, which counts as written."""
    accesses = []
    for address in words.reshape(-1).view(np.uint64).tolist():
        block = find(address) if address else None
        if block is None:
            if address:
                raise HazardError(f"{name}: the pointer table holds {address:#x}, which is no device memory")
            continue
        if block.dead or (block.freed is not None and not _freed_later(block)):
            raise HazardError(f"{name}: the pointer table holds the address of memory that was freed: {block}")
        accesses.append(rest_of(block, address, True))
    _clock.check(accesses, Queue.running, accesses_of)
    _clock.record(accesses, Queue.running, accesses_of)


def _freed_later(block: Block) -> bool:
    """Whether a freed block is still there for the running kernel: its stream frees it behind this one's work."""
    freeing = block.freeing
    if freeing is None:  # it is about to be enqueued
        return block.home is Queue.running.queue
    return freeing is not False and Queue.running.precedes(freeing.queue, freeing.clock)


# ---- the launch ----------------------------------------------------------------------------------------


def _order() -> str | int:
    """The order of blocks and threads: that of the schedule."""
    if SETTINGS.schedule == "random":
        return SETTINGS.random.randrange(1 << 30)
    return "reverse" if SETTINGS.schedule == "late" else "forward"


def _check_configuration(kernel: Any, grid: tuple, block: tuple, shared: int) -> None:
    """The limits of a launch, checked when it is asked for, as the driver does."""
    threads = block[0] * block[1] * block[2]
    block_fits = 0 < threads <= kernel.max_threads and block[2] <= 64
    grid_fits = grid[0] < 2**31 and max(grid[1:]) < 65536
    if not (block_fits and grid_fits and shared <= kernel.max_dynamic_shared_bytes):
        raise CUDADriverError(1)
