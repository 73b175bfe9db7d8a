"""Streams of tangents and second tangents behind a function of single elements, and its local terms.

A stream (..., S, cols) has for each row of the values d tangents, then the second tangents, of which there are as many
as the form says: a row for each pair i <= j (FULL_HESSIAN), for each tangent (DIAGONAL), or one (LAPLACIAN); or none,
S = d, where all are zero. A stream (S, cols) belongs to all rows of the values, and its gradient has rows of its own.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..arrays.dtypes import int32, wide
from ..cuda import runtime
from ..formulas.cuda_code import Functor
from .column_sum import sum_columns
from .constants import DIAGONAL, FULL_HESSIAN, HELD_TANGENTS, LAPLACIAN
from .functors import Applied, Declared, declare_unit, functor_parameter, members
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch, size
from .tiles import VECTOR, row_tiles, sum_tiles, tiles, widest

FILE = "second_order.cu"
Groups = tuple[tuple[tuple[int, int], ...], ...]
MOST_AT_ONCE = 4  # elements of a thread's strip in activation_jet_backward: with 8 of a half type it spills registers
NUMBERS = tuple([Parameter(name, "scalar", int32) for name in ("d", "form", "seconds", "shared")])


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        read = functools.partial(Parameter, kind="read", dtype=dtype)
        write = functools.partial(Parameter, kind="write", dtype=dtype)
        f1, f2, stream, g = map(read, ("f1", "f2", "stream", "g"))
        df1, df2, dstream = [write(key, optional=True) for key in ("df1", "df2", "dstream")]
        out, tail = write("out"), (*NUMBERS, *SIZE)
        counts = [Parameter(key, "scalar", int32) for key in ("outputs", "d", "shared")]
        for width in (VECTOR // dtype.itemsize, 1):
            for held in (HELD_TANGENTS, 0):
                unit = f"{name}, {held}, {width}"
                declare(f"chain_stream<{unit}>", FILE, "chain_stream", (f1, f2, stream, out, *tail), unit)
                backward = (g, f1, f2, stream, df1, df2, dstream, *tail)
                declare(f"chain_stream_backward<{unit}>", FILE, "chain_stream_backward", backward, unit)
            unit = f"{name}, {width}"
            declare(f"local_terms<{unit}>", FILE, "local_terms", (read("a"), f2, read("t"), out, *counts, *SIZE), unit)


_declare()


@functools.cache
def declare_activation_jet(functor: Functor, dtype: np.dtype, width: int, backward: bool = False) -> str:
    """The instance of a functor, which is declared when it is first asked for."""
    stream, saved = [Parameter(name, "read", dtype) for name in ("stream", "saved")]
    bias, f = Parameter("bias", "read", dtype, True), functor_parameter(functor, dtype)
    ds, dbias, dstream = [Parameter(name, "write", dtype, True) for name in ("ds", "dbias", "dstream")]
    parameters = (saved, bias, stream, Parameter("out", "write", dtype), f, *NUMBERS, *SIZE)
    if backward:
        arrays = (Parameter("g", "read", dtype), saved, bias, stream, ds, dbias)
        parameters = (*arrays, Parameter("partials", "write", wide(dtype), True), dstream, f, *NUMBERS, *SIZE)
    kernel = "activation_jet" + "_backward" * backward
    name = f"{kernel}<{functor.name}, {C_NAMES[dtype]}, {width}>"
    declare_unit(FILE, name, [Declared(functor, name, kernel, parameters)])
    return name


# ---- forms -------------------------------------------------------------------------------------------


def stream_groups(d: int, form: int) -> Groups:
    """The pairs of tangents of each second tangent."""
    if form == FULL_HESSIAN:
        return tuple([((i, j),) for i in range(d) for j in range(i, d)])
    squares = tuple([(i, i) for i in range(d)])
    return (squares,) if form == LAPLACIAN else tuple([(pair,) for pair in squares])


@functools.lru_cache(1024)
def stream_form(d: int, groups: Groups) -> int | None:
    """The form with these groups; None if the kernels have none."""
    return next((form for form in (FULL_HESSIAN, DIAGONAL, LAPLACIAN) if stream_groups(d, form) == groups), None)


def _numbers(label: str, values: Array, stream: Array, d: int, form: int) -> tuple[tuple[int, ...], int, int]:
    """d, form, seconds and shared for a launch, and the rows and columns of the values. ValueError for wrong shapes."""
    made, (rows, cols) = d + len(stream_groups(d, form)), size(label, values.shape)
    count = stream.shape[-2] if stream.ndim > 1 else 0
    shared = stream.ndim == 2 and values.ndim > 1
    if count not in (d, made) or stream.shape != ((count, cols) if shared else (*values.shape[:-1], count, cols)):
        raise ValueError(f"{label}: a stream of {d} tangents behind values of shape {values.shape} ends in "
                         f"({made}, {cols}) or ({d}, {cols}), with their other dimensions or none; got {stream.shape}")
    return (d, form, count > d, shared), rows, cols


def _made(values: Array, d: int, form: int) -> tuple[int, ...]:
    return (*values.shape[:-1], d + len(stream_groups(d, form)), values.shape[-1])


def _own(values: Array, stream: Array) -> tuple[int, ...]:
    """The shape of a stream's gradient with rows of its own."""
    return (*values.shape[:-1], *stream.shape[-2:])


# ---- behind any function -----------------------------------------------------------------------------


def chain_stream(f1: Array, f2: Array, stream: Array, d: int, form: int) -> Array:
    """The stream behind a function with the first two derivatives f1 and f2 (..., cols)."""
    label = "chain_stream"
    check_array(label, "f1", f1)
    check_array(label, "f2", f2, f1.shape)
    numbers, rows, cols = _numbers(label, f1, stream, d, form)
    out = runtime.cupy().empty(_made(f1, d, form), f1.dtype)
    width = widest(cols, f1.itemsize, f1, f2, stream, out)
    instance = f"{label}<{c_name(label, f1.dtype)}, {_held(d)}, {width}>"
    launch(instance, tiles(rows, cols, width, f1.itemsize), f1, f2, stream, out, *numbers, rows, cols)
    return out


def chain_stream_backward(
    g: Array, f1: Array, f2: Array, stream: Array, d: int, form: int, need: tuple[bool, ...] = (True, True, True)
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of `chain_stream` for f1, f2 and the stream, of which `need` says which; the others are None."""
    label, empty = "chain_stream_backward", runtime.cupy().empty
    check_array(label, "f1", f1)
    check_array(label, "f2", f2, f1.shape)
    check_array(label, "g", g, _made(f1, d, form))
    numbers, rows, cols = _numbers(label, f1, stream, d, form)
    shapes = f1.shape, f1.shape, _own(f1, stream)
    outs = [empty(shape, f1.dtype) if needed else None for shape, needed in zip(shapes, need, strict=True)]
    width = widest(cols, f1.itemsize, g, f1, f2, stream, *outs)
    instance = f"{label}<{c_name(label, f1.dtype)}, {_held(d)}, {width}>"
    launch(instance, tiles(rows, cols, width, f1.itemsize), g, f1, f2, stream, *outs, *numbers, rows, cols)
    return outs[0], outs[1], outs[2]


def _held(d: int) -> int:
    return HELD_TANGENTS if d <= HELD_TANGENTS else 0


# ---- behind an activation ----------------------------------------------------------------------------


def activation_jet(
    f: Applied, saved: Array, bias: Array | None, stream: Array, d: int, form: int
) -> Array:  # fmt: skip
    """The stream behind an activation that bends, for at most HELD_TANGENTS tangents.

    `saved` and the functor are those of `bias_activation`; bias (cols,) or None.
    """
    _check(f, d)
    label = f"pushed_{f.label}"
    check_array(label, "saved", saved)
    numbers, rows, cols = _numbers(label, saved, stream, d, form)
    if bias is not None:
        check_array(label, "bias", bias, (cols,))
    out = runtime.cupy().empty(_made(saved, d, form), saved.dtype)
    width = widest(cols, saved.itemsize, saved, bias, stream, out)
    arrays, shape = (saved, bias, stream, out), tiles(rows, cols, width, saved.itemsize)
    c_name(label, saved.dtype)
    instance = declare_activation_jet(f.functor, saved.dtype, width)
    launch(instance, shape, *arrays, members(f, saved.dtype), *numbers, rows, cols, label=label)
    return out


def activation_jet_backward(
    f: Applied, g: Array, saved: Array, bias: Array | None, stream: Array, d: int, form: int,
    need: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
    """The gradients of `activation_jet` for saved, bias and stream, of which `need` says which; the others are None.

    That of the bias is summed in float32 or wider, over unrounded values.
    """
    _check(f, d)
    label, dtype, empty = f"pushed_{f.label}_backward", saved.dtype, runtime.cupy().empty
    check_array(label, "saved", saved)
    check_array(label, "g", g, _made(saved, d, form))
    numbers, rows, cols = _numbers(label, saved, stream, d, form)
    if bias is not None:
        check_array(label, "bias", bias, (cols,))
    shapes = saved.shape, (cols,), _own(saved, stream)
    ds, dbias, dstream = [empty(shape, dtype) if needed else None for shape, needed in zip(shapes, need, strict=True)]
    width = min(widest(cols, saved.itemsize, g, saved, bias, stream, ds, dbias, dstream), MOST_AT_ONCE)
    shape = (tiles if dbias is None else sum_tiles)(rows, cols, width, saved.itemsize)
    parts = 1 if dbias is None else shape[0][1]
    partials = empty((parts, cols), wide(dtype)) if parts > 1 else None
    arrays = (g, saved, bias, stream, ds, dbias, partials, dstream)
    c_name(label, dtype)
    instance = declare_activation_jet(f.functor, dtype, width, backward=True)
    launch(instance, shape, *arrays, members(f, dtype), *numbers, rows, cols, label=label)
    if partials is not None:
        sum_columns(partials, dbias, stages=1)
    return ds, dbias, dstream


def _check(f: Applied, d: int) -> None:
    if f.functor.flat or d > HELD_TANGENTS:
        raise ValueError(f"activation_jet has no kernel for {f.label} and {d} tangents, but for at most "
                         f"{HELD_TANGENTS} and activations with a second derivative; use chain_stream")


# ---- local terms -------------------------------------------------------------------------------------


def local_terms(a: Array, f2: Array, t: Array) -> Array:
    """The sum over the columns of a f2 t_i t_j for a (..., o, cols), f2 (..., cols): (..., o, d, d), symmetric.

    The tangents t are (..., d, cols), or (d, cols) for all rows.
    """
    label = "local_terms"
    check_array(label, "f2", f2)
    rows, cols = math.prod(f2.shape[:-1]), f2.shape[-1]  # also of empty rows, whose sums are zeros
    shared = t.ndim == 2 and f2.ndim > 1
    (o, d), lead = (a.shape[-2], t.shape[-2]), f2.shape[:-1]
    check_array(label, "a", a, (*lead, o, cols))
    check_array(label, "t", t, (d, cols) if shared else (*lead, d, cols))
    out = runtime.cupy().empty((*lead, o, d, d), f2.dtype)
    width = widest(cols, f2.itemsize, a, f2, t)
    shape = row_tiles(rows, cols, width, f2.itemsize, stages=1)
    launch(f"{label}<{c_name(label, f2.dtype)}, {width}>", shape, a, f2, t, out, o, d, shared, rows, cols)
    return out
