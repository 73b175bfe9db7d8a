"""NumPy code of a Program: two generated functions with equal results, bit by bit.

Few elements are computed by one call per instruction. Many go by blocks that stay in the cache: every instruction
writes into a register, an array of a block that a later instruction reuses. Errors of arithmetic are silent, because
both sides of a select run, and because exp(-x) may overflow where 1 / (1 + exp(-x)) is a good 0.
"""

from __future__ import annotations

import contextvars
import linecache
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.memory_format import empty_like, memory_order
from ..cpu import numpy_ops
from ..cpu.half import convert
from ..cpu.rows import Blocks
from .lowering import Instruction, Operand, Program
from .native.switch import switch_of

FEW = 1 << 11  # elements up to which the form without blocks is faster
BLOCK = 1 << 14  # elements
WIDE = 1 << 16  # elements of half types that are converted at a time, for which arrays are allocated
Vectors = Sequence[np.ndarray]

UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.absolute,
    "sign": np.sign, "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "minimum": np.minimum, "maximum": np.maximum, "pow": np.power,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "or": np.logical_or, "and": np.logical_and,
}  # fmt: skip


def _normal_cdf(x: Any, out: Any = None) -> Any:
    return numpy_ops.special().ndtr(x, out)


def _quiet() -> contextvars.Context:
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


QUIET = _quiet()  # where errors of arithmetic are ignored; running in a copy takes a tenth of np.errstate


# ---- source --------------------------------------------------------------------------------------------


class _Registers:
    """Names of arrays of a block: a result gets the one that was given back last, or a new one.

    `outputs` are free until the instruction that claims them.
    """

    def __init__(self, letter: str, outputs: Sequence[str] = ()) -> None:
        self.letter, self.free, self.count = letter, [*outputs], 0

    def claim(self, name: str) -> str:
        """This register, or another if it is in use."""
        if name not in self.free:
            return self.take()
        self.free.remove(name)
        return name

    def take(self) -> str:
        if self.free:
            return self.free.pop()
        self.count += 1
        return f"{self.letter}{self.count - 1}"


class _BlockWriter:
    """Writes the function for a block. Outputs o0, o1, ... are registers, too."""

    def __init__(self, program: Program) -> None:
        self.program, self.lines = program, list[str]()
        self.floats, self.flags = _Registers("f", [f"o{k}" for k in range(len(program.outputs))]), _Registers("b")
        self.places: dict[Operand, str] = {}
        self.own = {o: f"o{k}" for k, o in reversed([*enumerate(program.outputs)]) if o.kind == "t"}
        for k, instruction in enumerate(program.instructions):
            self._write(k, instruction)
        self._copy({f"o{k}": self._place(o) for k, o in enumerate(program.outputs)})

    def _copy(self, sources: dict[str, str]) -> None:
        """Copies to outputs what ended up elsewhere. An output that holds another one's result is copied first."""
        left = {target: source for target, source in sources.items() if target != source}
        while left:
            target = next((t for t in left if t not in left.values()), None)
            if target is None:  # a circle: one of them moves out of the way
                target, moved = next(iter(left)), self.floats.take()
                self.lines.append(f"copyto({moved}, {target})")
                left = {t: moved if source == target else source for t, source in left.items()}
            self.lines.append(f"copyto({target}, {left.pop(target)})")

    def _place(self, operand: Operand) -> str:
        return self.places.get(operand, str(operand))

    def _write(self, k: int, instruction: Instruction) -> None:
        result, args = Operand("t", k), [self._place(a) for a in instruction.args]
        if instruction.op == "select":  # the result may overwrite a, but not b, nor the mask
            _, a, b = instruction.args
            mask = self.floats.take()
            self._give_back(k, [a] if a != b else [])
            self.places[result] = self._take(result, instruction)
            self._select(self.places[result], mask, *args)
            self._give_back(k, [x for x in instruction.args if x != a or a == b])
            self.floats.free.append(mask)
        else:
            self._give_back(k, instruction.args)
            self.places[result] = self._take(result, instruction)
            self.lines.append(f"{_called(instruction.op)}({', '.join(args)}, out={self.places[result]})")

    def _take(self, result: Operand, instruction: Instruction) -> str:
        if instruction.is_condition:
            return self.flags.take()
        own = self.own.get(result)
        return self.floats.take() if own is None else self.floats.claim(own)

    def _give_back(self, k: int, args: Sequence[Operand]) -> None:
        """The registers of those that no instruction after k reads."""
        for a in dict.fromkeys(args):
            if a.kind == "t" and self.program.last_uses[a] == k:
                registers = self.flags if self.program.instructions[a.place].is_condition else self.floats
                registers.free.append(self.places[a])

    def _select(self, out: str, mask: str, condition: str, a: str, b: str) -> None:
        """b ^ (mask * (a ^ b)) on bits: a branch per element takes up to 20 times as long for a random condition."""
        self.lines += [
            f"copyto({mask}.view(BITS), {condition})",
            f"bitwise_xor({a}.view(BITS), {b}.view(BITS), {out}.view(BITS))",
            f"multiply({mask}.view(BITS), {out}.view(BITS), {out}.view(BITS))",
            f"bitwise_xor({out}.view(BITS), {b}.view(BITS), {out}.view(BITS))",
        ]


def _called(op: str) -> str:
    """The name of an operation in generated code."""
    return {"select": "where", "or": "logical_or", "and": "logical_and"}.get(op, op)


def _parameters(program: Program) -> list[str]:
    inputs = [f"i{k}" for k in range(len(program.inputs))]
    numbers = [f"n{k}" for k in range(len(program.numbers))]
    return [*inputs, *numbers, *[f"c{k}" for k in range(len(program.constants))]]


def source(program: Program) -> str:
    """The two functions as Python, `block` and `few`."""
    writer, parameters = _BlockWriter(program), _parameters(program)
    arrays = [f"o{k}" for k in range(len(program.outputs))]
    arrays += [f"{r.letter}{k}" for r in (writer.floats, writer.flags) for k in range(r.count)]
    lines = [f"def block({', '.join([*parameters, *arrays])}):", *[f"    {line}" for line in writer.lines or ["pass"]]]
    lines += ["", f"def few({', '.join(parameters)}):"]
    for k, instruction in enumerate(program.instructions):
        lines.append(f"    t{k} = {_called(instruction.op)}({', '.join(map(str, instruction.args))})")
    return "\n".join([*lines, f"    return {', '.join(map(str, program.outputs))},", ""])


# ---- code ----------------------------------------------------------------------------------------------


class NumpyCode:
    """The functions of a program for float32 or float64 arrays; half types are computed in float32, rounded once.

    `name` says in tracebacks where the code comes from; `numbers(values)` makes what `few` and `block` get.
    """

    def __init__(self, name: str, program: Program, dtype: np.dtype) -> None:
        self.program, self.dtype = program, np.dtype(dtype)
        writer, text = _BlockWriter(program), source(program)
        self.scratch_types = [self.dtype] * writer.floats.count + [np.dtype(bool)] * writer.flags.count
        self.scratch = threading.local()
        self.passes_inputs = any(o.kind == "i" for o in program.outputs)
        scope: dict[str, Any] = {
            **{_called(op): ufunc for op, ufunc in UFUNCS.items()}, "normal_cdf": _normal_cdf,
            "where": np.where, "copyto": np.copyto, "bitwise_xor": np.bitwise_xor,
            "multiply": np.multiply, "BITS": np.dtype(f"u{self.dtype.itemsize}"),
        }  # fmt: skip
        file = f"<formula {name} for {self.dtype}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), scope)
        self.block: Callable[..., None] = scope["block"]
        self.few: Callable[..., tuple[Any, ...]] = scope["few"]
        self.constants = tuple([np.asarray(c, self.dtype) for c in program.constants])
        self.numbers = lru_cache(256)(self._numbers)
        self.native = switch_of(name, program)

    def _numbers(self, **numbers: float) -> tuple[np.ndarray, ...]:
        """The numbers and constants as 0-d arrays, whose ufunc calls take half the time of Python's numbers."""
        with np.errstate(over="ignore"):  # a number beyond float32 is infinite
            return (*[np.asarray(v, self.dtype) for v in self.program.values(**numbers)], *self.constants)

    def __call__(self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...]) -> Sequence[np.ndarray]:
        """The outputs for arrays of one dtype, which may broadcast; they have the first large array's memory order."""
        if self.native is not None:
            native = self.native(arrays, numbers)
            if native is not None:
                return native
        last = arrays[-1]
        if last.size > FEW:
            return self._many(arrays, numbers)
        if last.dtype is not self.dtype:
            return self._few_halves(arrays, numbers)
        results: Any = QUIET.copy().run(self.few, *arrays, *numbers)
        if self.passes_inputs:
            results = [np.copy(r, order="K") if any(r is a for a in arrays) else r for r in results]
        return results if last.ndim else [*map(np.asarray, results)]  # ufuncs make scalars of 0-d arrays

    def _few_halves(self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...]) -> Sequence[np.ndarray]:
        wide = [convert(a, self.dtype) for a in arrays]
        return [convert(result, arrays[0].dtype) for result in self(wide, numbers)]

    def _many(self, arrays: Sequence[np.ndarray], numbers: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        head, flat = _flat(arrays)
        outputs = [empty_like(np, head) for _ in self.program.outputs]
        order = memory_order(head)
        targets = [o.transpose(order).reshape(-1) for o in outputs]
        blocks = Blocks(head.size, 1, BLOCK)
        walk = self._walk if head.dtype == self.dtype else self._walk_halves
        if blocks.shared:
            blocks.run(lambda i, j: QUIET.copy().run(walk, flat, targets, numbers, i, j, blocks.step))
        else:
            QUIET.copy().run(walk, flat, targets, numbers, 0, head.size, blocks.step)
        return outputs

    def _walk(self, flat: Vectors, targets: Vectors, numbers: Vectors, start: int, stop: int, step: int) -> None:
        """The elements from start to stop, by blocks of `step`."""
        vectors, block = [*flat, *targets], self.block
        count, registers = len(flat), self._registers(min(step, stop - start))
        for i in range(start, stop, step):
            if stop - i < step:
                registers = [r[: stop - i] for r in registers]
            parts = [v[i : min(i + step, stop)] for v in vectors]
            block(*parts[:count], *numbers, *parts[count:], *registers)

    def _walk_halves(self, flat: Vectors, targets: Vectors, numbers: Vectors, start: int, stop: int, step: int) -> None:
        for i in range(start, stop, WIDE):
            j = min(i + WIDE, stop)
            results = [np.empty(j - i, self.dtype) for _ in targets]
            self._walk([convert(v[i:j], self.dtype) for v in flat], results, numbers, 0, j - i, step)
            for target, result in zip(targets, results, strict=True):
                target[i:j] = convert(result, target.dtype)

    def _registers(self, size: int) -> list[np.ndarray]:
        """This thread's registers, of this size."""
        arrays: list[np.ndarray] | None = getattr(self.scratch, "arrays", None)
        if arrays is None or (arrays and arrays[0].size < size):
            arrays = self.scratch.arrays = [np.empty(size, dtype) for dtype in self.scratch_types]
        return arrays if not arrays or arrays[0].size == size else [a[:size] for a in arrays]


def _flat(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The array whose memory order the results have, and all arrays broadcast, as vectors in that order."""
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    head = next((a for a in arrays if a.shape == shape), None)
    if head is None:
        head = np.broadcast_to(arrays[0], shape).copy()
    order = memory_order(head)
    return head, [np.broadcast_to(a, shape).transpose(order).reshape(-1) for a in arrays]
