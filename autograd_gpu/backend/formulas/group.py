"""The code of a group: a joined Program (joined.py) for arrays of one shape, as a compiled call runs it.

Native code is a NumPy ufunc. Small arrays call it themselves, large ones go to all cores. Until it is compiled, and
without llvmlite, NumPy code runs, with the same bits. A group of half types is computed in float32, and rounds where
its ops do; its arrays may be of several dtypes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.dtypes import float32, float64
from ..arrays.memory_format import row_major
from ..cpu import pool
from ..cpu.rows import Blocks
from .lowering import ROUNDINGS, Program
from .native.switch import Kernel, Switch, as_bits, is_there
from .numpy_code import NumpyCode, computed_in_float32

PER_CALL = 1 << 16  # what a call counts beside its elements: native code is compiled at the 64th call at the latest
Outputs = Sequence[np.ndarray | None]


class _Switch(Switch):
    """The native code of a group for arrays of these dtypes: inputs, numbers and outputs."""

    def __init__(self, name: str, program: Program, types: Sequence[np.dtype]) -> None:
        super().__init__(name, program, PER_CALL)
        self.own = types

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return self.own


class GroupCode:
    """Computes the outputs of arrays of `shape`; they are row-major.

    The arguments are inputs, the last of them of that shape, then numbers as arrays of one element. `out` has an array,
    or None, for each output. `becomes(f)` tells what takes the place of this object once there is native code. `types`
    are the dtypes of inputs, numbers and outputs, `dtype` that of the computation.
    """

    def __init__(self, name: str, program: Program, types: Sequence[np.dtype], shape: tuple[int, ...]) -> None:
        self.name, self.program, self.types, self.shape = name, program, types, shape
        self.dtype = float64 if float64 in types else float32
        self.inputs, self.outputs = len(program.inputs), len(program.outputs)
        self.switch = _Switch(name, program, types) if is_there(program) else None
        self.homes: list[Callable[[Any], None]] = []

    @functools.cached_property
    def rounds(self) -> bool:
        """Whether half types are in it, as arrays or between instructions."""
        return set(self.types) != {self.dtype} or any(i.op in ROUNDINGS for i in self.program.instructions)

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
            run = self.switch.running(self.dtype, math.prod(self.shape))
            if run is not None:
                results = run(inputs, numbers, made(self.types[-self.outputs :], self.shape, None, pool.empty))
            if self.switch.is_ready(self.dtype):
                self._settle(self.switch.runs[self.dtype])
        if results is None:
            results = self._by_numpy(inputs, [n.reshape(()) for n in numbers])
            results = [r if r.flags.c_contiguous else row_major(r) for r in results]
            results = [r.copy() if any(r is x for x in (*arrays, *results[:k])) else r for k, r in enumerate(results)]
        if out is not None:
            for result, target in zip(results, out, strict=True):
                if target is not None:
                    target[...] = result
            results = [result if target is None else target for result, target in zip(results, out, strict=True)]
        return results[0] if self.outputs == 1 else results

    def _by_numpy(self, inputs: Sequence[np.ndarray], numbers: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if self.rounds:
            return computed_in_float32(self.program, inputs, numbers, self.types[-self.outputs :])
        with np.errstate(all="ignore"):  # as native code
            return self.code(inputs, (*numbers, *self.code.constants))

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
        small = Bits(kernel, self.shape) if kernel.has_bits else kernel.ufunc
        for tell in self.homes:
            tell(small if self.is_small else Large(kernel, self.shape, self.inputs))
        self.homes.clear()


class Large:
    """The native code of a group for arrays in pooled memory, on all cores."""

    def __init__(self, kernel: Kernel, shape: tuple[int, ...], inputs: int) -> None:
        self.kernel, self.shape, self.inputs = kernel, shape, inputs

    def __call__(self, *arrays: np.ndarray, out: Outputs | None = None) -> Any:
        inputs, numbers = arrays[: self.inputs], arrays[self.inputs :]
        results = made(self.kernel.types[-self.kernel.outputs :], self.shape, out, pool.empty)
        self.kernel(inputs, numbers, results)
        return results[0] if len(results) == 1 else results


class Bits:
    """The native code of a group for few elements, some arrays of which are of bfloat16."""

    def __init__(self, kernel: Kernel, shape: tuple[int, ...]) -> None:
        self.kernel, self.shape = kernel, shape

    def __call__(self, *arrays: np.ndarray, out: Outputs | None = None) -> Any:
        results = made(self.kernel.types[-self.kernel.outputs :], self.shape, out, np.empty)
        self.kernel.ufunc(*as_bits(arrays), out=tuple(as_bits(results)))
        return results[0] if len(results) == 1 else results


def made(
    dtypes: Sequence[np.dtype], shape: tuple[int, ...], out: Outputs | None, empty: Callable[..., np.ndarray]
) -> list[np.ndarray]:
    """The arrays of `out`, with new ones in place of None."""
    listed = zip(out or (None,) * len(dtypes), dtypes, strict=True)
    return [empty(shape, dtype) if o is None else o for o, dtype in listed]
