"""Emitters: texts for ops on NumPy arrays that are shorter than a call of their forward, with the same bits.

What a forward decides by shapes, strides and dtypes is decided when the program is made: the route of a product or a
sum, the passes of a layer. The result goes into memory that the plan of the program has for it. tests/compilation
compares each emitter with its forward. An op whose forward looks at values, or splits its work among threads, has none;
the classes of a cross entropy are checked at each call, and unusual ones are left to the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..backend.arrays.dtypes import FULL_FLOATS
from ..backend.cpu import few_rows, large_products, matmul, numpy_ops, pool, sums
from ..backend.cpu.blas import SMALL_PRODUCT, SMALL_VECTOR
from ..backend.cpu.pool import SMALLEST as LARGE
from ..core.declare.op import RAW
from ..ops.nn.class_indices import check_classes
from ..ops.nn.linear_activation import ACTIVATIONS
from .graph import RESULT, Call, Group, Node, Value

# By op: its ufunc, for arrays in float32 and float64 of one dtype, and numbers.
UFUNCS = {
    "abs": "absolute", "add": "add", "ceil": "ceil", "cos": "cos", "div": "true_divide", "exp": "exp",
    "expm1": "expm1", "floor": "floor", "log": "log", "log1p": "log1p", "maximum": "maximum", "minimum": "minimum",
    "mul": "multiply", "neg": "negative", "sin": "sin", "sqrt": "sqrt", "square": "square", "sub": "subtract",
    "tanh": "tanh",
}  # fmt: skip
# Activations that are one ufunc, with its second operand.
ACTIVATING: dict[str, tuple[str, float | None]] = {"relu": ("maximum", 0.0), "tanh": ("tanh", None)}
PRODUCTS = frozenset(("gemm", "matmul", "mm", "linear"))
SUMS = frozenset(("sum_to", "sum"))  # of a matrix over its rows, where they have an emitter
# Ops whose results are new memory, which nobody else knows.
FRESH = frozenset((*UFUNCS, "gemm", "matmul", "mm", "linear", "tanh_grad", "relu_grad", "relu", "bias_activation",
                   "layer_jet", "layer_linear", "layer_terms", "packed_codes", "packed_scaled", "unpacked"))


class Writer(Protocol):
    """What an emitter asks of the program that it writes a part of."""

    def line(self, text: str) -> None:
        """Writes a line."""

    def argument(self, x: Any) -> str:
        """The text for an argument."""

    def bind(self, x: Any, prefix: str) -> str:
        """The text for an object."""

    def make(self, v: Value) -> str:
        """The name of a new value."""

    def out(self, v: Value) -> str:
        """The text for the memory of a new value; "" for new memory."""

    def scratch(self, k: int) -> str:
        """The text for memory that the emitter has asked for, or ""."""

    def transposed(self, v: Value) -> str:
        """The text for the transposed view of a matrix."""


@dataclass
class Emitter:
    """How an instruction is written.

    outs        its results that go into memory of the plan, in every run
    over        operands in whose memory the first of them may be put
    scratch     shapes and dtypes of further memory
    products    the shapes of its matrix products, for profilers
    threads     whether a product could wake threads of BLAS
    """

    write: Callable[[Writer], None]
    outs: Sequence[Value] = ()
    over: Sequence[Value] = ()
    scratch: Sequence[tuple[tuple[int, ...], np.dtype]] = field(default_factory=list)
    products: Sequence[tuple[int, ...]] = field(default_factory=list)
    threads: bool = False


def emitter_of(node: Node) -> Emitter | None:
    """How an instruction is written, or None if its forward has to run."""
    if isinstance(node, Group):
        return Emitter(lambda w: write_group(w, node), node.outs, node.reads)
    if not isinstance(node, Call) or any(v.kind != RESULT for v in node.outs):
        return None
    if not all(type(v.array) is np.ndarray and v.array.size for v in (*node.reads, *node.outs)):
        return None
    make = EMITTERS.get(node.op.name)
    return None if make is None else make(node)


def _alike(*values: Any) -> bool:
    """Whether values are float32 or float64, all of one dtype."""
    dtypes = {v.dtype for v in values}
    return all(isinstance(v, Value) for v in values) and len(dtypes) == 1 and dtypes <= {*FULL_FLOATS}


def _is_dense(*values: Value) -> bool:
    """Whether values are row-major without gaps."""
    return all(v.array.flags.c_contiguous for v in values)


def _argument(out: str) -> str:
    return f", {out}" if out else ""


# ---- elementwise -------------------------------------------------------------------------------------


def _elementwise(node: Call) -> Emitter | None:
    out = node.outs[0]
    if node.attributes.get("alpha", 1) != 1 or node.attributes.get("rounding_mode") is not None:
        return None
    if not out.shape or out.array.nbytes >= LARGE or not _alike(out, *node.reads):
        return None
    if any(type(a) not in (int, float) for a in node.args if not isinstance(a, Value)):
        return None

    def write(w: Writer) -> None:
        name = UFUNCS[node.op.name]
        args = [*map(w.argument, node.args)]
        args += [f"out={w.out(out)}"] if w.out(out) else []
        w.line(f"{w.make(out)} = {w.bind(getattr(np, name), name)}({', '.join(args)})")

    return Emitter(write, [out], node.reads)


def _activate(w: Writer, activation: str, x: str, out: Value, target: str) -> None:
    """Writes the line for an activation that is one ufunc."""
    name, second = ACTIVATING[activation]
    operand = "" if second is None else f", {w.bind(numpy_ops.constant(second, out.dtype), 'zero')}"
    target = f", out={target}" if target else ""
    w.line(f"{w.make(out)} = {w.bind(getattr(np, name), name)}({x}{operand}{target})")


def _relu(node: Call) -> Emitter | None:
    (x,), (out,) = node.args, node.outs
    if not out.shape or out.array.nbytes >= LARGE or not _alike(x, out) or not _is_dense(x):
        return None
    return Emitter(lambda w: _activate(w, "relu", w.argument(x), out, w.out(out)), [out], [x])


def write_group(w: Writer, node: Group) -> None:
    """Writes the line for a group. A ufunc makes results in the order of its operands, so others are made before."""
    dense = type(node.outs[0].array) is not np.ndarray or _is_dense(*node.args)
    outs = [w.out(v) or ("None" if dense else f"{w.bind(np.empty, 'empty')}({v.shape!r}, {w.bind(v.dtype, 'dtype')})")
            for v in node.outs]  # fmt: skip
    args = [*map(w.argument, node.args)]
    if any(out != "None" for out in outs):
        args.append(f"out=({', '.join(outs)}, )")
    w.line(f"{', '.join(map(w.make, node.outs))} = {w.bind(node.code, 'group')}({', '.join(args)})")


# ---- products ----------------------------------------------------------------------------------------


@dataclass
class _Product:
    """a @ b of two matrices, by the route of backend/cpu/matmul.py. `turned`: as (b.T @ a.T).T, copied."""

    a: Value
    b: Value
    ta: bool
    tb: bool
    turned: bool
    shape: tuple[int, int, int]

    def write(self, w: Writer, name: str, out: str, scratch: str) -> None:
        m, _, n = self.shape
        a = w.transposed(self.a) if self.ta else w.argument(self.a)
        b = w.transposed(self.b) if self.tb else w.argument(self.b)
        if self.turned:
            at = w.argument(self.a) if self.ta else w.transposed(self.a)
            bt = w.argument(self.b) if self.tb else w.transposed(self.b)
            product = f"{bt}.dot({at}{_argument(scratch)}).T"
            empty = pool.empty if m * n * self.a.dtype.itemsize >= LARGE else np.empty
            target = out or f"{w.bind(empty, 'empty')}(({m}, {n}), {w.bind(self.a.dtype, 'dtype')})"
            w.line(f"{name} = {target}")
            w.line(f"{name}[...] = {product}")
            return
        if not out and m * n * self.a.dtype.itemsize >= LARGE:
            out = f"{w.bind(pool.empty, 'pooled')}(({m}, {n}), {w.bind(self.a.dtype, 'dtype')})"
        w.line(f"{name} = {a}.dot({b}{_argument(out)})")

    def emitter(self, write: Callable[[Writer], None], out: Value) -> Emitter:
        m, k, n = self.shape
        scratch = [((n, m), out.dtype)] if self.turned else []
        threads = m * k * n > (SMALL_VECTOR if m == 1 or n == 1 else SMALL_PRODUCT)
        return Emitter(write, [out], [], scratch, [self.shape], threads)


def product_of(a: Value, b: Value, ta: bool, tb: bool, out: Value) -> _Product | None:
    """The product, or None if it is none of two matrices, is summed by blocks, or may be divided among threads."""
    if not _alike(a, b, out) or len(a.shape) != 2 or len(b.shape) != 2 or not _is_dense(out):
        return None
    left, right = a.array.T if ta else a.array, b.array.T if tb else b.array
    (m, k), n = left.shape, right.shape[1]
    if right.shape[0] != k:
        return None
    work = m * k * n
    tiny = left.size * n < matmul.TINY
    if work > matmul.TINY and k >= matmul.MANY_TERMS and 1 < m * n <= matmul.FEW_RESULTS:
        return None
    if work * a.dtype.itemsize // large_products.PER_BLOCK >= 2:
        return None
    return _Product(a, b, ta, tb, not tiny and few_rows.are_few(left, right), (m, k, n))


def _gemm(node: Call) -> Emitter | None:
    (a, b), (out,) = node.args, node.outs
    product = product_of(a, b, bool(node.attributes.get("ta")), bool(node.attributes.get("tb")), out)
    if product is None:
        return None
    return product.emitter(lambda w: product.write(w, w.make(out), w.out(out), w.scratch(0)), out)


def _linear(node: Call) -> Emitter | None:
    (x, weight, bias), (out,) = (*node.args, None)[:3], node.outs
    product = product_of(x, weight, False, True, out)
    if product is None or (bias is not None and not _alike(bias, out)):
        return None

    def write(w: Writer) -> None:
        name = w.make(out)
        product.write(w, name, w.out(out), w.scratch(0))
        if bias is not None:
            w.line(f"{w.bind(np.add, 'add')}({name}, {w.argument(bias)}, {name})")

    return product.emitter(write, out)


# ---- sums --------------------------------------------------------------------------------------------


def _by_product(x: Value) -> bool:
    """Whether `sums.total` computes the sum of a dense matrix over its rows by one product with ones."""
    n, m = x.shape
    return n * m <= numpy_ops.FEW or (m > 1 and n * m <= SMALL_VECTOR and n <= sums.FEW_ROWS)


def _column_sums(w: Writer, x: Value, out: str, target: str) -> None:
    """Writes the sum of a dense matrix over its rows, as `sums.total` computes it."""
    n, name = x.shape[0], w.argument(x)
    if _by_product(x):
        ones = w.bind(numpy_ops.ones(n, x.dtype), "ones")
        w.line(f"{out} = {ones}.dot({name}{_argument(target)})")
    else:
        w.line(f"{out} = {w.bind(sums.total, 'total')}({name}, 0)")


def _sum_to(node: Call) -> Emitter | None:
    x, (out,) = node.args[0], node.outs
    dense = _alike(x, out) and len(x.shape) == 2 and _is_dense(x)
    if not dense or out.shape != x.shape[1:] or x.shape[0] == 1:
        return None
    return Emitter(lambda w: _column_sums(w, x, w.make(out), w.out(out)), [out] if _by_product(x) else [])


def _sum(node: Call) -> Emitter | None:
    """The sum of a dense matrix over its rows."""
    (x,), (out,), options = node.args, node.outs, node.attributes
    if not _alike(x, out) or len(x.shape) != 2 or not _is_dense(x) or options["dtype"] is not None:
        return None
    if options["keepdim"] or type(options["dim"]) is not int or options["dim"] not in (0, -2):
        return None
    return Emitter(lambda w: _column_sums(w, x, w.make(out), w.out(out)), [out] if _by_product(x) else [])


# ---- a linear layer with an activation ---------------------------------------------------------------


def _bias_activation(node: Call) -> Emitter | None:
    (z, bias), (out,), activation = node.args, node.outs, node.attributes["activation"]
    if activation not in ACTIVATING or not _alike(z, bias, out) or out.array.nbytes >= LARGE:
        return None
    if len(out.shape) < 2 or not _is_dense(z, out):
        return None

    def write(w: Writer) -> None:
        name, target = w.make(out), w.out(out)
        w.line(f"{name} = {w.bind(np.add, 'add')}({w.argument(z)}, {w.argument(bias)}{_argument(target)})")
        _activate(w, activation, name, out, name)

    return Emitter(write, [out], [z])


def _gradient_and_sums(node: Call) -> Emitter | None:
    (h, saved, bias), (dz, db) = (*node.args, None)[:3], node.outs
    if bias is not None or not _alike(h, saved, dz, db) or len(dz.shape) != 2 or dz.array.nbytes >= LARGE:
        return None
    if not _is_dense(h, saved, dz):
        return None
    family, parameters = ACTIVATIONS[node.attributes["activation"]], node.attributes["parameters"]

    def write(w: Writer) -> None:
        args = ", ".join(map(w.argument, (h, saved, *parameters)))
        w.line(f"{w.make(dz)} = {w.bind(family.at(RAW, 1), f'{family.name}_grad')}({args})")
        _column_sums(w, dz, w.make(db), w.out(db))

    return Emitter(write, [db] if _by_product(dz) else [])


# ---- cross entropy -----------------------------------------------------------------------------------


def usual_losses(node: Call) -> bool:
    """Whether a cross entropy is the mean over the rows of a matrix, without weights."""
    (x, target, weight), (loss, probs) = (*node.args, None)[:3], node.outs
    if weight is not None or node.attributes["reduction"] != "mean" or not _alike(x, loss, probs):
        return False
    if len(x.shape) != 2 or len(target.shape) != 1 or set(node.extras) != {"scale"} or probs.array.nbytes >= LARGE:
        return False
    return _is_dense(x, probs)


def mean_of_losses(x: Any, target: Any, places: Any, scale: Any) -> tuple[Any, Any]:
    """The mean of the cross entropies of classes that are all in range, and the probabilities."""
    highest = numpy_ops.max_reduce(x, 1, keepdims=True)
    with np.errstate(invalid="ignore"):
        e = np.subtract(x, highest)
    np.exp(e, e)
    sum_of_row = sums.total(e, -1, True)
    losses = highest[:, 0] - x[places, target]
    losses += np.log(sum_of_row[:, 0])
    return np.asarray(numpy_ops.add_reduce(losses) * scale), np.divide(e, sum_of_row, e)


def gradient_of_mean(h: Any, probs: Any, target: Any, scale: Any, places: Any, out: Any = None) -> Any:
    """Its gradient."""
    factor = h * scale
    out = np.multiply(probs, factor, out)
    out[places, target] -= factor
    return out


def _cross_entropy(node: Call) -> Emitter | None:
    """Classes that are ignored lead to the forward."""
    if not usual_losses(node):
        return None
    x, target, (loss, probs) = node.args[0], node.args[1], node.outs
    forward, attributes = node.op.forward, dict(node.attributes)
    (rows, classes), ignore = x.shape, attributes["ignore_index"]
    places, scale = np.arange(rows), np.asarray(1.0 / rows, x.dtype)

    def cross_entropy(x: Any, target: Any) -> tuple[Any, Any, Any]:
        if not check_classes(target, classes, ignore):
            (loss, probs), extras = forward(np, x, target, None, **attributes)
            return np.asarray(loss), np.ascontiguousarray(probs), extras["scale"]
        return *mean_of_losses(x, target, places, scale), scale

    def write(w: Writer) -> None:
        kept = node.extras["scale"]
        names = [w.make(loss), w.make(probs), w.make(kept) if isinstance(kept, Value) else "_"]
        w.line(f"{', '.join(names)} = {w.bind(cross_entropy, 'cross_entropy')}({w.argument(x)}, {w.argument(target)})")

    return Emitter(write)


def _cross_entropy_grad(node: Call) -> Emitter | None:
    """The gradient for a mean: h and scale are numbers."""
    (h, probs, target, scale), (out,) = node.args, node.outs
    if not _alike(h, probs, scale, out) or h.shape or scale.shape or len(probs.shape) != 2:
        return None
    if len(target.shape) != 1 or not _is_dense(probs, out):
        return None
    forward, places = node.op.forward, np.arange(probs.shape[0])

    def gradient(h: Any, probs: Any, target: Any, scale: Any, out: Any = None) -> Any:
        if scale.ndim:  # the classes of this call are unusual: else all are in range
            result = forward(np, h, probs, target, scale)
            if out is None:
                return result
            out[...] = result
            return out
        return gradient_of_mean(h, probs, target, scale, places, out)

    def write(w: Writer) -> None:
        args = ", ".join(map(w.argument, node.args))
        w.line(f"{w.make(out)} = {w.bind(gradient, 'gradient')}({args}{_argument(w.out(out))})")

    return Emitter(write, [out], [probs])


EMITTERS: dict[str, Callable[[Any], Emitter | None]] = {
    **dict.fromkeys(UFUNCS, _elementwise), "relu": _relu, "gemm": _gemm, "matmul": _gemm, "mm": _gemm,
    "linear": _linear, "sum_to": _sum_to, "sum": _sum,
    "bias_activation": _bias_activation, "piecewise_linear_grad": _gradient_and_sums,
    "smooth_grad": _gradient_and_sums, "class_cross_entropy": _cross_entropy,
    "cross_entropy_grad": _cross_entropy_grad,
}  # fmt: skip
