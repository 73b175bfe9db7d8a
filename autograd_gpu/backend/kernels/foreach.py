"""Elementwise functions on lists of arrays, in one launch, or a few for very many arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..arrays.dtypes import float64, wide
from ..cuda import runtime
from ..cuda.live_numbers import LiveNumber, placed
from . import loader
from .array_lists import lists_parameter, tensor_lists
from .instances import C_NAMES, Parameter, declare
from .launcher import Array

Number = Any  # a float, a LiveNumber, or as `a` an array of two float64 numbers in device memory, a and b


class Function(NamedTuple):
    """A functor of kernels/include/elementwise.cuh, and its number of inputs."""

    functor: str
    inputs: int


FUNCTIONS = {
    "abs": Function("Abs", 1),
    "sqrt": Function("Sqrt", 1),
    "reciprocal": Function("Reciprocal", 1),
    "exp": Function("Exp", 1),
    "log": Function("Log", 1),
    "add_scalar": Function("AddScalar", 1),
    "mul_scalar": Function("MulScalar", 1),
    "div_scalar": Function("DivScalar", 1),
    "pow_scalar": Function("PowScalar", 1),
    "clamp": Function("Clamp", 1),
    "add": Function("Add", 2),
    "mul": Function("Mul", 2),
    "div": Function("Div", 2),
    "maximum": Function("Maximum", 2),
    "minimum": Function("Minimum", 2),
    "lerp_scalar": Function("LerpScalar", 2),
    "lerp": Function("Lerp", 3),
    "addcmul": Function("Addcmul", 3),
    "addcdiv": Function("Addcdiv", 3),
}


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        scalars = Parameter("a", "scalar", wide(dtype)), Parameter("b", "scalar", wide(dtype))
        live = Parameter("live", "read", float64, optional=True)
        for functor, inputs in FUNCTIONS.values():
            parameters = lists_parameter(1 + inputs), *scalars, live
            declare(f"foreach<{functor}, {name}>", "foreach.cu", "foreach", parameters, f"{name} {inputs}")


_declare()


def foreach(
    name: str, out: Sequence[Array], *inputs: Sequence[Array], a: Number = 1.0, b: Number = 0.0, lasting: bool = False
) -> bool:  # fmt: skip
    """out[i] = name(inputs[0][i], inputs[1][i], ..., a, b) for all i; `out` may be the first of `inputs`.

    a is the function's alpha, value, weight or exponent (mul_scalar by -1 negates); clamp is to [a, b]. Half types are
    computed in float32 and rounded once. `lasting` is that of `tensor_lists`. Returns False, and does nothing, if that
    refuses the arrays.
    """
    ready = prepared_foreach(name, out, *inputs, a=a, b=b, lasting=lasting)
    if ready is None:
        return False
    ready()
    return True


def prepared_foreach(
    name: str, out: Sequence[Array], *inputs: Sequence[Array], a: Number = 1.0, b: Number = 0.0, lasting: bool = False
) -> Callable[[], None] | None:
    """A function that does what `foreach` does and allocates nothing; None if `tensor_lists` refuses the arrays."""
    functor, count = FUNCTIONS[name]
    if len(inputs) != count:
        raise ValueError(f"foreach: {name} takes {count} lists, not {len(inputs)}")
    lists = tensor_lists([out], inputs, lasting)
    if lists is None:
        return None
    instance = f"foreach<{functor}, {C_NAMES[lists.dtype]}>"
    loader.load(instance, runtime.current.device())
    live = None
    if LiveNumber in (type(a), type(b)):
        a, b, live = 0.0, 0.0, placed((a, b))
    elif isinstance(a, runtime.cupy().ndarray):
        a, b, live = 0.0, 0.0, a
    return partial(lists.launch, instance, a, b, live, label=f"foreach_{name}")
