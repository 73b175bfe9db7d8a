"""RawModule and RawKernel: kernels compiled for the CPU by the emulator (../../build.py) and run in the stream.

Every argument is compared with the compiler's own table of the kernel's parameters: its size, whether it is floating,
and for pointers whether the kernel reads or writes there, which is what the race check goes by.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pathlib
import struct
import sys
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
from ._state import current_queue

_BYTES = np.dtype(np.uint8)
_ATTRIBUTES = {
    "max_threads_per_block": 1024, "shared_size_bytes": 0, "const_size_bytes": 0, "local_size_bytes": 0, "num_regs": 0,
    "ptx_version": 90, "binary_version": 90, "cache_mode_ca": 0, "preferred_shared_memory_carveout": -1,
}  # fmt: skip


@functools.cache
def emulator() -> Any:
    """The module build.py of the package cuda_emu around the stand-in, which need not be on the path."""
    if "cuda_emu" not in sys.modules:
        folder = pathlib.Path(__file__).parents[2]
        spec = importlib.util.spec_from_file_location("cuda_emu", folder / "__init__.py",
                                                      submodule_search_locations=[str(folder)])
        sys.modules["cuda_emu"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return importlib.import_module("cuda_emu.build")


class CompileException(Exception):
    """A source that does not compile; the text is the compiler's."""

    def __init__(self, msg: str, source: str, name: str, options: Any, backend: str = "nvrtc") -> None:
        super().__init__(msg)
        self._msg, self.source, self.name, self.options, self.backend = msg, source, name, options, backend

    def get_message(self) -> str:
        return self._msg


class RawModule:
    """CUDA C++ source, compiled when it is first used."""

    def __init__(
        self, *, code: str | None = None, path: str | None = None, options: tuple[str, ...] = (),
        backend: str = "nvrtc", translate_cucomplex: bool = False, enable_cooperative_groups: bool = False,
        name_expressions: Any = None, jitify: bool = False,
    ) -> None:  # fmt: skip
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        if code is None:
            raise NotImplementedError("the CPU stand-in compiles sources only, not cubin or PTX files")
        if not isinstance(options, tuple):
            raise TypeError(f"options must be a tuple of strings, not {type(options)}")
        self.code, self.file_path, self.options, self.backend = code, path, options, backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = None if name_expressions is None else tuple(name_expressions)
        self._modules: dict[str, Any] = {}  # by the emulator's build

    def compile(self, log_stream: Any = None) -> None:
        _ = self.module

    @property
    def module(self) -> Any:
        build, check = emulator(), SETTINGS.kernel_check
        if check not in self._modules:
            try:
                self._modules[check] = build.compile(self.code, self.options, self.name_expressions or (), check)
            except build.CompileError as error:
                raise CompileException(str(error), self.code, "", self.options) from error
        return self._modules[check]

    def get_function(self, name: str) -> RawKernel:
        return RawKernel._of(self, name)

    def get_global(self, name: str) -> MemoryPointer:
        raise NotImplementedError("the CPU stand-in does not have RawModule.get_global; pass a pointer instead")


class RawKernel:
    """One kernel of a source; call it with grid, block and arguments."""

    def __init__(
        self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc",
        translate_cucomplex: bool = False, *, enable_cooperative_groups: bool = False, jitify: bool = False,
    ) -> None:  # fmt: skip
        self._module, self.name = RawModule(code=code, options=options, backend=backend), name
        self._compiled: Any = None

    @classmethod
    def _of(cls, module: RawModule, name: str) -> RawKernel:
        kernel = cls.__new__(cls)
        kernel._module, kernel.name, kernel._compiled = module, name, None
        _ = kernel.kernel
        return kernel

    code = property(lambda self: self._module.code)
    options = property(lambda self: self._module.options)
    backend = property(lambda self: self._module.backend)
    file_path = property(lambda self: self._module.file_path)
    enable_cooperative_groups = property(lambda self: self._module.enable_cooperative_groups)

    @property
    def kernel(self) -> Any:
        if self._compiled is None:
            kernels = self._module.module.kernels
            if self.name not in kernels:
                raise CUDADriverError(500)
            self._compiled = kernels[self.name]
        return self._compiled

    def compile(self, log_stream: Any = None) -> None:
        _ = self.kernel

    @property
    def attributes(self) -> dict[str, int]:
        """As the driver would tell them; what only a GPU's compiler knows (registers, spills) counts as 0."""
        return {**_ATTRIBUTES, "max_threads_per_block": self.kernel.max_threads,
                "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes}  # fmt: skip

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.kernel.max_dynamic_shared_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        self.kernel.max_dynamic_shared_bytes = size

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None) -> None:
        kernel, queue = self.kernel, current_queue(stream)
        if len(args) != len(kernel.parameters):
            raise TypeError(f"{self.name} has {len(kernel.parameters)} parameters, got {len(args)} arguments")
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        grid, block = tuple(map(int, grid)), tuple(map(int, block))
        packed, accesses, tables = [], [], []
        for position, (parameter, value) in enumerate(zip(kernel.parameters, args, strict=True)):
            raw = self._pack(position, parameter, value)
            packed.append(raw)
            if parameter.kind in ("read", "write", "table"):
                accesses += _pointed(value, parameter.kind == "write", f"{self.name}, argument {position}")
            if parameter.kind in ("table", "struct"):
                words = value._a if isinstance(value, ndarray) else np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64)
                tables.append((parameter.kind, words))
        order = _order()

        def run() -> None:
            for kind, words in tables:
                _check_table(self.name, kind, words)
            kernel.launch(grid, block, packed, shared_mem, order)

        _check_configuration(kernel, grid, block, shared_mem)
        queue.push(run, self.name, accesses, kernels=1)
        _emulation.launches.append((self.name, grid, block))
        del _emulation.launches[:-1000]

    def _pack(self, position: int, parameter: Any, value: Any) -> bytes:
        """The bytes that the launch reads for one argument; TypeError if the kernel declares something else."""
        where = f"{self.name}, argument {position}"
        if isinstance(value, (ndarray, MemoryPointer)) or value is None:
            if parameter.kind not in ("read", "write", "table"):
                raise TypeError(f"{where}: a pointer for a parameter that the kernel takes by value "
                                f"({parameter.kind}, {parameter.size} bytes)")
            if isinstance(value, ndarray):
                check_device(value)
                codes = value.itemsize == 1 or parameter.kind == "table"  # float8 arrays are uint8
                if not codes and (value.dtype.kind in "fV") != parameter.floating:
                    raise _wrong_type(where, "points to", parameter, value.dtype)
                value = value.data
            return struct.pack("<q", 0 if value is None else value.ptr)
        scalar = _scalar(where, value)
        if parameter.kind in ("read", "write", "table") and not (scalar.dtype.kind in "iu" and scalar.itemsize == 8):
            raise TypeError(f"{where}: the kernel takes a pointer, got {value!r}")
        if scalar.nbytes != parameter.size:
            raise TypeError(f"{where}: the kernel takes {parameter.size} bytes, got {scalar.nbytes} "
                            f"({type(value).__name__}, {scalar.dtype}); a real GPU would read garbage. Pass a NumPy "
                            "scalar of the parameter's type")
        if parameter.kind == "scalar" and (scalar.dtype.kind in "fV") != parameter.floating:
            raise _wrong_type(where, "is", parameter, scalar.dtype)
        return scalar.tobytes()


def _attribute(name: str) -> property:
    return property(lambda self: self.attributes[name])


for _name in _ATTRIBUTES:
    setattr(RawKernel, _name, _attribute(_name))


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
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return np.asarray(value)
    raise TypeError(f"Unsupported type {type(value)} ({where})")


def _pointed(value: Any, writes: bool, where: str) -> list[_clock.Access]:
    """What a pointer argument lets the kernel touch: the array, or from a bare address on the rest of its block."""
    if isinstance(value, ndarray):
        return [access(value, writes)]
    address = 0 if value is None else int(value.ptr if isinstance(value, MemoryPointer) else value)
    block = find(address) if address else None
    if address and (block is None or block.freed is not None):
        raise HazardError(f"{where}: {address:#x} is no device memory in use ({block})")
    return [] if block is None else [rest_of(block, address, writes)]


def rest_of(block: Block, address: int, writes: bool) -> _clock.Access:
    high = block.ptr + block.size
    return block, address, high, view(address, (high - address,), _BYTES), writes


def _check_table(name: str, kind: str, words: np.ndarray) -> None:
    """Every pointer in a table (or a struct passed by value) must lead to live memory, which counts as written."""
    accesses = []
    for address in words.reshape(-1).view(np.uint64).tolist():
        block = find(address) if address else None
        if block is None:
            if address and kind == "table":
                raise HazardError(f"{name}: the pointer table holds {address:#x}, which is no device memory")
            continue
        if block.dead or (block.freed is not None and not _freed_later(block)):
            raise HazardError(f"{name}: the pointer {kind} holds the address of memory that was freed: {block}")
        accesses.append(rest_of(block, address, True))
    _clock.check(accesses, Queue.running, accesses_of)
    _clock.record(accesses, Queue.running, accesses_of)


def _freed_later(block: Block) -> bool:
    """Whether a freed block is still there for the running kernel: its stream frees it behind this one's work."""
    freeing = block.freeing
    if freeing is None:  # it is about to be enqueued
        return block.home is Queue.running.queue
    return freeing is not False and Queue.running.precedes(freeing.queue, freeing.clock)


def _order() -> str | int:
    """The order of blocks and threads: that of the schedule."""
    if SETTINGS.schedule == "random":
        return SETTINGS.random.randrange(1 << 30)
    return "reverse" if SETTINGS.schedule == "late" else "forward"


def _check_configuration(kernel: Any, grid: tuple, block: tuple, shared: int) -> None:
    """The limits of a launch, checked when it is asked for, as the driver does."""
    threads = block[0] * block[1] * block[2]
    block_fits = 0 < threads <= kernel.max_threads and block[2] <= 64
    grid_fits = min(grid) > 0 and grid[0] < 2**31 and max(grid[1:]) < 65536
    if not (block_fits and grid_fits and shared <= kernel.max_dynamic_shared_bytes):
        raise CUDADriverError(1)
