"""The switch from NumPy code to native code: when a formula has computed many elements with one dtype.

The results have the same bits, so the switch may come at any call. Code on disk is loaded early, new code is compiled
late; whatever prevents either is said once, and NumPy code runs on. AUTOGRAD_GPU_NATIVE=0 turns native code off.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....errors import warn_user
from ...arrays.dtypes import bfloat16, float16, float32, float64
from ...arrays.memory_format import empty_like, memory_order
from ...cpu import pool
from ...cpu.rows import Blocks
from ..lowering import Program
from . import disk_cache, llvm_code
from .ufunc import NativeUfunc, Unavailable, ties

LOADS = 1 << 12  # elements, in all calls, from which code is looked for on disk
COMPILES = 1 << 22  # elements from which code is compiled
BITS = np.dtype(np.uint16)
Results = Sequence[np.ndarray]
COMPILING = threading.Lock()  # others run NumPy code meanwhile


class SETTING:
    """Whether native code may run in this process."""

    on = os.environ.get("AUTOGRAD_GPU_NATIVE", "1") != "0"


@contextmanager
def numpy_code_alone() -> Iterator[None]:
    """Turns native code off in all threads for a while, to compare with NumPy code; programs of compiled calls that
    have it keep it."""
    before, SETTING.on = SETTING.on, False
    try:
        yield
    finally:
        SETTING.on = before


@functools.cache
def is_installed() -> bool:
    """Whether llvmlite is there; does not import it."""
    return importlib.util.find_spec("llvmlite") is not None


def is_on() -> bool:
    """Whether formulas get native code in this process."""
    return SETTING.on and is_installed()


def state() -> str:
    """Whether native code is on, and what turns it on or off, for the report of the installation."""
    if not is_installed():
        return "off: formulas run as NumPy code; for native code `pip install 'autograd-gpu[native]'`"
    if not SETTING.on:
        return f"off: AUTOGRAD_GPU_NATIVE={os.environ.get('AUTOGRAD_GPU_NATIVE', '')}, formulas run as NumPy code"
    return f"on: llvmlite {importlib.import_module('llvmlite').__version__}, machine code in {disk_cache.folder()}"


def converts_float16() -> bool:
    """Whether this processor has instructions for float16, which native code needs."""
    return platform.machine() not in ("x86_64", "AMD64") or disk_cache.has_feature("f16c")


class Switch:
    """The native code of a program: None in place of results until it is there.

    A call counts as so many elements as its arrays have, and `per_call` more.
    """

    def __init__(self, name: str, program: Program, per_call: int = 0) -> None:
        self.name, self.program, self.per_call = name, program, per_call
        self.runs = dict[np.dtype, Callable[..., Results | None]]()  # by the dtype of the arrays
        self.seen, self.sought = dict[np.dtype, int](), set[np.dtype]()  # elements of all calls; what the disk lacked

    def __call__(self, arrays: Results, numbers: Results, out: Results | None = None) -> Results | None:
        """The outputs, written into `out` if that is given; `numbers` may be followed by constants."""
        last = arrays[-1]
        run = self.running(last.dtype, last.size)
        return None if run is None else run(arrays, numbers, out)

    def running(self, dtype: np.dtype, elements: int) -> Callable[..., Results | None] | None:
        """What runs for arrays of this dtype, after a call on so many elements; None while that is NumPy code."""
        if not SETTING.on:
            return None
        run = self.runs.get(dtype)
        if run is None:
            seen = self.seen[dtype] = self.seen.get(dtype, 0) + elements + self.per_call
            if seen < (COMPILES if dtype in self.sought else LOADS):
                return None
            run = self._prepared(dtype, seen)
        return run

    def _prepared(self, dtype: np.dtype, seen: int) -> Callable[..., Results | None]:
        """What runs for arrays of this dtype: native code, or nothing for now, or ever."""
        if not COMPILING.acquire(blocking=False):
            return _nothing
        try:
            kernel = self._made(dtype, compiles=seen >= COMPILES)
            self.sought.add(dtype)
            if kernel is not None:
                self.runs[dtype] = kernel
            return kernel or _nothing
        except (Unavailable, RuntimeError) as error:  # llvmlite raises RuntimeError
            self.runs[dtype] = _nothing
            say(str(error))
            return _nothing
        finally:
            COMPILING.release()

    def _made(self, dtype: np.dtype, compiles: bool) -> Callable[..., Results | None] | None:
        ir = self.ir(dtype)
        if not compiles and not disk_cache.is_on_disk(ir):
            return None
        if float16 in self.types(dtype) and not converts_float16():
            raise Unavailable("this processor has no instructions for float16")
        address = disk_cache.address(ir, compiles)
        return None if address is None else self.linked(dtype, address)

    def ir(self, dtype: np.dtype) -> str:
        """The LLVM IR for arrays of this dtype."""
        return _ir(self.program, self.types(dtype))

    def linked(self, dtype: np.dtype, address: int) -> Callable[..., Results | None]:
        """What runs, from the address of the machine code."""
        return Kernel(self.name, self.program, self.types(dtype), address)

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        """The dtypes of inputs, numbers and outputs."""
        return llvm_code.types_of(self.program, dtype)

    def is_ready(self, dtype: np.dtype) -> bool:
        """Whether native code runs for arrays of this dtype."""
        return SETTING.on and self.runs.get(dtype, _nothing) is not _nothing

    def compile(self, dtype: np.dtype) -> None:
        """Makes the native code now."""
        self.runs[dtype] = self._made(dtype, compiles=True) or _nothing


def is_there(program: Program) -> bool:
    """Whether there is native code for a program, in this installation."""
    return is_installed() and not llvm_code.unsupported(program)


def switch_of(name: str, program: Program, per_call: int = 0) -> Switch | None:
    """The switch of a program; None where there is no native code for it."""
    return Switch(name, program, per_call) if is_there(program) else None


def _ir(program: Program, types: Sequence[np.dtype]) -> str:
    return llvm_code.source(program, types, ties(float64 if float64 in types else float32))


def ir_or_reason(program: Program, dtype: np.dtype) -> str:
    """The LLVM IR for arrays of this dtype, or why there is none."""
    reason = llvm_code.unsupported(program)
    return _ir(program, llvm_code.types_of(program, dtype)) if reason is None else f"no native code: {reason}"


def _nothing(arrays: Results, numbers: Results, out: Results | None) -> None:
    return None


@functools.cache
def say(reason: str) -> None:
    """Warns, once for each reason, that NumPy code runs."""
    warn_user(f"formulas that need it run as NumPy code, without native code: {reason}. AUTOGRAD_GPU_NATIVE=0 turns "
              "native code off")


def as_bits(arrays: Sequence[Any]) -> list[Any]:
    """The arrays, those of bfloat16 as their bits: NumPy's table of types lacks it."""
    return [a.view(BITS) if a is not None and a.dtype == bfloat16 else a for a in arrays]


class Kernel:
    """Machine code of a program for inputs, numbers and outputs of these dtypes; of several, it takes `out`."""

    def __init__(self, name: str, program: Program, types: Sequence[np.dtype], address: int) -> None:
        self.native = NativeUfunc(name, program, types, address)
        self.ufunc, self.has_bits = self.native.ufunc, bfloat16 in types
        self.numbers, self.outputs, self.types = len(program.numbers), len(program.outputs), types

    def __call__(self, arrays: Results, numbers: Results, out: Results | None) -> Results:
        if not self.has_bits:
            return self._run(arrays, numbers, out)
        if out is None:  # all arrays are of one dtype
            return [r.view(bfloat16) for r in self._run(as_bits(arrays), numbers, None)]
        self._run(as_bits(arrays), as_bits(numbers), as_bits(out))
        return out

    def _run(self, arrays: Results, numbers: Results, out: Results | None) -> Results:
        numbers, last = numbers[: self.numbers], arrays[-1]
        if out is None:
            if last.nbytes < pool.SMALLEST:
                results = self.ufunc(*arrays, *numbers)
                results = (results,) if self.outputs == 1 else results
                return results if last.ndim else [*map(np.asarray, results)]  # ufuncs make scalars of 0-d arrays
            out = self._allocated(arrays)
        if not Blocks(1, out[0].size, 1).shared:
            self.ufunc(*arrays, *numbers, out=tuple(out))
        else:
            self._shared([*arrays, *out], len(arrays), numbers)
        return out

    def _allocated(self, arrays: Results) -> Results:
        """Memory for the outputs, from the pool, in the order of the first array that has their shape."""
        shape = arrays[-1].shape
        if all(a.shape == shape and a.flags.c_contiguous for a in arrays):
            return [pool.empty(shape, arrays[-1].dtype) for _ in range(self.outputs)]
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        head = next((a for a in arrays if a.shape == shape), None)
        head = np.broadcast_to(arrays[0], shape) if head is None else head
        return [empty_like(np, head) for _ in range(self.outputs)]

    def _shared(self, operands: Results, inputs: int, numbers: Results) -> None:
        """Computes a large array on all cores: by parts of the memory, or of the outermost dimension."""
        shape, order = operands[-1].shape, memory_order(operands[-1])
        operands = [np.broadcast_to(a, shape).transpose(order) for a in operands[:inputs]] + [
            o.transpose(order) for o in operands[inputs:]
        ]
        if all(a.flags.c_contiguous for a in operands):
            operands = [a.reshape(-1) for a in operands]

        def work(i: int, j: int) -> None:
            parts = [a[i:j] for a in operands]
            self.ufunc(*parts[:inputs], *numbers, out=tuple(parts[inputs:]))

        rows = len(operands[0])
        Blocks(rows, operands[0].size // rows, 1).run(work)
