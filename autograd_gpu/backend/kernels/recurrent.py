"""A step of a recurrent layer, given its product h_before @ w_hhᵀ, and the gradients of the step.

A row is a sequence, a column one of the layer's units. Matrices of gates have the gates one after the other in each
row: i, f, g, o of an LSTM; r, z, n and the hidden state's part of n of a GRU. In a backward, `g` is the gradient of the
step's own output, or None, and `to_h` what the later steps add to it. The results are written into arrays that are
given, since they are rows of longer ones.
"""

from __future__ import annotations

import functools

import numpy as np

from ..formulas.cuda_code import Functor
from .functors import Applied, Declared, declare_unit
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, aligned, c_name, check_array, launch
from .tiles import VECTOR, tiles

FILE = "recurrent.cu"
# The arrays that each kernel reads and writes; those that may be None; how many gates an array holds, if not one.
KERNELS = {
    "lstm_step": (("x", "product", "before"), ("gates", "cells", "values")),
    "lstm_step_backward": (("g", "to_h", "to_c", "gates", "before", "cells"), ("da", "dc")),
    "gru_step": (("x", "product", "bias", "before"), ("gates", "out")),
    "gru_step_backward": (("g", "to_h", "gates", "before"), ("dx", "du", "passed")),
    "rnn_step": (("x", "product"), ("out",)),
    "rnn_step_backward": (("g", "to_h", "out"), ("dx",)),
}
GATES = {
    "lstm": {"x": 4, "product": 4, "gates": 4, "da": 4},
    "gru": {"x": 3, "product": 3, "bias": 3, "gates": 4, "dx": 3, "du": 3},
    "rnn": {},
}
OPTIONAL = "g", "bias"


def _parameters(kernel: str, dtype: np.dtype) -> tuple[Parameter, ...]:
    reads, writes = KERNELS[kernel]
    arrays = [Parameter(name, "read", dtype, name in OPTIONAL) for name in reads]
    return (*arrays, *[Parameter(name, "write", dtype) for name in writes], *SIZE)


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        for kernel in KERNELS:
            for width in (VECTOR // dtype.itemsize, 1):
                unit = f"{name}, {width}"
                if not kernel.startswith("rnn"):
                    declare(f"{kernel}<{unit}>", FILE, kernel, _parameters(kernel, dtype), unit)


_declare()


@functools.cache
def declare_rnn(functor: Functor, dtype: np.dtype, width: int) -> str:
    """The unit of the two instances of an activation without numbers, declared when one is first asked for."""
    if functor.numbers:
        raise ValueError(f"a step of an RNN has no kernel for {functor.name}, an activation with parameters")
    unit = f"{functor.name}, {C_NAMES[dtype]}, {width}"
    instances = [Declared(functor, f"{kernel}<{unit}>", kernel, _parameters(kernel, dtype))
                 for kernel in ("rnn_step", "rnn_step_backward")]  # fmt: skip
    declare_unit(FILE, unit, instances)
    return unit


def _launch(kernel: str, like: Array, *arrays: Array | None, f: Applied | None = None) -> None:
    """Launches `kernel` on rows and units of `like`, after a check of the shapes."""
    rows, units = like.shape
    gates = GATES[kernel.partition("_")[0]]
    for name, array in zip(sum(KERNELS[kernel], ()), arrays, strict=True):
        cols = gates.get(name, 1) * units
        if array is not None:
            check_array(kernel, name, array, (cols,) if name == "bias" else (rows, cols))
    c_type, width = c_name(kernel, like.dtype), VECTOR // like.itemsize
    width = width if units % width == 0 and aligned(*arrays) else 1
    unit = f"{c_type}, {width}" if f is None else declare_rnn(f.functor, like.dtype, width)
    launch(f"{kernel}<{unit}>", tiles(rows, units, width, like.itemsize), *arrays, rows, units)


# ---- LSTM --------------------------------------------------------------------------------------------


def lstm_step(x: Array, product: Array, before: Array, gates: Array, cells: Array, values: Array) -> None:
    """gates = i, f, g, o of x + product; cells = f * before + i * g; values = o * tanh(cells)."""
    _launch("lstm_step", before, x, product, before, gates, cells, values)


def lstm_step_backward(
    g: Array | None, to_h: Array, to_c: Array, gates: Array, before: Array, cells: Array, da: Array, dc: Array
) -> None:
    """da = the gradients of x + product, dc = that of `before`; to_c is that of the cells from the later steps."""
    _launch("lstm_step_backward", before, g, to_h, to_c, gates, before, cells, da, dc)


# ---- GRU ---------------------------------------------------------------------------------------------


def gru_step(x: Array, product: Array, bias: Array | None, before: Array, gates: Array, out: Array) -> None:
    """gates = r, z, n and u_n of x and u = product + bias; out = (1 - z) * n + z * before."""
    _launch("gru_step", before, x, product, bias, before, gates, out)


def gru_step_backward(
    g: Array | None, to_h: Array, gates: Array, before: Array, dx: Array, du: Array, passed: Array
) -> None:
    """dx and du = the gradients of x and u, passed = what the output's gradient gives to `before` by itself."""
    _launch("gru_step_backward", before, g, to_h, gates, before, dx, du, passed)


# ---- RNN ---------------------------------------------------------------------------------------------


def rnn_step(f: Applied, x: Array, product: Array, out: Array) -> None:
    """out = act(x + product), for an activation whose derivative is a function of the result."""
    _launch("rnn_step", out, x, product, out, f=f)


def rnn_step_backward(f: Applied, g: Array | None, to_h: Array, out: Array, dx: Array) -> None:
    """dx = (g + to_h) * act'."""
    _launch("rnn_step_backward", out, g, to_h, out, dx, f=f)
