"""A Program as one call of an array module per instruction, for derivatives that have no CUDA kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays.dtypes import HALF, float32
from ..cpu.half import convert
from .lowering import Program
from .numpy_code import UFUNCS

Array = Any


def called(program: Program, xp: Any, arrays: Sequence[Array], **numbers: float) -> list[Array]:
    """The outputs for arrays of the module xp, which broadcast; half types are computed in float32, rounded once."""
    dtype = arrays[0].dtype
    inputs = [convert(a, float32) if dtype in HALF else a for a in arrays]
    tables: dict[str, Any] = {"i": inputs, "n": program.values(**numbers), "c": program.constants, "t": []}
    for instruction in program.instructions:
        args = [tables[a.kind][a.place] for a in instruction.args]
        if instruction.op == "normal_cdf":
            raise NotImplementedError("normal_cdf in float64 has no function in CuPy; write a CUDA kernel for the op")
        name = "where" if instruction.op == "select" else UFUNCS[instruction.op].__name__
        tables["t"].append(getattr(xp, name)(*args))
    results = [tables[o.kind][o.place] for o in program.outputs]
    return [convert(r, dtype) for r in results]
