"""The kernels of bias_activation.cu on emulated threads, launched as backend/kernels/bias_activation.py does."""

import emulated
import formula_functors
from emulated import Placed, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.functors import members

formula_functors.declare()
CASES = [
    ("relu", {}), ("leaky_relu", {"negative_slope": 0.1}), ("elu", {"alpha": 1.5}), ("celu", {"alpha": 0.7}),
    ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("silu", {}), ("tanh", {}), ("sigmoid", {}),
    ("softplus", {"beta": 2.0, "threshold": 3.0}), ("sine", {"frequency": 30.0}),
]  # fmt: skip
IDS = ["-".join([name, *(str(value) for value in attributes.values())]) for name, attributes in CASES]


def applied(case):
    """The activation's functor with its numbers."""
    return formula_functors.activation(case[0], **case[1])


def from_result(case):
    return applied(case).functor.from_result


def has_second_derivative(case):
    return not applied(case).functor.flat


def instance(kernel, case, dtype, width):
    return f"{kernel}<{applied(case).functor.name}, {kernels.C_NAMES[dtype]}, {width}>"


def numbers(case, dtype):
    """The functor's members, as a launch passes them."""
    return members(applied(case), dtype)


def forward(case, x, bias=None, offset=0, in_place=False, width=None, **how):
    rows, cols = x.shape
    width = width or width_of(x, offset)
    placed = Placed(x, offset)
    out = placed if in_place else unset(x.shape, x.dtype, offset)
    bias = None if bias is None else Placed(bias, offset)
    name, f = instance("bias_activation", case, x.dtype, width), numbers(case, x.dtype)
    emulated.launch(name, kernels.tiles(rows, cols, width, x.itemsize), placed, bias, out, f, rows, cols, **how)
    return out.result()


def _sums(rows, cols, width, dtype, offset, parts, expected):
    """Launch shape, and places for the sums of columns and of parts."""
    if not expected:
        return kernels.tiles(rows, cols, width, dtype.itemsize), None, None
    (across, default), block = kernels.sum_tiles(rows, cols, width, dtype.itemsize)
    parts = parts or default
    partials = unset((parts, cols), kernels.wide(dtype)) if parts > 1 else None
    return ((across, parts), block), unset((cols,), dtype, offset), partials


def _total(dbias, partials):
    if dbias is None or partials is None:
        return None if dbias is None else dbias.result()
    return partials.result().sum(axis=0).astype(dbias.array.dtype)


def backward(case, g, saved, bias=None, offset=0, in_place=False, parts=None, need_bias=True, **how):
    (rows, cols), width = g.shape, width_of(g, offset)
    shape, dbias, partials = _sums(rows, cols, width, g.dtype, offset, parts, need_bias)
    placed = Placed(g, offset)
    dx = placed if in_place else unset(g.shape, g.dtype, offset)
    bias = None if bias is None else Placed(bias, offset)
    name, f = instance("bias_activation_backward", case, g.dtype, width), numbers(case, g.dtype)
    arguments = placed, Placed(saved, offset), bias, dx, dbias, partials, f, rows, cols
    emulated.launch(name, shape, *arguments, **how)
    return dx.result(), _total(dbias, partials)


def double_backward(
    case, gg, ggb, g, saved, bias=None, offset=0, parts=None, need=(True, True, True), in_place=False,
    by_result=False, **how,
):  # fmt: skip
    (rows, cols), width = g.shape, width_of(g, offset)
    need = need if has_second_derivative(case) else (need[0], False, False)
    shape, dbias, partials = _sums(rows, cols, width, g.dtype, offset, parts, need[2])
    places = [None if array is None else Placed(array, offset) for array in (gg, ggb, g, saved, bias)]
    dg, dx = [unset(g.shape, g.dtype, offset) if needed else None for needed in need[:2]]
    if in_place:
        dg, dx = places[0], places[2] if has_second_derivative(case) else None
    name, f = instance("bias_activation_double_backward", case, g.dtype, width), numbers(case, g.dtype)
    emulated.launch(name, shape, *places, dg, dx, dbias, partials, f, by_result, rows, cols, **how)
    return *(None if needed is None else needed.result() for needed in (dg, dx)), _total(dbias, partials)
