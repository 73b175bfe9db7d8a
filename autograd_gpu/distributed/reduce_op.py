"""ReduceOp: how the arrays of the ranks become one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NoReturn

import numpy as np

from .. import backend
from ..backend.arrays import dtypes


class _Absent:
    """In the place of an operation of PyTorch's that is not here; no member of the Enum, since it is a descriptor."""

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError("ReduceOp.PREMUL_SUM is not here: multiply the tensor by the factor, and use ReduceOp.SUM")


class ReduceOp(Enum):
    """How elements of several ranks are combined.

    Half-precision elements are combined in float32 and rounded once. A sum or maximum of bools is their `or`, a product
    or minimum their `and`.
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
    PREMUL_SUM = _Absent()


_UFUNCS = {
    ReduceOp.SUM: "add", ReduceOp.AVG: "add", ReduceOp.PRODUCT: "multiply", ReduceOp.MIN: "minimum",
    ReduceOp.MAX: "maximum", ReduceOp.BAND: "bitwise_and", ReduceOp.BOR: "bitwise_or", ReduceOp.BXOR: "bitwise_xor",
}  # fmt: skip
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def check(function: str, op: Any, dtype: np.dtype) -> None:
    """TypeError unless `op` is a ReduceOp that elements of `dtype` have."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{function}: op must be a ReduceOp such as ReduceOp.SUM, not {op!r}")
    if dtype in dtypes.STORAGE:
        raise TypeError(f"{function}: {dtype} has no arithmetic; convert with .to(float32) first")
    if op in _BITWISE and dtype in dtypes.FLOATS:
        raise TypeError(f"{function}: ReduceOp.{op.name} needs integers or bools, and the tensor is {dtype}")
    if op is ReduceOp.AVG and dtype not in dtypes.FLOATS:
        raise TypeError(f"{function}: ReduceOp.AVG needs floating-point elements, and the tensor is {dtype}; use SUM "
                        "and divide")


def fold(parts: Sequence[Any], out: Any, op: ReduceOp) -> None:
    """Writes the reduction of `parts` into `out`, in their order: equal bits in every run."""
    ufunc, wide = getattr(backend.namespace(out), _UFUNCS[op]), dtypes.wide(dtypes.OURS[out.dtype])
    result = out if wide == out.dtype else parts[0].astype(wide)
    if len(parts) == 1:
        result[...] = parts[0]
    else:
        ufunc(parts[0], parts[1], out=result, dtype=wide, casting="unsafe")
        for part in parts[2:]:
            ufunc(result, part, out=result, dtype=wide, casting="unsafe")
    if op is ReduceOp.AVG:
        result /= result.dtype.type(len(parts))
    if result is not out:
        out[...] = result
