"""The code of a group: a joined Program (joined.py) for arrays of one shape, as a compiled call runs it.

Native code is a NumPy ufunc. Small arrays call it themselves, large ones go to all cores. Until it is compiled, and
without llvmlite, NumPy code runs, with the same bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.memory_format import row_major
from ..cpu import pool
from ..cpu.rows import Blocks
from .lowering import Program
from .native.switch import Kernel, switch_of
from .numpy_code import NumpyCode

PER_CALL = 1 << 16  # what a call counts beside its elements: native code is compiled at the 64th call at the latest
Outputs = Sequence[np.ndarray | None]


class GroupCode:
    """Computes the outputs of arrays of `shape`; they are row-major.

    The arguments are inputs, the last of them of that shape, then numbers as arrays of one element. `out` has an array,
    or None, for each output. `becomes(f)` tells what takes the place of this object once there is native code.
    """

    def __init__(self, name: str, program: Program, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.name, self.program, self.dtype, self.shape = name, program, dtype, shape
        self.inputs, self.outputs = len(program.inputs), len(program.outputs)
        self.switch = switch_of(name, program, PER_CALL)
        self.homes: list[Callable[[Any], None]] = []

    @functools.cached_property
    def code(self) -> NumpyCode:
        """The NumPy code, which is not written if native code is on disk."""
        code = NumpyCode(self.name, self.program, self.dtype)
        code.native = None
        return code

    def becomes(self, tell: Callable[[Any], None]) -> None:
        self.homes.append(tell)

    def __call__(self, *arrays: np.ndarray, out: Outputs | None = None) -> Any:
        inputs, numbers = arrays[: self.inputs], arrays[self.inputs :]
        results: Any = None
        if self.switch is not None:
            results = self.switch(inputs, numbers)
            if self.switch.is_ready(self.dtype):
                self._settle(self.switch.runs[self.dtype])
        if results is None:
            with np.errstate(all="ignore"):  # as native code
                results = self.code(inputs, (*[n.reshape(()) for n in numbers], *self.code.constants))
            results = [r if r.flags.c_contiguous else row_major(r) for r in results]
            results = [r.copy() if any(r is x for x in (*arrays, *results[:k])) else r for k, r in enumerate(results)]
        if out is not None:
            for result, target in zip(results, out, strict=True):
                if target is not None:
                    target[...] = result
            results = [result if target is None else target for result, target in zip(results, out, strict=True)]
        return results[0] if self.outputs == 1 else results

    @property
    def kernel(self) -> Any:
        """The native code, or None."""
        ready = self.switch is not None and self.switch.is_ready(self.dtype)
        return self.switch.runs[self.dtype] if ready else None  # type: ignore[union-attr]

    @property
    def is_small(self) -> bool:
        """Whether the arrays are neither pooled nor shared by threads."""
        size = math.prod(self.shape) * self.dtype.itemsize
        return size < pool.SMALLEST and not Blocks(1, size, 1).shared

    def _settle(self, kernel: Any) -> None:
        """Native code takes the place of this object."""
        for tell in self.homes:
            tell(kernel.ufunc if self.is_small else Large(kernel, self.shape, self.inputs))
        self.homes.clear()


class Large:
    """The native code of a group for arrays in pooled memory, on all cores."""

    def __init__(self, kernel: Kernel, shape: tuple[int, ...], inputs: int) -> None:
        self.kernel, self.shape, self.inputs = kernel, shape, inputs

    def __call__(self, *arrays: np.ndarray, out: Outputs | None = None) -> Any:
        inputs, numbers = arrays[: self.inputs], arrays[self.inputs :]
        given = out or (None,) * self.kernel.outputs
        made = [pool.empty(self.shape, arrays[0].dtype) if o is None else o for o in given]
        results = self.kernel(inputs, numbers, made)
        return results[0] if self.kernel.outputs == 1 else results
