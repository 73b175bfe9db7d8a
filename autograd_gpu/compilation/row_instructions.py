"""The steps of instructions for a block of rows: what runs by blocks of rows (row_runs.py) are made of.

A function for each kind of instruction says how to write the steps for any block, or raises Unfit. What needs all rows,
such as the gradient of a weight, is left to lines behind the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.arrays.dtypes import FULL_FLOATS
from ..backend.cpu import large_products, numpy_ops
from ..backend.cpu.matmul import matmul
from ..backend.formulas import jets
from ..backend.formulas.native import loops
from ..backend.formulas.native.layers import (
    Layer,
    Linear,
    Packed,
    Rows,
    Terms,
    Window,
    are_equal,
    packed_ends,
    products,
    shifted,
    sums_are_equal,
)
from ..backend.formulas.native.loops import New, Unfit, loop_of
from ..backend.formulas.native.runs import Place
from ..backend.formulas.native.switch import Kernel, Switch
from ..core.declare.op import RAW
from ..ops import layer_jets
from ..ops._support.blocks import BLOCK
from ..ops._support.layer_code import push_code, terms_code
from ..ops._support.stream_rows import sum_of_rows
from ..ops.jet_factors import pulled_natively
from ..ops.nn.linear_activation import column_sums, gradient_code
from .graph import Call, FusedRule, Group, Node, Value

Emit = Callable[[Window, New], list[list[int]]]  # the steps of an instruction for a block of rows
Run = Any  # a RowRun
# By op: the place of the weight.
PRODUCTS = {"linear": 1, "gemm": 1, "layer_jet": 2, "layer_linear": 1, "layer_terms": 1}


def begun_by(node: Node) -> tuple[Value, Value] | None:
    """A result, or an operand, with the rows of what a layer or a product computes, and its weight."""
    if isinstance(node, FusedRule):
        return (node.given[2], node.given[4]) if node.name in INSTRUCTIONS else None
    if not isinstance(node, Call) or node.name not in PRODUCTS or node.attributes.get("ta"):
        return None
    place = PRODUCTS[node.name]
    return node.outs[min(len(node.outs) - 1, 1)], node.args[place]


def workspace(node: Node) -> int:
    """The bytes that an instruction needs for itself in eager code: of a layer, the gradients of a stream."""
    return node.given[6].array.nbytes if isinstance(node, FusedRule) and node.name in INSTRUCTIONS else 0


def emit_of(run: Run, node: Node) -> Emit:
    """How the steps of an instruction are written; Unfit if it has none, or none with the bits of eager code."""
    instruction = INSTRUCTIONS.get(node.name)
    if instruction is None or not all(
        type(v.array) is np.ndarray and v.array.size and v.array.flags.c_contiguous for v in node.outs
    ):
        raise Unfit
    return instruction(run, node)


# ---- products and arithmetic -----------------------------------------------------------------------------


def _linear(run: Run, node: Call) -> Emit:
    (x, weight, bias), (out,) = (*node.args, None)[:3], node.outs
    return _product(run, x, weight, bias, out, _transposed)


def _gemm(run: Run, node: Call) -> Emit:
    (x, weight), (out,), options = node.args, node.outs, node.attributes
    if options["ta"]:
        raise Unfit
    return _product(run, x, weight, None, out, _transposed if options["tb"] else _as_it_is)


def _product(
    run: Run, x: Value, weight: Value, bias: Value | None, out: Value, operand: Callable[..., Rows | Packed]
) -> Emit:  # fmt: skip
    """x @ operand(weight) for the rows of a matrix, or of a stack of them."""
    is_square = run.program.plan.root_of(x) == run.program.plan.root_of(weight)  # NumPy calls another function
    if is_square or not run.is_stack(x) or not run.is_stack(out):
        raise Unfit
    count = math.prod(x.shape[:-2])
    a, b, c = run.rows(x), operand(run, weight, 0, count), run.target_rows(out)
    run.products += 1
    if run.program.emitters[run.program.makers[out]] is None:  # whose products the program counts
        run.counted.append((count * run.height, x.shape[-1], out.shape[-1]))
    shift, add = None if bias is None else run.rows(bias), loop_of("add", out.dtype)

    def emit(window: Window, new: New) -> list[list[int]]:
        steps = products(window, run.height, a, b, c)
        if shift is not None:
            for s in range(count):
                at = c.of(window, run.height, s)
                steps += loops.over(add, [at, shift.of(window, run.height), at], c.shape_of(window), new)
        return steps

    return emit


def _group(run: Run, node: Group) -> Emit:
    kernel = node.code.kernel
    if kernel is None or not all(map(run.is_matrix, node.outs)):
        raise Unfit
    run.program.bind(kernel, "kernel")  # which has to live as long as the run
    return _loop(run, kernel.native.loop, [*map(run.rows, node.args), *map(run.target_rows, node.outs)])


def _add(run: Run, node: Call) -> Emit:
    (x, y), (out,) = node.args, node.outs
    alike = all(isinstance(v, Value) and run.is_matrix(v) and v.dtype == out.dtype for v in (x, y))
    if not alike or x.shape != y.shape or node.attributes["alpha"] != 1:
        raise Unfit
    return _loop(run, loop_of("add", out.dtype), [run.rows(x), run.rows(y), run.target_rows(out, over=(x, y))])


def _loop(run: Run, loop: tuple[int, int], operands: list[Rows]) -> Emit:
    """A loop over operands, the last of which has the shape of all results."""

    def emit(window: Window, new: New) -> list[list[int]]:
        listed = [rows.of(window, run.height) for rows in operands]
        return loops.over(loop, listed, operands[-1].shape_of(window), new)

    return emit


def _gradient(run: Run, node: Call) -> Emit:
    """A product with the derivative of an activation. The sums for the bias need all rows."""
    (h, saved, bias), (dz, db) = (*node.args, None)[:3], node.outs
    if not all(map(run.is_matrix, (h, saved, dz))) or h.dtype != saved.dtype or dz.array.size <= BLOCK:
        raise Unfit  # eager code has another formula for few elements
    how = node.attributes
    kernel, numbers = _kernel(run, gradient_code(how["activation"], how["parameters"], saved.dtype), saved)
    at, shift = run.rows(saved), None if bias is None else run.rows(bias)
    repeated = [(number, (0, 0), saved.dtype.itemsize) for number in numbers]
    arriving, out = run.rows(h), run.target_rows(dz, over=(h,))
    run.line_behind(column_sums, run.text_behind(dz), v=db)

    def emit(window: Window, new: New) -> list[list[int]]:
        steps, operand = shifted(at, shift, window, run.height, new)
        listed = [arriving.of(window, run.height), operand, *repeated, out.of(window, run.height)]
        return steps + loops.over(kernel.native.loop, listed, out.shape_of(window), new)

    return emit


# ---- layers ----------------------------------------------------------------------------------------------


def _layer(run: Run, node: Call) -> Emit:
    (saved, stream, weight, bias), (before, after), how = node.args, node.outs, node.attributes
    code = push_code(how["activation"], how["parameters"], saved.dtype, how["d"], how["groups"], len(stream.array))
    kernel, numbers = _kernel(run, code, saved)
    a, b, c = _begin(run, stream, weight, before, after.array.nbytes, turned=True)
    run.layers += 1
    layer = Layer(kernel, numbers, a, b, c, run.rows(saved), None if bias is None else run.rows(bias),
                  run.target_rows(after))
    return lambda window, new: layer.steps(window, run.height, new)


def _layer_linear(run: Run, node: Call) -> Emit:
    stream, weight = node.args
    linear = Linear(None, (), *_begin(run, stream, weight, node.outs[0], 0, turned=True))
    run.layers += 1
    return lambda window, new: linear.steps(window, run.height, new)


def _terms(run: Run, node: Call) -> Emit:
    (adjoint, weight, saved, tangents, bias), (arrived, left, out), how = node.args, node.outs, node.attributes
    o, d, h = len(adjoint.array), len(tangents.array), saved.shape[-1]
    kernel, numbers = _kernel(run, terms_code(how["activation"], how["parameters"], saved.dtype, o, d), saved)
    nbytes, ones = left.array.nbytes + d * saved.array.nbytes, numpy_ops.ones(h, saved.dtype)
    a, b, c = _begin(run, adjoint, weight, arrived, nbytes, turned=False)
    step = _step(run, adjoint, arrived, nbytes)
    if not tangents.array.flags.c_contiguous or not sums_are_equal(run.height, h, step, run.windows, saved.dtype):
        raise Unfit
    run.layers += 1
    terms = Terms(kernel, numbers, a, b, c, run.rows(saved), None if bias is None else run.rows(bias),
                  run.rows(tangents), Rows(run.bound(ones), ones), run.target_rows(left), run.target_rows(out))
    return lambda window, new: terms.steps(window, run.height, new)


def _layer_gradients(run: Run, node: FusedRule) -> Emit:
    """What the activation gives, and the product for x. Gradients of parameters, which need all rows, run behind."""
    (g_before, g), need, saved, stream, weight, bias, before, activation, parameters, d, groups = node.given
    if g_before is not None or not need[0] or not (need[1] or need[2]) or not run.is_matrix(saved):
        raise Unfit
    made = iter(node.outs)
    ds, dx, dw, db = [next(made) if gives else None for gives in node.gives]
    form, dtype = jets.Form(d, groups, len(before.array) > d, True), saved.dtype
    switch = pulled_natively(activation, parameters, dtype, bias is not None, form, 1, True)
    kernel, count = _native(run, switch, dtype), len(before.array)
    at, streams = [run.rows(v) for v in (saved, bias) if v is not None], [run.rows(before), run.rows(g)]
    moved, moves = list[tuple[Rows | Packed, Rows]](), dx is not None and stream.shape[1] == run.height
    if dw is not None:
        run.text_behind(stream)  # whose memory stays
    out, (pulled, text) = run.target_rows(ds), run.buffer((count, *saved.shape), (before,) if moves else (before, g))
    _gradients_behind(run, (stream, weight, before), (None if moves else dx, dw), text)
    if moves:
        moved.append((_as_it_is(run, weight, 0, count), run.target_rows(dx, over=(g,))))
        run.counted.append((count * run.height, *weight.shape))
    if db is not None:
        run.line_behind(sum_of_rows, run.text_behind(bias), run.text_behind(ds), "1", v=db)
    run.layers += 1

    def emit(window: Window, new: New) -> list[list[int]]:
        listed = [rows.of(window, run.height) for rows in at]
        listed += [plane for stack in streams for plane in stack.all(window, run.height)]
        listed += [out.of(window, run.height), *pulled.all(window, run.height)]
        steps = loops.over(kernel.native.loop, listed, out.shape_of(window), new)
        return steps + [step for b, c in moved for step in products(window, run.height, pulled, b, c)]

    return emit


def _gradients_behind(run: Run, values: tuple[Value, ...], grads: tuple[Value | None, ...], text: str) -> None:
    """Writes the products that need all rows of the gradients `text` of a stream before an activation."""
    (stream, weight, before), (dx, dw), h = values, grads, values[2].shape[-1]
    if before.shape[1] != run.height:  # the same in all rows
        text = run.line_behind(sum_of_rows, run.text_behind(before), text, "2")
    if dx is not None:
        run.line_behind(RAW.gemm, text, run.text_behind(weight), "False", "False", v=dx)
    if dw is not None:
        k = stream.shape[-1]
        work = len(before.array) * before.shape[1] * weight.array.nbytes
        run.product_behind(dw, f"{text}.reshape(-1, {h})", f"{run.text_behind(stream)}.reshape(-1, {k})", work)


def _kernel(run: Run, code: Any, saved: Value) -> tuple[Kernel, tuple[Place, ...]]:
    """The native code that reads `saved`, and its numbers."""
    if code is None or not run.is_matrix(saved):
        raise Unfit
    kernel = _native(run, code[0].native, saved.dtype)
    return kernel, tuple([run.bound(number) for number in code[1][: kernel.numbers]])


def _native(run: Run, switch: Switch | None, dtype: np.dtype) -> Kernel:
    """The native code, made now since that of groups was compiled before."""
    if switch is None or dtype not in FULL_FLOATS:
        raise Unfit
    if not switch.is_ready(dtype):
        switch.compile(dtype)
    kernel = switch.runs[dtype]
    if not isinstance(kernel, Kernel):
        raise Unfit
    run.program.bind(kernel, "kernel")  # which has to live as long as the run
    return kernel


def _begin(
    run: Run, x: Value, weight: Value, out: Value, others: int, turned: bool
) -> tuple[Rows | None, Rows | Packed | None, Rows]:
    """The operands and the result of the product that begins a layer; no operands if it is made before the run.

    turned: whether the weight is transposed. others: the bytes of what else the layer works on.
    """
    if not x.array.flags.c_contiguous or not weight.array.flags.c_contiguous:
        raise Unfit
    if x.shape[1] != run.height:  # the same in all rows
        place = run.made_before(out, matmul, run.text(x), run.text(weight) + (".T" if turned else ""))
        return None, None, Rows(place, out.array)
    if x.array.nbytes >= layer_jets.LARGE_BYTES:
        raise Unfit
    run.counted.append((x.array[..., 0].size, x.shape[-1], out.shape[-1]))
    operand = _transposed if turned else _as_it_is
    return run.rows(x), operand(run, weight, _step(run, x, out, others)), run.target_rows(out)


def _step(run: Run, x: Value, out: Value, others: int) -> int:
    """The rows of the blocks in which eager code computes a layer."""
    moves = x.shape[1] == run.height
    return layer_jets.block_rows(run.height, others + (x.array.nbytes + out.array.nbytes if moves else 0))


# ---- the second operands of products ---------------------------------------------------------------------


def _transposed(run: Run, weight: Value, step: int, count: int = 1) -> Rows | Packed:
    """The transposed weight, for products that eager code computes by blocks of `step` rows.

    With step 0 it computes those of a stack of `count` matrices at once. The weight is packed before the run; where
    products then have other bits than eager code, a small one is turned.
    """
    turns = weight.array.size <= layer_jets.MOST_TURNED
    packed = _packed(run, weight, weight.array.T, step, count, turns, is_view=True)
    if packed is not None:
        return packed
    _require_equal(run, weight.array.T, step, count, turns, is_view=True)
    return run.turned_copy(weight) if turns else Rows(run.whole(weight), weight.array.T)


def _as_it_is(run: Run, weight: Value, step: int, count: int = 1) -> Rows | Packed:
    """The weight, for the same products with it."""
    packed = _packed(run, weight, weight.array, step, count, True, is_view=False)
    if packed is not None:
        return packed
    _require_equal(run, weight.array, step, count, True, is_view=False)
    return Rows(run.whole(weight), weight.array)


def _packed(
    run: Run, weight: Value, b: np.ndarray, step: int, count: int, turns: bool, is_view: bool
) -> Packed | None:
    """The operand b, which is a weight or its transpose, packed; None if products then have other bits."""
    if weight.array.ndim != 2 or not weight.array.flags.c_contiguous:
        raise Unfit
    ends = packed_ends(count * run.height, *b.shape, turns, step, b.dtype, large_products.sharing(), is_view)
    return None if ends is None else run.packed(weight, b, ends)


def _require_equal(run: Run, b: np.ndarray, step: int, count: int, turns: bool, is_view: bool) -> None:
    """Unfit if products of blocks of rows with the operand b have other bits than eager code."""
    height = run.height
    windows = tuple([(s + i, s + j) for s in range(0, count * height, height) for i, j in run.windows])
    if not are_equal(count * height, *b.shape, turns, step, windows, b.dtype, large_products.sharing(), is_view):
        raise Unfit


INSTRUCTIONS: dict[str, Callable[..., Emit]] = {
    "linear": _linear, "gemm": _gemm, "group": _group, "add": _add, "smooth_grad": _gradient,
    "piecewise_linear_grad": _gradient, "layer_jet": _layer, "layer_linear": _layer_linear, "layer_terms": _terms,
    "layer_jet.fused": _layer_gradients,
}  # fmt: skip
