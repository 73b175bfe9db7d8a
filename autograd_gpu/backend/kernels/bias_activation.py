"""act(x + bias), its backward and its double backward, each with the bias gradient in the same pass.

`f` is the functor of an activation's formula, with its numbers. `saved` is the array saved for the backward: the result
if `f.functor.from_result`, since the derivatives are functions of the result then; else x, to which the backward adds
the bias again.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ..arrays.dtypes import int32, wide
from ..cuda import runtime
from ..formulas.cuda_code import Functor
from .column_sum import sum_columns
from .functors import Applied, Declared, declare_unit, functor_parameter, members
from .instances import C_NAMES, SIZE, Parameter
from .launcher import Array, aligned, c_name, check_array, launch, size
from .tiles import VECTOR, Launch, sum_tiles, tiles

FILE = "bias_activation.cu"


@functools.cache
def declare_bias_activation(functor: Functor, dtype: np.dtype, width: int) -> str:
    """The unit of a functor's three instances, which are declared when one is first asked for."""
    sums = Parameter("dbias", "write", dtype, True), Parameter("partials", "write", wide(dtype), True)
    x, g, saved = [Parameter(param, "read", dtype) for param in ("x", "g", "saved")]
    bias, gg, ggb = [Parameter(param, "read", dtype, True) for param in ("bias", "gg", "ggb")]
    out, dx = Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
    g2 = Parameter("g", "read", dtype, True)  # unused if the second derivative is zero
    dg, dx2 = Parameter("dg", "write", dtype, True), Parameter("dx", "write", dtype, True)
    f, by_result = functor_parameter(functor, dtype), Parameter("by_result", "scalar", int32)
    unit = f"{functor.name}, {C_NAMES[dtype]}, {width}"
    kernels = {
        "bias_activation": (x, bias, out, f, *SIZE),
        "bias_activation_backward": (g, saved, bias, dx, *sums, f, *SIZE),
        "bias_activation_double_backward": (gg, ggb, g2, saved, bias, dg, dx2, *sums, f, by_result, *SIZE),
    }
    instances = [Declared(functor, f"{kernel}<{unit}>", kernel, parameters) for kernel, parameters in kernels.items()]
    declare_unit(FILE, unit, instances)
    return unit


# ---- plans -------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """The arguments of `launch` without the arrays, and the number of partial sums per column."""

    instance: str
    shape: Launch
    label: str
    members: np.ndarray
    size: tuple[int, int]
    cols: int
    parts: int


@functools.lru_cache(4096)
def _plan(
    kernel: str, f: Applied, dtype: np.dtype, shape: tuple[int, ...], by_columns: bool, sums: bool, aligned: bool
) -> Plan:
    """The plan of `kernel` for arrays of `shape`; as one row if there is no bias and no column sum."""
    label = f"bias_{f.label}{kernel.removeprefix('bias_activation')}"
    c_name(label, dtype)
    rows, cols = size(label, shape) if by_columns or sums else (1, math.prod(shape))
    width = VECTOR // dtype.itemsize
    width = width if aligned and cols % width == 0 else 1
    launch = (sum_tiles if sums else tiles)(rows, cols, width, dtype.itemsize)
    instance = f"{kernel}<{declare_bias_activation(f.functor, dtype, width)}>"
    return Plan(instance, launch, label, members(f, dtype), (rows, cols), cols, launch[0][1] if sums else 1)


def _check_row(label: str, name: str, vector: Array | None, cols: int) -> None:
    if vector is not None:
        check_array(label, name, vector, (cols,))


def _sums(plan: Plan, dtype: np.dtype, needed: bool) -> tuple[Array | None, Array | None]:
    """Memory for the column sums and for the partial sums, if wanted."""
    if not needed:
        return None, None
    empty = runtime.cupy().empty
    return empty((plan.cols,), dtype), empty((plan.parts, plan.cols), wide(dtype)) if plan.parts > 1 else None


# ---- forward -----------------------------------------------------------------------------------------


def bias_activation(f: Applied, x: Array, bias: Array | None = None, out: Array | None = None) -> Array:
    """act(x + bias) for x (..., cols) and bias (cols,) or None; `out` may be `x`. NaN propagates."""
    check_array(f"bias_{f.label}", "x", x)
    if out is None:
        out = runtime.cupy().empty(x.shape, x.dtype)
    by_columns, at_once = bias is not None, aligned(x, bias, out)
    plan = _plan("bias_activation", f, x.dtype, x.shape, by_columns, False, at_once)
    check_array(plan.label, "out", out, x.shape)
    _check_row(plan.label, "bias", bias, plan.cols)
    launch(plan.instance, plan.shape, x, bias, out, plan.members, *plan.size, label=plan.label)
    return out


# ---- backward ----------------------------------------------------------------------------------------


def bias_activation_backward(
    f: Applied, g: Array, saved: Array, bias: Array | None = None, dx: Array | None = None, need_bias: bool = True
) -> tuple[Array, Array | None]:
    """The gradients of `bias_activation` for x and bias, given the gradient g of its result; `dx` may be `g`.

    The bias gradient is summed in float32 or wider, over unrounded values. As in PyTorch, relu passes the gradient
    where the result is NaN.
    """
    check_array(f"bias_{f.label}_backward", "saved", saved)
    dtype, shape = saved.dtype, saved.shape
    bias = None if f.functor.from_result else bias
    if dx is None:
        dx = runtime.cupy().empty(shape, dtype)
    by_columns, at_once = bias is not None, aligned(g, saved, bias, dx)
    plan = _plan("bias_activation_backward", f, dtype, shape, by_columns, need_bias, at_once)
    check_array(plan.label, "g", g, shape)
    check_array(plan.label, "dx", dx, shape)
    _check_row(plan.label, "bias", bias, plan.cols)
    dbias, partials = _sums(plan, dtype, need_bias)
    arrays = (g, saved, bias, dx, dbias, partials)
    launch(plan.instance, plan.shape, *arrays, plan.members, *plan.size, label=plan.label)
    if partials is not None:
        sum_columns(partials, dbias, stages=1)
    return dx, dbias


# ---- double backward ---------------------------------------------------------------------------------


def bias_activation_double_backward(
    f: Applied, gg: Array | None, ggb: Array | None, g: Array | None, saved: Array, bias: Array | None = None,
    need: tuple[bool, bool, bool] = (True, True, True), by_result: bool = False,
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """The gradients of `bias_activation_backward` for g, x and bias, given those of dx (gg) and dbias (ggb).

    With h = gg + ggb they are h * act', h * g * act'', and the column sums of the latter; None for gg or ggb means
    zeros. `need` selects them; the others are None, and so are the last two of a flat activation, where act'' is 0.
    With `by_result` the second is the gradient for the saved result, h * g * d(act')/d(result), and the third is None.
    """
    label, dtype, shape = f"bias_{f.label}_double_backward", saved.dtype, saved.shape
    check_array(label, "saved", saved)
    if by_result and not f.functor.from_result:
        raise ValueError(f"{label}: by_result needs an activation that saves its result; {f.label} saves x")
    for item, array in (("gg", gg), ("g", g)):
        if array is not None:
            check_array(label, item, array, shape)
    bias, bends = None if f.functor.from_result else bias, not f.functor.flat
    need_bias = need[2] and bends and not by_result
    dg, dx = [runtime.cupy().empty(shape, dtype) if item else None for item in (need[0], need[1] and bends)]
    by_columns, at_once = bias is not None or ggb is not None, aligned(gg, ggb, g, saved, bias, dg, dx)
    plan = _plan("bias_activation_double_backward", f, dtype, shape, by_columns, need_bias, at_once)
    _check_row(label, "bias", bias, plan.cols)
    _check_row(label, "ggb", ggb, plan.cols)
    dbias, partials = _sums(plan, dtype, need_bias)
    if dg is not None or dx is not None or dbias is not None:
        arguments = (gg, ggb, g, saved, bias, dg, dx, dbias, partials, plan.members, by_result, *plan.size)
        launch(plan.instance, plan.shape, *arguments, label=plan.label)
    if partials is not None:
        sum_columns(partials, dbias, stages=1)
    return dg, dx, dbias
