"""Which kernels of backend/kernels/foreach.py compute an op on lists of CUDA arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .columns import LIST, Columns


class Step(NamedTuple):
    """One launch of a kernel with the scalars a and b."""

    kernel: str
    a: float = 1.0
    b: float = 0.0


def _neg(x: Any) -> tuple[Step, ...]:
    return (Step("mul_scalar", -1.0),)


def _rsqrt(x: Any) -> tuple[Step, ...]:
    return Step("sqrt"), Step("reciprocal")


def _clone(x: Any) -> tuple[Step, ...]:
    return (Step("mul_scalar", 1.0),)


def _add(a: Any, b: Any, alpha: float) -> tuple[Step, ...]:
    if a is b is LIST:
        return (Step("add", alpha),)
    if a is LIST:
        return (Step("add_scalar", alpha * b),)
    return (*([Step("mul_scalar", alpha)] if alpha != 1 else []), Step("add_scalar", a))


def _sub(a: Any, b: Any, alpha: float) -> tuple[Step, ...]:
    return _add(a, b if b is LIST else -b, -alpha if b is LIST else alpha)


def _mul(a: Any, b: Any) -> tuple[Step, ...]:
    return (Step("mul") if a is b is LIST else Step("mul_scalar", b if a is LIST else a),)


def _div(a: Any, b: Any) -> tuple[Step, ...]:
    if a is not LIST:
        return ()
    return (Step("div") if b is LIST else Step("div_scalar", b),)


def _pow(base: Any, exponent: Any) -> tuple[Step, ...]:
    return (Step("pow_scalar", exponent),) if base is LIST and exponent is not LIST else ()


def _maximum(a: Any, b: Any) -> tuple[Step, ...]:
    return (Step("maximum"),) if a is b is LIST else _between(b if a is LIST else a, math.inf)


def _minimum(a: Any, b: Any) -> tuple[Step, ...]:
    return (Step("minimum"),) if a is b is LIST else _between(-math.inf, b if a is LIST else a)


def _clamp(x: Any, low: Any, high: Any) -> tuple[Step, ...]:
    if low is LIST and high is None:
        return (Step("maximum"),)
    if high is LIST and low is None:
        return (Step("minimum"),)
    if low is LIST or high is LIST:
        return ()
    return _between(-math.inf if low is None else low, math.inf if high is None else high)


def _between(low: float, high: float) -> tuple[Step, ...]:
    """The kernel's limits are numbers: NaN as a limit would leave the elements as they are."""
    return () if math.isnan(low) or math.isnan(high) else (Step("clamp", low, high),)


def _lerp(a: Any, b: Any, weight: Any) -> tuple[Step, ...]:
    if not a is b is LIST:
        return ()
    return (Step("lerp") if weight is LIST else Step("lerp_scalar", weight),)


def _addcmul(x: Any, a: Any, b: Any, value: float) -> tuple[Step, ...]:
    return (Step("addcmul", value),) if x is a is b is LIST else ()


def _addcdiv(x: Any, a: Any, b: Any, value: float) -> tuple[Step, ...]:
    return (Step("addcdiv", value),) if x is a is b is LIST else ()


_CHOICE: dict[str, Callable[..., tuple[Step, ...]]] = {
    **{name: lambda x, name=name: (Step(name),) for name in ("abs", "sqrt", "reciprocal", "exp", "log")},
    "neg": _neg, "rsqrt": _rsqrt, "clone": _clone, "add": _add, "sub": _sub, "mul": _mul, "div": _div, "pow": _pow,
    "maximum": _maximum, "minimum": _minimum, "clamp": _clamp, "lerp": _lerp, "addcmul": _addcmul,
    "addcdiv": _addcdiv,
}  # fmt: skip


def steps_of(name: str, columns: Columns) -> tuple[Step, ...]:
    """The launches that compute op `name`, the first on all lists and the others on the result; () if there are none.

    `columns` holds no Each.
    """
    choice = _CHOICE.get(name)
    return () if choice is None else choice(*columns)
