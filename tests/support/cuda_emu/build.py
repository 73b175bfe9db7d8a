"""Compile CUDA C++ for the CPU and launch its kernels on ordinary memory.

A launch checks what CUDA checks, and the sizes of the arguments; then the compiled module runs it (cuda_emu.h). What
goes wrong there comes back as a number and a message.
"""

import ctypes
import functools
import operator
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .errors import (
    CompileError,
    DataRace,
    Deadlock,
    EmulationError,
    IllegalAddress,
    InvalidLaunch,
    UndefinedBehaviour,
)
from .toolchain import CHECKS, MAX_THREADS, shared_object, source_line

__all__ = [
    "CompileError", "DataRace", "Deadlock", "EmulationError", "IllegalAddress", "InvalidLaunch", "Kernel", "Module",
    "Parameter", "UndefinedBehaviour", "compile",
]

MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCKS = 2**26  # the emulator's own: it lists them
SHARED_BYTES = 48 << 10  # dynamic shared memory that every kernel may have
MAX_SHARED_BYTES = 227 << 10  # with the kernel's attribute raised, on compute capability 9.0 and 10.0

FAILURES = {1: Deadlock, 2: DataRace, 3: IllegalAddress, 4: UndefinedBehaviour, 5: EmulationError}  # emu::Failure
KINDS = ("scalar", "read", "write", "table", "struct")  # emu::Kind
ORDERS = ("forward", "reverse", "shuffled")  # emu::Order


@dataclass(frozen=True)
class Parameter:
    """What the compiler knows of a kernel's parameter; `floating` of a pointer is that of what it points to."""

    kind: Literal["scalar", "read", "write", "table", "struct"]
    size: int
    floating: bool


class _Entry(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
        ("max_threads", ctypes.c_int),
        ("count", ctypes.c_int),
        ("kind", ctypes.POINTER(ctypes.c_int)),
        ("size", ctypes.POINTER(ctypes.c_int)),
        ("floating", ctypes.POINTER(ctypes.c_int)),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("order", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("arena", ctypes.c_void_p),
    ]


class _Library:
    """A loaded module. The process runs one launch at a time: all modules share the arena of stacks."""

    lock = threading.Lock()
    arena = None

    def __init__(self, path: Path):
        self.path = path
        self.dll = ctypes.CDLL(str(path))
        self.dll.emu_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self.dll.emu_message.restype = ctypes.c_char_p
        self.dll.emu_make_arena.restype = ctypes.c_void_p
        with self.lock:
            _Library.arena = self.arena or self.dll.emu_make_arena()
        if not self.arena:
            raise EmulationError("no address space for the stacks of 1024 threads: raise `ulimit -v`")
        count = ctypes.c_int.in_dll(self.dll, "emu_kernel_count").value
        self.entries = (_Entry * count).in_dll(self.dll, "emu_kernels")

    def launch(self, entry: _Entry, request: _Launch, arguments: Sequence[bytes]) -> None:
        request.arena = self.arena
        values = (ctypes.c_char_p * len(arguments))(*arguments)  # pointers into the bytes objects
        with self.lock:
            failure = self.dll.emu_launch(ctypes.byref(entry), ctypes.byref(request), values)
            message = self.dll.emu_message().decode(errors="replace")
        if failure:
            raise FAILURES[failure](re.sub(r"@(0x[0-9a-f]+)", lambda code: self.where(int(code[1], 16)), message))

    def where(self, address: int) -> str:
        offset = address - _base(self.dll.emu_launch)
        line = source_line(self.path, offset) if offset >= 0 else None
        return f"at {line}" if line else "at an unknown line"


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _base(function) -> int:
    """Where the module of this function is loaded."""
    info = _DlInfo()
    ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info))
    return info.base


@dataclass
class Kernel:
    """One kernel, ready to be launched."""

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int  # of a block: its __launch_bounds__
    _entry: _Entry = field(repr=False)
    _library: _Library = field(repr=False)
    max_dynamic_shared_bytes: int = SHARED_BYTES

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[bytes],
        shared_bytes: int = 0,
        order: Literal["forward", "reverse"] | int = "forward",
    ) -> None:
        """Run the kernel to its end. `arguments` are the bytes that cuLaunchKernel would read; `order` says in which
        order blocks and threads take their turns, and an int seeds a shuffle of both."""
        self._check_shape(grid, block, shared_bytes)
        self._check_arguments(arguments)
        shuffled = not isinstance(order, str)
        if not shuffled and order not in ORDERS[:2]:
            raise ValueError(f"order is 'forward', 'reverse' or the int that seeds a shuffle, not {order!r}")
        request = _Launch(tuple(grid), tuple(block), shared_bytes, ORDERS.index("shuffled" if shuffled else order))
        request.seed = operator.index(order) % 2**64 if shuffled else 0
        self._library.launch(self._entry, request, arguments)

    def traffic(self) -> tuple[int, int]:
        """Bytes of global memory that the module's last launch read and wrote, arguments included; of a build with
        check="races"."""
        read, written = (ctypes.c_uint64 * 2).in_dll(self._library.dll, "emu_traffic")
        return read, written

    def _check_shape(self, grid, block, shared_bytes):
        for what, shape, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
            if len(shape) != 3 or not all(1 <= n <= limit for n, limit in zip(shape, limits, strict=True)):
                raise InvalidLaunch(
                    f"invalid configuration argument: {self.name} launched with {what} {tuple(shape)}; a {what} has "
                    f"three extents, each at least 1, and at most {limits}"
                )
        if (blocks := grid[0] * grid[1] * grid[2]) > MAX_BLOCKS:
            raise EmulationError(f"{self.name} launched with {blocks} blocks; the emulator runs at most {MAX_BLOCKS}")
        if (threads := block[0] * block[1] * block[2]) > self.max_threads:
            reason = "CUDA's limit" if self.max_threads == MAX_THREADS else "its __launch_bounds__"
            raise InvalidLaunch(
                f"invalid configuration argument: {self.name} launched with {threads} threads in a block, "
                f"{tuple(block)}; {reason} is {self.max_threads}"
            )
        if not 0 <= shared_bytes <= min(self.max_dynamic_shared_bytes, MAX_SHARED_BYTES):
            raise InvalidLaunch(
                f"invalid argument: {self.name} launched with {shared_bytes} bytes of dynamic shared memory; it may "
                f"have {self.max_dynamic_shared_bytes}, or up to {MAX_SHARED_BYTES} after that attribute "
                f"(max_dynamic_shared_size_bytes in CuPy) is raised"
            )

    def _check_arguments(self, arguments):
        if len(arguments) != len(self.parameters):
            raise InvalidLaunch(f"{self.name} has {len(self.parameters)} parameters, not {len(arguments)}")
        for i, (value, parameter) in enumerate(zip(arguments, self.parameters, strict=True)):
            if len(value) != parameter.size:
                raise InvalidLaunch(
                    f"argument {i} of {self.name} has {len(value)} bytes; the parameter ({parameter.kind}) has "
                    f"{parameter.size}"
                )


class _Kernels(dict):
    def __missing__(self, name):
        raise EmulationError(
            f'no kernel {name!r} in this module, which has {sorted(self)}: a kernel is declared `extern "C" __global__ '
            f"void name(...)` or named in name_expressions"
        )


class Module:
    """The kernels of one source, by name or name expression."""

    def __init__(self, library: _Library):
        self.kernels: dict[str, Kernel] = _Kernels()
        for entry in library.entries:
            facts = zip(*(values[: entry.count] for values in (entry.kind, entry.size, entry.floating)), strict=True)
            parameters = tuple(Parameter(KINDS[kind], size, bool(floating)) for kind, size, floating in facts)
            name = entry.name.decode()
            self.kernels[name] = Kernel(name, parameters, min(entry.max_threads, MAX_THREADS), entry, library)


def compile(
    source: str, options: Sequence[str] = (), name_expressions: Sequence[str] = (), check: str = "none"
) -> Module:
    """Compile CUDA C++. `options` are NVRTC's; what only device code knows is ignored. `check` picks the build: "none"
    or "races" (data races, and traps where C++ leaves something undefined; 10 to 200 times slower)."""
    if check not in CHECKS:
        raise ValueError(f"check is one of {', '.join(CHECKS)}, not {check!r}")
    return Module(_load(shared_object(source, options, name_expressions, check)))


@functools.cache
def _load(path: Path) -> _Library:
    return _Library(path)
