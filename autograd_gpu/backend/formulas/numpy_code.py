"""NumPy code of a Program: two generated functions (numpy_source.py) with equal results, bit by bit.

Few elements are computed by one call per instruction, many by blocks that stay in the cache. Errors of arithmetic are
silent, because both sides of a select run, and because exp(-x) may overflow where 1 / (1 + exp(-x)) is a good 0.
"""

from __future__ import annotations

import contextvars
import threading
import types
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.dtypes import as_dtype, float32
from ..arrays.memory_format import empty_like, memory_order
from ..cpu import numpy_ops, pool
from ..cpu.half import convert
from ..cpu.rows import SHARED_BLOCK, Blocks
from .lowering import HALF_FUNCTIONS, ROUNDINGS, Operand, Program
from .native.switch import SETTING, switch_of
from .numpy_source import BlockWriter, called, defined, each_source, source

FEW = 1 << 11  # elements up to which the form without blocks is faster
BLOCK = 1 << 15  # elements
SHORT = 5  # instructions up to which a block has SHARED_BLOCK elements, so that calls of NumPy do not count
CALM = frozenset(("minimum", "maximum", "tanh", "neg", "abs", "sigmoid", "normal_cdf"))  # without errors of arithmetic
WIDE = 1 << 16  # elements of half types that are converted at a time, for which arrays are allocated
Vectors = Sequence[np.ndarray]

UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.absolute,
    "sign": np.sign, "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "minimum": np.minimum, "maximum": np.maximum, "pow": np.power,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "or": np.logical_or, "and": np.logical_and,
}  # fmt: skip


def _quiet() -> contextvars.Context:
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


QUIET = _quiet()  # where errors of arithmetic are ignored; running in a copy takes a tenth of np.errstate


def _of_scipy(program: Program) -> dict[str, Any]:
    """SciPy's functions that the program calls; importing SciPy takes long."""
    names = {"normal_cdf": "ndtr", "sigmoid": "expit"}
    asked = {i.op for i in program.instructions} & {*names}
    return {op: getattr(numpy_ops.special(), names[op]) for op in asked}


def computed(
    xp: Any, program: Program, arrays: Sequence[Any], numbers: Sequence[Any], constants: Sequence[Any] | None = None
) -> list[Any]:  # fmt: skip
    """The outputs of a program as new arrays, by a call of the array module `xp`, such as CuPy, per instruction."""
    known = dict(zip([Operand("i", k) for k in range(len(arrays))], arrays, strict=True))
    known |= {Operand("n", k): value for k, value in enumerate(numbers)}
    known |= {Operand("c", k): value for k, value in enumerate(program.constants if constants is None else constants)}
    for k, (op, args) in enumerate(program.instructions):
        operands = [known[a] for a in args]
        if op in ROUNDINGS:
            known[Operand("t", k)] = convert(convert(operands[0], as_dtype(op)), operands[0].dtype)
        elif op in HALF_FUNCTIONS:
            function, half = HALF_FUNCTIONS[op]
            known[Operand("t", k)] = convert(UFUNCS[function](convert(operands[0], as_dtype(half))), operands[0].dtype)
        else:
            known[Operand("t", k)] = getattr(xp, "where" if op == "select" else UFUNCS[op].__name__)(*operands)
    return [known[o] for o in program.outputs]


def computed_in_float32(
    program: Program, arrays: Sequence[np.ndarray], numbers: Sequence[np.ndarray], dtypes: Sequence[np.dtype]
) -> list[np.ndarray]:
    """The outputs of a program that rounds to half types on its way (ROUNDINGS), in these dtypes."""
    with np.errstate(all="ignore"):
        constants = [np.float32(c) for c in program.constants]
        inputs, numbers = ([convert(a, float32) for a in listed] for listed in (arrays, numbers))
        outputs = computed(np, program, inputs, numbers, constants)
        return [np.asarray(convert(out, dtype)) for out, dtype in zip(outputs, dtypes, strict=True)]


def executed(name: str, text: str, dtype: np.dtype, library: dict[str, Any]) -> dict[str, Any]:
    """The functions that the generated text defines for arrays of this dtype; `name` says in tracebacks whose it is."""
    bits = np.dtype(f"u{dtype.itemsize}")
    scope: dict[str, Any] = {
        **{called(op): ufunc for op, ufunc in UFUNCS.items()}, "where": np.where, "copyto": np.copyto,
        "clip": np.clip, "bitwise_xor": np.bitwise_xor, "multiply": np.multiply, "logical_not": np.logical_not,
        "BITS": bits, "ONE": np.asarray(1, dtype).view(bits), **library,
    }  # fmt: skip
    return defined(f"<formula {name} for {dtype}>", text, scope)


class NumpyCode:
    """The functions of a program for float32 or float64 arrays; half types are computed in float32, rounded once.

    `name` says in tracebacks where the code comes from; `numbers(values)` makes what `few` and `block` get.
    """

    def __init__(self, name: str, program: Program, dtype: np.dtype) -> None:
        self.name, self.program, self.dtype = name, program, np.dtype(dtype)
        writer, text = BlockWriter(program), source(program)
        self.scratch_types = [self.dtype] * writer.floats.count + [np.dtype(bool)] * writer.flags.count
        self.scratch = threading.local()
        self.passes_inputs = any(o.kind == "i" for o in program.outputs)
        self.step = SHARED_BLOCK if len(program.instructions) <= SHORT else BLOCK
        self.is_calm = all(i.op in CALM for i in program.instructions)
        # The numbers that `block` reads as vectors, by their places among numbers and constants.
        self.wide = [a.place + (a.kind == "c") * len(program.numbers) for a in writer.wide]
        library = _of_scipy(program)
        self.ufunc = self._ufunc_of({**UFUNCS, **library})
        scope = executed(name, text, self.dtype, library)
        self.block: Callable[..., None] = scope["block"]
        self.few: Callable[..., tuple[Any, ...]] = scope["few"]
        self.constants = tuple([np.asarray(c, self.dtype) for c in program.constants])
        self.numbers = lru_cache(256)(self._numbers)
        self.native = switch_of(name, program)

    def _numbers(self, **numbers: float) -> tuple[np.ndarray, ...]:
        """The numbers and constants as 0-d arrays, whose ufunc calls take half the time of Python's numbers."""
        with np.errstate(over="ignore"):  # a number beyond float32 is infinite
            return (*[np.asarray(v, self.dtype) for v in self.program.values(**numbers)], *self.constants)

    def _ufunc_of(self, ufuncs: dict[str, Any]) -> Any:
        """The ufunc that is the whole program, called with its inputs, numbers and constants; None if none is."""
        program = self.program
        if len(program.instructions) != 1 or not self.is_calm or [a.kind for a in program.outputs] != ["t"]:
            return None
        (whole,) = program.instructions
        return ufuncs.get(whole.op) if list(whole.args) == program.operands else None

    def few_alone(self, numbers: tuple[np.ndarray, ...]) -> Callable[..., Any] | None:
        """What computes the one output of few elements, of the arrays alone; None if there is no such function."""
        if len(self.program.outputs) > 1 or self.passes_inputs:
            return None
        text, library = each_source(self.program, takes_out=False), _of_scipy(self.program)
        each = executed(self.name, text, self.dtype, library)["each"]
        bound = types.FunctionType(each.__code__, each.__globals__, self.name, numbers)
        run = bound if self.ufunc is None or numbers else self.ufunc
        return run if self.is_calm else lambda *arrays: QUIET.copy().run(run, *arrays)

    def __call__(
        self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...], out: Vectors | None = None
    ) -> Vectors:
        """The outputs for arrays of one dtype, which may broadcast; they have the first large array's memory order.

        They are written into `out`, contiguous arrays of their shape and dtype, if that is given.
        """
        if SETTING.on and self.native is not None:
            native = self.native(arrays, numbers, out)
            if native is not None:
                return native
        last = arrays[-1]
        if last.size > FEW:
            return self._many(arrays, numbers, out)
        if out is not None:
            return _copied(self(arrays, numbers), out)
        if last.dtype is not self.dtype:
            return self._few_halves(arrays, numbers)
        few: Any = self.few
        results = few(*arrays, *numbers) if self.is_calm else QUIET.copy().run(few, *arrays, *numbers)
        if self.passes_inputs:
            results = [np.copy(r, order="K") if any(r is a for a in arrays) else r for r in results]
        return results if last.ndim else [*map(np.asarray, results)]  # ufuncs make scalars of 0-d arrays

    def kernel(self, dtype: np.dtype) -> Any:
        """The native code for arrays of this dtype; None until it is there."""
        return self.native.runs[dtype] if self.native is not None and self.native.is_ready(dtype) else None

    def _few_halves(self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...]) -> Sequence[np.ndarray]:
        wide = [convert(a, self.dtype) for a in arrays]
        return [convert(result, arrays[0].dtype) for result in self(wide, numbers)]

    def _many(
        self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...], out: Vectors | None = None
    ) -> Vectors:
        head = arrays[-1]
        regular = all(a.shape == head.shape and a.flags.c_contiguous for a in arrays)
        if not regular:
            arrays = [_as_number(a) for a in arrays]
            regular = all(not a.ndim or (a.shape == head.shape and a.flags.c_contiguous) for a in arrays)
        if not regular:
            head, flat = _flat(arrays)
            made, order = [empty_like(np, head) for _ in self.program.outputs], memory_order(head)
            self._compute(flat, [o.transpose(order).reshape(-1) for o in made], numbers)
            return made if out is None else _copied(made, out)
        outputs = out or [pool.empty(head.shape, head.dtype) for _ in self.program.outputs]
        flat = [a.reshape(-1) if a.ndim else a for a in arrays]
        self._compute(flat, [o.reshape(-1) for o in outputs], numbers)
        return outputs

    def _compute(self, flat: Vectors, targets: Vectors, numbers: Vectors) -> None:
        """The targets from vectors and 0-d arrays: in one block, in blocks, or in blocks on all cores."""
        size, dtype = targets[0].size, targets[0].dtype
        if size <= self.step and dtype == self.dtype:
            registers = [*self._registers(size), *self._vectors(numbers, size)]
            QUIET.copy().run(self.block, *flat, *numbers, *targets, *registers)
            return
        blocks = Blocks(size, 1, self.step)
        walk = self._walk if dtype == self.dtype else self._walk_halves
        if blocks.shared:
            blocks.run(lambda i, j: QUIET.copy().run(walk, flat, targets, numbers, i, j, blocks.step))
        else:
            QUIET.copy().run(walk, flat, targets, numbers, 0, size, blocks.step)

    def _walk(self, flat: Vectors, targets: Vectors, numbers: Vectors, start: int, stop: int, step: int) -> None:
        """The elements from start to stop, by blocks of `step`."""
        block, vectors, count = self.block, [*flat, *targets], len(flat)
        size = min(step, stop - start)
        registers = [*self._registers(size), *self._vectors(numbers, size)]
        for i in range(start, stop, size):
            j = min(i + size, stop)
            if j - i < size:
                registers = [r[: j - i] for r in registers]
            parts = [v[i:j] if v.ndim else v for v in vectors]
            block(*parts[:count], *numbers, *parts[count:], *registers)

    def _vectors(self, numbers: Vectors, size: int) -> list[np.ndarray]:
        """The numbers that `block` reads as vectors."""
        return [full(numbers[place].tobytes(), self.dtype)[:size] for place in self.wide]

    def _walk_halves(self, flat: Vectors, targets: Vectors, numbers: Vectors, start: int, stop: int, step: int) -> None:
        for i in range(start, stop, WIDE):
            j = min(i + WIDE, stop)
            results = [np.empty(j - i, self.dtype) for _ in targets]
            self._walk([convert(v[i:j] if v.ndim else v, self.dtype) for v in flat], results, numbers, 0, j - i, step)
            for target, result in zip(targets, results, strict=True):
                target[i:j] = convert(result, target.dtype)

    def _registers(self, size: int) -> list[np.ndarray]:
        """This thread's registers, of this size."""
        arrays: list[np.ndarray] | None = getattr(self.scratch, "arrays", None)
        if arrays is None or (arrays and arrays[0].size < size):
            arrays = self.scratch.arrays = [np.empty(size, dtype) for dtype in self.scratch_types]
        return arrays if not arrays or arrays[0].size == size else [a[:size] for a in arrays]


def _copied(results: Vectors, out: Vectors) -> Vectors:
    for result, target in zip(results, out, strict=True):
        np.copyto(target, result)
    return out


@lru_cache(16)
def full(value: bytes, dtype: np.dtype) -> np.ndarray:
    """A vector of equal numbers, as long as the longest block; by bytes, since 0.0 == -0.0."""
    return np.full(SHARED_BLOCK, np.frombuffer(value, dtype)[0])


def _as_number(a: np.ndarray) -> np.ndarray:
    """An array whose elements are one place in memory, such as an expanded gradient, as a 0-d array."""
    return a if any(a.strides) or not a.ndim else a[(slice(1),) * a.ndim].reshape(())


def _flat(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The array whose memory order the results have, and all arrays broadcast, as vectors in that order."""
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    head = next((a for a in arrays if a.shape == shape), None)
    if head is None:
        head = np.broadcast_to(arrays[0], shape).copy()
    order = memory_order(head)
    return head, [np.broadcast_to(a, shape).transpose(order).reshape(-1) for a in arrays]
