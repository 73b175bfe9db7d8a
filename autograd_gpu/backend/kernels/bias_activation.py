"""act(x + bias), its backward, and the backward of that, with the gradient of the bias in the same pass.

`name` and `attributes` are those of the op: "relu", "leaky_relu" (negative_slope), "elu" and "celu" (alpha), "gelu"
(approximate), "silu", "tanh", "sigmoid", "softplus" (beta, threshold); and "sine" (frequency): sin(frequency * z).

`saved` is what the forward leaves for the backward: its result for relu, tanh and sigmoid, whose derivative needs no
more, and x for the others, to which the bias is added again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import cuda
from ..dtypes import int32
from .activations import ACTIVATIONS, Choice, choose
from .column_sum import column_sum_reference, sum_columns
from .instances import C_NAMES, SIZE, Parameter, declare, wide
from .launcher import Array, c_name, check_array, launch, size
from .tiles import VECTOR, sum_tiles, tiles, widest

FILE = "bias_activation.cu"


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        numbers = Parameter("a", "scalar", wide(dtype)), Parameter("b", "scalar", wide(dtype))
        sums = Parameter("dbias", "write", dtype, True), Parameter("partials", "write", wide(dtype), True)
        x, g, saved = [Parameter(each, "read", dtype) for each in ("x", "g", "saved")]
        bias, gg, ggb = [Parameter(each, "read", dtype, True) for each in ("bias", "gg", "ggb")]
        out, dx = Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
        g2 = Parameter("g", "read", dtype, True)  # of no use where the second derivative is zero
        dg, dx2 = Parameter("dg", "write", dtype, True), Parameter("dx", "write", dtype, True)
        by_result = Parameter("by_result", "scalar", int32)
        kernels = {
            "bias_activation": (x, bias, out, *numbers, *SIZE),
            "bias_activation_backward": (g, saved, bias, dx, *sums, *numbers, *SIZE),
            "bias_activation_double_backward":
                (gg, ggb, g2, saved, bias, dg, dx2, *sums, *numbers, by_result, *SIZE),
        }  # fmt: skip
        for functor in ACTIVATIONS:
            for width in (VECTOR // dtype.itemsize, 1):
                for kernel, parameters in kernels.items():
                    instance = f"{kernel}<{functor}, {name}, {width}>"
                    declare(instance, FILE, kernel, parameters, unit=f"{functor}, {name}, {width}")


_declare()


# ---- forward -----------------------------------------------------------------------------------------


def bias_activation(
    name: str, x: Array, bias: Array | None = None, out: Array | None = None, **attributes: Any
) -> Array:
    """act(x + bias) for x (..., cols) and bias (cols,) or None; `out` may be `x`. NaN stays NaN."""
    label, functor, a, b = choose(name, **attributes)
    check_array(label, "x", x)
    c_type = c_name(label, x.dtype)
    out = cuda.cupy().empty(x.shape, x.dtype) if out is None else out
    check_array(label, "out", out, x.shape)
    rows, cols = _extent(label, x, bias)
    width = widest(cols, x.itemsize, x, out, bias)
    shape = tiles(rows, cols, width, x.itemsize)
    launch(f"bias_activation<{functor}, {c_type}, {width}>", shape, x, bias, out, a, b, rows, cols, label=label)
    return out


def bias_activation_reference(
    name: str, x: np.ndarray, bias: np.ndarray | None = None, **attributes: Any
) -> np.ndarray:
    choice = choose(name, **attributes)
    value = ACTIVATIONS[choice.functor].value(_saved(choice, x, bias, False), choice.a, choice.b)
    return value.astype(x.dtype)


def _extent(
    label: str, x: Array, bias: Array | None, ggb: Array | None = None, by_columns: bool = False
) -> tuple[int, int]:
    """Rows and columns of `x`: one row if columns mean nothing, with no vector along them and no sum over them."""
    if bias is None and ggb is None and not by_columns:
        return 1, x.size
    rows, cols = size(label, x)
    for name, vector in (("bias", bias), ("ggb", ggb)):
        if vector is not None:
            check_array(label, name, vector, (cols,))
    return rows, cols


def _saved(choice: Choice, saved: np.ndarray, bias: np.ndarray | None, backward: bool = True) -> np.ndarray:
    """What a reference computes with: `saved` in the wide type, with the bias where it belongs there."""
    s = saved.astype(wide(saved.dtype))
    if bias is None or (backward and ACTIVATIONS[choice.functor].from_result):
        return s
    return s + bias.astype(s.dtype)


# ---- backward ----------------------------------------------------------------------------------------


def bias_activation_backward(
    name: str, g: Array, saved: Array, bias: Array | None = None, dx: Array | None = None, need_bias: bool = True,
    **attributes: Any,
) -> tuple[Array, Array | None]:  # fmt: skip
    """The gradients of `bias_activation` for x and bias, from that of its result; `dx` may be `g`.

    The bias's is summed in float32 or wider, before the other is rounded. As in PyTorch, the gradient of relu passes
    where the result is NaN.
    """
    label, functor, a, b = choose(name, **attributes)
    label += "_backward"
    check_array(label, "saved", saved)
    xp, dtype = cuda.cupy(), saved.dtype
    c_type = c_name(label, dtype)
    bias = None if ACTIVATIONS[functor].from_result else bias
    dx = xp.empty(saved.shape, dtype) if dx is None else dx
    check_array(label, "g", g, saved.shape)
    check_array(label, "dx", dx, saved.shape)
    rows, cols = _extent(label, saved, bias, by_columns=need_bias)
    width = widest(cols, saved.itemsize, g, saved, bias, dx)
    shape, dbias, partials = _sums(rows, cols, width, dtype, need_bias)
    instance = f"bias_activation_backward<{functor}, {c_type}, {width}>"
    launch(instance, shape, g, saved, bias, dx, dbias, partials, a, b, rows, cols, label=label)
    if partials is not None:
        sum_columns(partials, dbias, stages=1)
    return dx, dbias


def _sums(rows: int, cols: int, width: int, dtype: np.dtype, wanted: bool) -> tuple[Any, Array | None, Array | None]:
    """Grid and block of a kernel, and memory for the sums of its columns and for those of its parts, where wanted."""
    if not wanted:
        return tiles(rows, cols, width, dtype.itemsize), None, None
    shape = sum_tiles(rows, cols, width, dtype.itemsize)
    xp, parts = cuda.cupy(), shape[0][1]
    return shape, xp.empty((cols,), dtype), xp.empty((parts, cols), wide(dtype)) if parts > 1 else None


def bias_activation_backward_reference(
    name: str, g: np.ndarray, saved: np.ndarray, bias: np.ndarray | None = None, **attributes: Any
) -> tuple[np.ndarray, np.ndarray]:
    choice = choose(name, **attributes)
    s = _saved(choice, saved, bias)
    dx = ACTIVATIONS[choice.functor].pull(g.astype(s.dtype), s, choice.a, choice.b).astype(s.dtype)
    return dx.astype(g.dtype), column_sum_reference(dx).astype(g.dtype)


# ---- double backward ---------------------------------------------------------------------------------


def bias_activation_double_backward(
    name: str, gg: Array | None, ggb: Array | None, g: Array | None, saved: Array, bias: Array | None = None,
    need: tuple[bool, bool, bool] = (True, True, True), by_result: bool = False, **attributes: Any,
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """The gradients of `bias_activation_backward` for g, x and bias, from those of its dx and dbias, or None for zeros.

    With h = gg + ggb: h * act', h * g * act'', and the column sums of that. `need` says which are wanted; the others
    are None, and so are the last two where act'' is 0: of relu and leaky_relu. With by_result, of tanh and sigmoid, the
    second is that for the saved result, h * g * (the derivative of act' by the result), and the third is None.
    """
    label, functor, a, b = choose(name, **attributes)
    label += "_double_backward"
    curved, from_result = ACTIVATIONS[functor].bend is not None, ACTIVATIONS[functor].from_result
    if by_result and not from_result:
        raise ValueError(f"{label}: by_result needs an activation that saves its result; {name} saves x")
    check_array(label, "saved", saved)
    for each, array in (("gg", gg), ("g", g)):
        if array is not None:
            check_array(label, each, array, saved.shape)
    bias = None if from_result else bias
    need_bias = need[2] and curved and not by_result
    rows, cols = _extent(label, saved, bias, ggb, by_columns=need_bias)
    dg, dx = [cuda.cupy().empty(saved.shape, saved.dtype) if each else None for each in (need[0], need[1] and curved)]
    width = widest(cols, saved.itemsize, gg, ggb, g, saved, bias, dg, dx)
    instance = f"bias_activation_double_backward<{functor}, {c_name(label, saved.dtype)}, {width}>"
    shape, dbias, partials = _sums(rows, cols, width, saved.dtype, need_bias)
    if dg is not None or dx is not None or dbias is not None:
        arguments = (gg, ggb, g, saved, bias, dg, dx, dbias, partials, a, b, by_result, rows, cols)
        launch(instance, shape, *arguments, label=label)
    if partials is not None:
        sum_columns(partials, dbias, stages=1)
    return dg, dx, dbias


def bias_activation_double_backward_reference(
    name: str, gg: np.ndarray, ggb: np.ndarray, g: np.ndarray, saved: np.ndarray, bias: np.ndarray | None = None,
    by_result: bool = False, **attributes: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """As if everything were needed, and zeros for the second derivative of relu and leaky_relu."""
    choice = choose(name, **attributes)
    act, a, b = ACTIVATIONS[choice.functor], choice.a, choice.b
    s = _saved(choice, saved, bias)
    h = gg.astype(s.dtype) + ggb.astype(s.dtype)
    dx = np.zeros_like(s) if act.bend is None else h * g.astype(s.dtype) * act.bend(s, a, b)
    if act.from_result and not by_result:
        dx = act.pull(dx, s, a, b)
    dg, dbias = act.pull(h, s, a, b), column_sum_reference(dx)
    return dg.astype(g.dtype), dx.astype(g.dtype), dbias.astype(g.dtype)
