"""Elementwise functions on lists of arrays, in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arrays.dtypes import wide
from ..cuda import runtime
from . import loader
from .instances import C_NAMES, Parameter, declare
from .launcher import Array, launch
from .tables import LISTS, tensor_lists


class Function(NamedTuple):
    """A functor of kernels/include/elementwise.cuh, its number of inputs, and its NumPy version with scalars a, b."""

    functor: str
    inputs: int
    value: Callable[..., np.ndarray]


def _between(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.where(abs(weight) < 0.5, x + weight * (y - x), y - (y - x) * (1 - weight))


FUNCTIONS = {
    "abs": Function("Abs", 1, lambda x, a, b: abs(x)),
    "sqrt": Function("Sqrt", 1, lambda x, a, b: np.sqrt(x)),
    "reciprocal": Function("Reciprocal", 1, lambda x, a, b: 1 / x),
    "exp": Function("Exp", 1, lambda x, a, b: np.exp(x)),
    "log": Function("Log", 1, lambda x, a, b: np.log(x)),
    "add_scalar": Function("AddScalar", 1, lambda x, a, b: x + a),
    "mul_scalar": Function("MulScalar", 1, lambda x, a, b: x * a),
    "div_scalar": Function("DivScalar", 1, lambda x, a, b: x / a),
    "pow_scalar": Function("PowScalar", 1, lambda x, a, b: x**a),
    "clamp": Function("Clamp", 1, lambda x, a, b: np.minimum(np.maximum(x, a), b)),
    "add": Function("Add", 2, lambda x, y, a, b: x + a * y),
    "mul": Function("Mul", 2, lambda x, y, a, b: x * y),
    "div": Function("Div", 2, lambda x, y, a, b: x / y),
    "maximum": Function("Maximum", 2, lambda x, y, a, b: np.maximum(x, y)),
    "minimum": Function("Minimum", 2, lambda x, y, a, b: np.minimum(x, y)),
    "lerp_scalar": Function("LerpScalar", 2, lambda x, y, a, b: _between(x, y, a)),
    "lerp": Function("Lerp", 3, lambda x, y, z, a, b: _between(x, y, z)),
    "addcmul": Function("Addcmul", 3, lambda x, y, z, a, b: x + a * y * z),
    "addcdiv": Function("Addcdiv", 3, lambda x, y, z, a, b: x + a * (y / z)),
}


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        scalars = Parameter("a", "scalar", wide(dtype)), Parameter("b", "scalar", wide(dtype))
        for functor, inputs, _ in FUNCTIONS.values():
            declare(f"foreach<{functor}, {name}>", "foreach.cu", "foreach", (*LISTS, *scalars), f"{name} {inputs}")


_declare()


def foreach(name: str, out: Sequence[Array], *inputs: Sequence[Array], a: float = 1.0, b: float = 0.0) -> bool:
    """out[i] = name(inputs[0][i], inputs[1][i], ..., a, b) for all i; `out` may be the first of `inputs`.

    a is the function's alpha, value, weight or exponent (mul_scalar by -1 negates); clamp is to [a, b]. Half types are
    computed in float32 and rounded once. Returns False, and does nothing, if `tensor_lists` refuses the arrays.
    """
    ready = prepared_foreach(name, out, *inputs, a=a, b=b)
    if ready is None:
        return False
    ready()
    return True


def prepared_foreach(
    name: str, out: Sequence[Array], *inputs: Sequence[Array], a: float = 1.0, b: float = 0.0
) -> Callable[[], None] | None:
    """A function that does what `foreach` does and allocates nothing; None if `tensor_lists` refuses the arrays."""
    functor, count, _ = FUNCTIONS[name]
    if len(inputs) != count:
        raise ValueError(f"foreach: {name} takes {count} lists, not {len(inputs)}")
    lists = tensor_lists([out], inputs)
    if lists is None:
        return None
    instance = f"foreach<{functor}, {C_NAMES[lists.dtype]}>"
    loader.load(instance, runtime.current.device())
    return partial(launch, instance, lists.shape, *lists.arguments, a, b, label=f"foreach_{name}")


def foreach_reference(name: str, *inputs: np.ndarray, a: float = 1.0, b: float = 0.0) -> np.ndarray:
    """The result for one array per list."""
    dtype = inputs[0].dtype
    scalars = wide(dtype).type(a), wide(dtype).type(b)
    return FUNCTIONS[name].value(*[x.astype(wide(dtype)) for x in inputs], *scalars).astype(dtype)
