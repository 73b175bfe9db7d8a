"""Half types in groups on the CPU: where native code may compute them, and whether it has the bits of eager code.

Eager code computes an instruction on half types in float32 and rounds its results, or leaves both to NumPy, whose
functions of half types may be others than those of float32, and depend on its version and on the processor. So a
formula is tried on numbers of all kinds, all 65,536 of them if it has one operand, before it is a part of groups.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import as_dtype, bfloat16, float16, float32
from ...backend.cpu.half import convert
from ...backend.formulas.joined import Joined
from ...backend.formulas.lowering import HALF_FUNCTIONS, Instruction, Operand, Program
from ...backend.formulas.native import switch
from ...backend.formulas.numpy_code import computed_in_float32
from ...core.declare.op import OpDef
from ..graph import Value

LIMITS = {bfloat16: (0x80, 0x7F80), float16: (0x400, 0x7C00)}  # the bits of the least normal number, and of infinity
DRAWN = 224  # numbers of any kind among those that are combined
MOST = 1 << 16  # combinations


def are_native(dtype: np.dtype) -> bool:
    """Whether groups may compute a half type. NumPy's code for one would be slower than eager code."""
    return switch.is_on() and (dtype != float16 or switch.converts_float16())


def rounded(part: Any, tries: bool) -> Any:
    """The part with a program that rounds where eager code does; None if none has been seen to have its bits.

    A fused rule runs the program itself, and a choice computes nothing, so they are not tried; NumPy rounds the numbers
    that a choice reads.
    """
    dtype = as_dtype(part.rounding)
    if not tries and any(not isinstance(a, Value) and not _is_exact(a, dtype) for a in part.operands):
        return None
    operands = tuple([a.dtype if isinstance(a, Value) else (type(a), float(a).hex()) for a in part.operands])
    named, numbers = tuple(sorted(part.node.attributes.items())) if tries else (), part.program.values(**part.numbers)
    op = part.node.op if tries else None
    program = _rounding_program(op, operands, named, part.program, numbers, part.rounding)
    return None if program is None else replace(part, program=program)


@functools.lru_cache(1024)
def _rounding_program(
    op: OpDef | None, operands: Sequence[Any], named: Sequence[tuple[str, Any]], program: Program,
    numbers: Sequence[float], rounding: str,
) -> Program | None:  # fmt: skip
    dtype = as_dtype(rounding)
    ways = _ways(program, numbers, rounding)
    if op is None:
        return next(ways)
    listed = iter(_tried([o for o in operands if isinstance(o, np.dtype)]))
    arguments = [next(listed) if isinstance(o, np.dtype) else _number(o, dtype) for o in operands]
    with np.errstate(all="ignore"):
        eager = op.forward(np, *arguments, **dict(named))
    wide = [convert(a, float32) if isinstance(a, np.ndarray) else np.asarray(a, float32) for a in arguments]
    for whole in ways:
        (computed,) = computed_in_float32(whole, wide, [], [dtype])
        if _same_bits(computed, eager):
            return whole
    return None


def _ways(program: Program, numbers: Sequence[float], rounding: str) -> Iterator[Program]:
    """Programs with the result rounded; with each step rounded; with the operands of maxima and minima exchanged, whose
    order matters for zeros of different sign; and NumPy's function of the half type."""
    turned = [Instruction(i.op, i.args[::-1]) if i.op in ("maximum", "minimum") else i for i in program.instructions]
    inputs = [Operand("i", k) for k, _ in enumerate(program.inputs)]
    for way, each in ((program, None), (program, rounding), (replace(program, instructions=tuple(turned)), None)):
        joined = Joined()
        outputs = [joined.rounded(rounding, o) for o in joined.add(way, inputs, numbers, each)]
        yield replace(joined.program(len(inputs), 0, outputs), inputs=program.inputs)
    if len(program.instructions) == 1 and (name := f"{program.instructions[0].op}.{rounding}") in HALF_FUNCTIONS:
        yield replace(program, instructions=(Instruction(name, program.instructions[0].args),))


def _number(of: tuple[type, str], dtype: np.dtype) -> Any:
    """A number of Python, or the constant of which it is each element."""
    kind, value = of[0], float.fromhex(of[1])
    return kind(value) if kind in (int, float) else np.asarray(value, dtype)


def _is_exact(value: float, dtype: np.dtype) -> bool:
    """Whether a number is one of a half type."""
    with np.errstate(all="ignore"):
        return value != value or float(dtype.type(value)) == value


def _tried(dtypes: Sequence[np.dtype]) -> list[np.ndarray]:
    """Operands of these dtypes: all numbers of one half type; of float32 all upper halves, many of them ties; else
    combinations of zeros, infinities, NaN, subnormals, the ends of the range and any others."""
    codes, random = np.arange(MOST, dtype=np.uint16), np.random.default_rng(0)
    if len(dtypes) == 1 and dtypes[0] == float32:
        lower = random.choice([0, 1, 0x7FFF, 0x8000, 0x8001, 0x0FFF, 0x1000, 0x1001, 0x3000, 0xD000], MOST)
        return [(codes.astype(np.uint32) << 16 | lower.astype(np.uint32)).view(float32)]
    if len(dtypes) == 1:
        return [codes.view(dtypes[0])]
    chosen = [_chosen(dtype, random) for dtype in dtypes]
    if len(dtypes) == 2:
        return [np.repeat(chosen[0], len(chosen[1])), np.tile(chosen[1], len(chosen[0]))]
    return [random.choice(numbers, MOST) for numbers in chosen]


def _chosen(dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    normal, infinity = LIMITS[dtype]
    one = int(np.ones((), dtype).view(np.uint16))
    ends = np.array([0, 1, normal - 1, normal, one, infinity - 1, infinity, infinity + 1], np.uint16)
    return np.concatenate([ends, ends | 0x8000, random.integers(0, MOST, DRAWN, np.uint16)]).view(dtype)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays are equal bit by bit, but for sign and payload of NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    codes, others = a.view(np.uint16), b.view(np.uint16)
    both = ((codes & 0x7FFF) > LIMITS[a.dtype][1]) & ((others & 0x7FFF) > LIMITS[a.dtype][1])
    return bool(((codes == others) | both).all())
