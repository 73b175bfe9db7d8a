"""The dtypes, and PyTorch's promotion rules over NumPy's dtype objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from ...missing_names import explanation

float16: np.dtype = np.dtype("float16")
float32: np.dtype = np.dtype("float32")
float64: np.dtype = np.dtype("float64")
bfloat16: np.dtype = np.dtype(ml_dtypes.bfloat16)
int8: np.dtype = np.dtype("int8")
int16: np.dtype = np.dtype("int16")
int32: np.dtype = np.dtype("int32")
int64: np.dtype = np.dtype("int64")
uint8: np.dtype = np.dtype("uint8")
uint16: np.dtype = np.dtype("uint16")
uint32: np.dtype = np.dtype("uint32")
uint64: np.dtype = np.dtype("uint64")
bool_: np.dtype = np.dtype("bool")
float8_e4m3fn: np.dtype = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2: np.dtype = np.dtype(ml_dtypes.float8_e5m2)
complex64: np.dtype = np.dtype("complex64")  # names only: programs compare dtypes with them, and no tensor has one
complex128: np.dtype = np.dtype("complex128")

NATIVE_FLOATS = frozenset((float16, float32, float64))
FULL_FLOATS = frozenset((float32, float64))
FLOATS = NATIVE_FLOATS | {bfloat16}
HALF = frozenset((float16, bfloat16))  # summed and multiplied in float32, rounded once
INTEGERS = frozenset((int8, int16, int32, int64, uint8, uint16, uint32, uint64))
DIGITS = {float64: 53, float32: 24, float16: 11, bfloat16: 8}  # bits of the significand, the leading one included
STORAGE = frozenset((float8_e4m3fn, float8_e5m2))  # stored, moved and converted only: no arithmetic
ALL = FLOATS | INTEGERS | STORAGE | {bool_}

OURS: dict[np.dtype, np.dtype] = {dtype: dtype for dtype in ALL}  # equal dtype -> our object, which `is` may compare
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}
_ALIASES: dict[object, np.dtype] = {
    "float": float32, "double": float64, "half": float16, "long": int64, "int": int32, "short": int16,
    "bfloat16": bfloat16, "float8_e4m3fn": float8_e4m3fn, "float8_e5m2": float8_e5m2,
    float: float64, int: int64, bool: bool_,
}  # fmt: skip


class _Default:
    dtype = float32


def get_default_dtype() -> np.dtype:
    """The dtype of a tensor made from Python floats.

    >>> ag.get_default_dtype()
    dtype('float32')
    """
    return _Default.dtype


def set_default_dtype(dtype: object) -> None:
    """Sets the dtype of tensors made from Python floats: float16, bfloat16, float32 or float64, else TypeError.

    >>> ag.set_default_dtype(ag.float32)
    """
    resolved = as_dtype(dtype)
    if resolved not in FLOATS:
        raise TypeError(f"set_default_dtype: only floating-point dtypes are supported; got {resolved}")
    _Default.dtype = resolved


def as_dtype(dtype: object) -> np.dtype:
    """`dtype` as one of our dtype objects. Accepts NumPy dtypes, their names, and Python's float, int and bool.

    TypeError for an unsupported dtype.
    """
    if isinstance(dtype, np.dtype) and dtype in OURS:
        return OURS[dtype]
    result = _ALIASES.get(dtype) if isinstance(dtype, (str, type)) else None
    try:
        result = np.dtype(dtype) if result is None else result  # type: ignore[call-overload]
    except TypeError:
        result = None
    if result is not None and result.kind == "c":
        raise TypeError(f"unsupported dtype {result}: {explanation('complex')}")
    if result is None or result not in ALL:
        raise TypeError(f"unsupported dtype {dtype!r}; use one of {', '.join(sorted(map(str, ALL)))}")
    return result


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums of `dtype` are accumulated: float32 for half types, else the dtype itself."""
    return float32 if dtype in HALF else dtype


def computing(dtype: object) -> np.dtype:
    """`dtype` as one of our dtype objects that ops can compute in; TypeError for a storage dtype."""
    resolved = as_dtype(dtype)
    if resolved in STORAGE:
        raise TypeError(f"{resolved} is a storage dtype without arithmetic; make float32 and convert with .to()")
    return resolved


def category(dtype: np.dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating point."""
    return 2 if dtype in FLOATS else 1 if dtype in INTEGERS else 0


def promote_types(type1: np.dtype, type2: np.dtype) -> np.dtype:
    """The dtype of an op on both dtypes: the higher category wins, then the wider dtype. TypeError for float8.

    >>> ag.promote_types(ag.int64, ag.float16)
    dtype('float16')
    """
    if type1 is type2:
        return type1
    if type1 in STORAGE or type2 in STORAGE:
        raise TypeError(f"Promotion for {type1} and {type2} is not supported: convert with .to(float32) first")
    ca, cb = category(type1), category(type2)
    if ca != cb:
        return type1 if ca > cb else type2
    if bfloat16 in (type1, type2):
        other = type2 if type1 == bfloat16 else type1
        return float32 if other == float16 else other
    return np.promote_types(type1, type2)


def result_type(dimensioned: Iterable[np.dtype], zero_dim: Iterable[np.dtype], numbers: Iterable[object]) -> np.dtype:
    """The dtype that an op's operands promote to, by PyTorch's rule.

    A 0-d tensor matters only if its category is higher than that of all tensors with dimensions, a Python number only
    if its category is higher than that of all tensors.
    """
    result: np.dtype | None = None
    for group in (dimensioned, zero_dim, map(_dtype_of_number, numbers)):
        joined: np.dtype | None = None
        for dtype in group:
            joined = dtype if joined is None else promote_types(joined, dtype)
        if joined is not None and (result is None or category(joined) > category(result)):
            result = joined
    assert result is not None, "result_type needs at least one operand"
    return result


def _dtype_of_number(value: object) -> np.dtype:
    return bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else _Default.dtype


_ENDS = {dtype: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for dtype in INTEGERS}


def wrapped(value: int, dtype: np.dtype) -> int:
    """`value` modulo 2 ** bits, in the range of an integer dtype: 300 in uint8 is 44."""
    least, most = _ENDS[dtype]
    return (value - least) % (most - least + 1) + least


def fitting(value: Any, dtype: np.dtype) -> Any:
    """A Python number converted for `dtype` as PyTorch does.

    An int becomes a float for a floating dtype; a small negative int wraps around for an unsigned dtype. RuntimeError
    for an int out of the range of an integer dtype.
    """
    if type(value) is not int or dtype == bool_:
        return value
    if dtype not in _ENDS:
        return float(value)
    least, most = _ENDS[dtype]
    if least <= value <= most:
        return value
    if least or not -most <= value < 0:
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: it is {value}")
    return wrapped(value, dtype)


def short_name(dtype: np.dtype) -> str:
    """The short name in logs: f32, bf16, i64, b8 for bool, f8e4m3fn."""
    name = str(dtype)
    if dtype in STORAGE:
        return name.replace("float8_", "f8")
    if dtype == bool_:
        return "b8"
    stem = name.rstrip("0123456789")
    return _SHORT[stem] + name[len(stem):]
