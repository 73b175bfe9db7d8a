"""Neighbouring products, sums and groups of a program as one call of native code (backend/formulas/native/runs.py).

A run has the instructions that emitters write, in their order, with the same functions and arguments, in the same
memory. It is written once the groups of a program have machine code. Setting a `.grad` in the middle waits for its end,
which nobody can see. What the instructions make that is in no memory of the program is allocated before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from ..backend.arrays.dtypes import FULL_FLOATS
from ..backend.arrays.strides import address
from ..backend.cpu import numpy_ops, pool
from ..backend.cpu.pool import SMALLEST as LARGE
from ..backend.formulas.native import loops, runs
from ..backend.formulas.native.loops import Listed, Unfit, loop_of, strides_of
from ..backend.formulas.native.runs import MOST_ARRAYS, Place
from ..core.declare.op import ALWAYS
from . import native_cross_entropy
from .emitters import PRODUCTS, SUMS, UFUNCS, product_of
from .graph import ARGUMENT, CAPTURED, CONSTANT, RESULT, Call, FusedRule, Group, Look, Node, SetGrad, Value
from .names import identifier
from .passes.plan import is_fresh

FEWEST = 2  # instructions of a run


class Run:
    """The instructions of a program from number `first` on that run as one call. `program` writes the lines."""

    # What instructions add to.
    STATE: tuple[str, ...] = ("steps", "arrays", "static", "names", "made", "moved", "scratch", "checks")

    def __init__(self, program: Any, first: int, last_uses: dict[int, list[Value]]) -> None:
        self.program, self.first, self.end, self.count = program, first, first, 0
        self.steps: list[list[int]] = []
        self.arrays: dict[str, int] = {}  # by text: the number of an array that each call gets
        self.static: dict[str, int] = {}  # by text: the number of one that is the same in all calls
        self.names: dict[Value, str] = {}  # of what it makes
        self.made: dict[Value, str] = {}  # the text for new memory
        self.moved: dict[Value, str] = {}  # the text for that of an operand, which is no memory of the program
        self.before: list[int] = []  # instructions that may as well stand before the run
        self.after: list[int] = []  # and behind it
        self.scratch: dict[str, str] = {}  # by name: the text for memory of its own
        self.checks: list[tuple[Value, int, int]] = []  # classes of a cross entropy, their number, that to ignore
        self.freed: list[Value] = []  # what is needed by instructions before the run alone
        self.last_uses = last_uses
        self._collect()

    def _collect(self) -> None:
        """Takes instructions as long as they fit."""
        program = self.program
        for i, node in enumerate(program.nodes[self.first :], self.first):
            if self._is_made_once(node):
                program.instruction(i)  # which writes no line
                continue
            if _shows_argument(node):
                self.before.append(i)
                continue
            if waits(node):
                self.after.append(i)
                continue
            if not self._takes(i, node):
                break
            self.end, self.count = i + 1, self.count + 1
            if any(v.array.nbytes >= LARGE for v in self.last_uses.get(i, ())):
                break  # large memory is given back at its last use
        self._end_here()

    def _end_here(self) -> None:
        """Leaves out what comes behind the last instruction that was taken."""
        self.before, self.after = ([i for i in listed if i < self.end] for listed in (self.before, self.after))
        self.freed = [v for i in self.before for v in self._freed_by(i)]

    def _freed_by(self, i: int) -> list[Value]:
        """What an instruction before the run reads last, and nothing in the run reads."""
        others = [self.program.nodes[k] for k in range(self.first, i) if k not in self.before]
        needed = {v for node in others for v in (*node.reads, *node.made())}
        return [v for v in self.last_uses.get(i, ()) if v not in needed]

    def _is_made_once(self, node: Node) -> bool:
        return bool(node.outs) and node.outs[0] in self.program.made_once

    def _takes(self, i: int, node: Node) -> bool:
        """Takes an instruction, if it has steps; else everything is as it was."""
        before = {name: copy(getattr(self, name)) for name in self.STATE}
        try:
            self._add(i, node)
        except Unfit:
            vars(self).update(before)
            return False
        return True

    def _add(self, i: int, node: Node) -> None:
        on_host = all(type(v.array) is np.ndarray and v.array.size for v in node.outs)
        if on_host and isinstance(node, Call) and node.op.name == "basic_index_backward":
            self._spread(node)
        elif self.program.emitters[i] is None or not on_host:
            raise Unfit
        elif isinstance(node, Group):
            self._group(node)
        elif isinstance(node, Call) and node.op.name in PRODUCTS:
            self._product(node)
        elif isinstance(node, Call) and node.op.name in SUMS:
            self._sum(node)
        elif isinstance(node, Call) and node.op.name in UFUNCS:
            self._ufunc(node)
        elif isinstance(node, Call) and node.op.name == "class_cross_entropy":
            self._losses(node)
        elif isinstance(node, Call) and node.op.name == "cross_entropy_grad":
            self._gradient_of_losses(node)
        else:
            raise Unfit
        if len(self.arrays) > MOST_ARRAYS:
            raise Unfit

    # ---- instructions ------------------------------------------------------------------------------

    def _product(self, node: Call) -> None:
        (a, b, bias), (out,) = (*node.args, None)[:3], node.outs
        is_linear, options = node.op.name == "linear", node.attributes
        ta, tb = (False, True) if is_linear else (bool(options.get("ta")), bool(options.get("tb")))
        product = product_of(a, b, ta, tb, out)
        if product is None or self.program.plan.root_of(a) == self.program.plan.root_of(b):
            raise Unfit
        m, _, n = product.shape
        left, right = a.array.T if ta else a.array, b.array.T if tb else b.array
        at = self.place(a), self.place(b)
        target = self.target(out)
        if product.turned:
            scratch = self._new(m * n, out.dtype)
            self._gemm(right.T, left.T, [at[1], at[0], scratch])
            self.steps.append(runs.transposed(m, n, scratch, target))
        else:
            self._gemm(left, right, [*at, target])
        if bias is not None:
            self._loop(loop_of("add", out.dtype), [out, bias], [out])

    def _gemm(self, a: np.ndarray, b: np.ndarray, places: Sequence[Place]) -> None:
        step = runs.gemm(a, b, places)
        if step is None or not runs.products_are_equal(
            *a.shape, b.shape[1], not a.flags.c_contiguous, not b.flags.c_contiguous, a.dtype
        ):
            raise Unfit
        self.steps.append(step)

    def _sum(self, node: Call) -> None:
        x, (out,) = node.args[0], node.outs
        (n, m), dtype = x.shape, out.dtype
        if not runs.sums_are_equal(n, m, dtype):
            raise Unfit
        at, target = self.place(x), self.target(out)
        steps = runs.column_sums(n, m, lambda n: self.bound(numpy_ops.ones(n, dtype)), at,
                                 lambda elements: self._new(elements, dtype), target, dtype)
        self.steps += steps or []

    def _ufunc(self, node: Call) -> None:
        dtype = node.outs[0].dtype
        operands = [a if isinstance(a, Value) else numpy_ops.constant(a, dtype) for a in node.args]
        self._loop(loop_of(UFUNCS[node.op.name], dtype), operands, node.outs)

    def _spread(self, node: Call) -> None:
        """Zeros with an array in a part of them."""
        g, (out,) = node.args[0], node.outs
        part = np.empty(out.shape, out.dtype)[node.attributes["key"]]
        dense, dtype = out.array.flags.c_contiguous, out.dtype
        if dtype not in FULL_FLOATS or g.dtype != dtype or g.shape != part.shape or not dense or not part.shape:
            raise Unfit
        target, size, zero = self.target(out), dtype.itemsize, self.bound(numpy_ops.constant(0.0, dtype))
        self.steps.append(runs.copies(out.array.size, size, zero, target))
        offset = address(part) - address(part if part.base is None else part.base)
        listed = [(self.place(g), g.array.strides), (Place(target.number, target.offset + offset), part.strides)]
        self.steps += loops.strided(loop_of("positive", dtype), listed, part.shape)

    def _losses(self, node: Call) -> None:
        (x, target), (loss, probs), kept = node.args[:2], node.outs, node.extras["scale"]
        if target.kind != ARGUMENT or target.dtype != np.int64 or not target.array.flags.c_contiguous:
            raise Unfit
        if not isinstance(kept, Value) or not native_cross_entropy.are_equal(x.shape, x.dtype):
            raise Unfit
        at = self.place(x), self.place(target), self.target(loss), self.target(probs)
        self.steps += native_cross_entropy.loss_steps(x.shape, x.dtype, self.bound, self._new, *at) or []
        scale = np.asarray(1.0 / len(x.array), x.dtype)
        self.names[kept] = self.program.bind(scale, "scale")
        self._static(self.names[kept])
        self.program.made_once.add(kept)
        self.checks.append((target, x.shape[1], node.attributes["ignore_index"]))

    def _gradient_of_losses(self, node: Call) -> None:
        (h, probs, target, scale), (out,) = node.args, node.outs
        if target not in [checked for checked, *_ in (*self.checks, *self.program.checks)]:
            raise Unfit
        at = self.place(h), self.place(probs), self.place(target), self.place(scale), self.target(out)
        self.steps += native_cross_entropy.gradient_steps(probs.shape, probs.dtype, self._new, *at)

    def _group(self, node: Group) -> None:
        kernel = node.code.kernel
        if kernel is None or not node.code.is_small:
            raise Unfit
        self.program.bind(kernel, "kernel")  # which has to live as long as the run
        self._loop(kernel.native.loop, node.args, node.outs)

    def _loop(self, function: tuple[int, int], operands: Sequence[Any], outs: Sequence[Value]) -> None:
        """The steps for a loop over arrays of one shape, beside numbers, rows and columns."""
        shape, listed = outs[0].shape, list[Listed]()
        for x in operands:
            place = self.place(x) if isinstance(x, Value) else self.bound(x)
            listed.append((place, strides_of(x.array if isinstance(x, Value) else x, shape), x.dtype.itemsize))
        listed += [(self.target(v) if v not in self.names else self.place(v), v.array.strides, v.dtype.itemsize)
                   for v in outs]  # fmt: skip
        if not all(v.array.flags.c_contiguous for v in outs):
            raise Unfit
        self.steps += loops.over(function, listed, shape, self._new)

    # ---- memory ------------------------------------------------------------------------------------

    def place(self, v: Value) -> Place:
        """Where an operand is; Unfit if its memory might have other strides than in the record."""
        program, slot = self.program, self.program.plan.slot(v)
        if slot is not None:
            return self._static(f"m{slot.number}")
        if v in self.names:
            text = self.moved.get(v, self.names[v])
            return self._static(text) if text in self.static else self._given(text)
        if v in program.made_once or v.kind == CAPTURED or self._is_constant(v):
            return self._static(program.argument(v))
        if v.kind == ARGUMENT or self._is_known(v):
            return self._given(program.argument(v))
        raise Unfit

    def _is_constant(self, v: Value) -> bool:
        return v.kind == CONSTANT and v.root not in self.program.written

    def _is_known(self, v: Value) -> bool:
        """Whether an instruction before the run makes v as it was in the record in every call."""
        i = self.program.makers.get(v)
        if i is not None and _shows_argument(self.program.nodes[i]):
            return True
        if i is None or not v.array.flags.c_contiguous:
            return False
        node = self.program.nodes[i]
        if self.program.emitters[i] is not None:
            return all(u.array.flags.c_contiguous for u in (*node.reads, *node.outs))
        return is_fresh(node) if isinstance(node, FusedRule) else (
            isinstance(node, Call) and node.op.contiguous and v in node.outs
        )  # fmt: skip

    def target(self, v: Value) -> Place:
        """Where a result is to be."""
        program, slot = self.program, self.program.plan.slot(v)
        if slot is not None:
            self.names[v] = f"m{slot.number}"
            return self._static(self.names[v])
        over = program.plan.over.get(v)
        if over is not None:
            return self._put_over(v, over)
        if not self._may_make(v):
            raise Unfit
        self.names[v] = identifier(v.name)
        empty = pool.empty if v.array.nbytes >= LARGE else np.empty
        self.made[v] = f"{program.bind(empty, 'empty')}({v.shape!r}, {program.bind(v.dtype, 'dtype')})"
        return self._given(self.names[v])

    def _put_over(self, v: Value, over: Value) -> Place:
        """Puts a result into the memory of an operand."""
        at = self.place(over)
        self.names[v], self.moved[v] = identifier(v.name), self._memory_of(over)
        return at

    def _memory_of(self, v: Value) -> str:
        """The text for the array in whose memory a value is."""
        return self.moved.get(v, self.names.get(v) or self.program.argument(v))

    def _may_make(self, v: Value) -> bool:
        """Whether the memory of v may be new, and given back behind the run."""
        return v.array.nbytes < LARGE or self.program.plan.root_of(v) in self.program.plan.kept

    def _given(self, text: str) -> Place:
        return Place(self.arrays.setdefault(text, len(self.arrays)))

    def _static(self, text: str) -> Place:
        return Place(MOST_ARRAYS + self.static.setdefault(text, len(self.static)))

    def bound(self, array: np.ndarray) -> Place:
        """An array that is not written to."""
        return self._static(self.program.bind(array, "fixed"))

    def _new(self, elements: int, dtype: np.dtype) -> Place:
        """Memory of the run, which belongs to one call at a time as that of the program does."""
        name = f"s{self.first}_{len(self.scratch)}"
        self.scratch[name] = self._new_memory(elements, dtype)
        return self._static(name)

    def _new_memory(self, shape: int | tuple[int, ...], dtype: np.dtype) -> str:
        return f"{self.program.bind(np.empty, 'empty')}({shape!r}, {self.program.bind(dtype, 'dtype')})"

    # ---- text --------------------------------------------------------------------------------------

    def write(self) -> None:
        """Writes the run, and what stands before and behind it."""
        program = self.program
        for i in self.before:
            program.instruction(i)
        program.delete(self.freed)
        program.names.update(self.names)
        program.checks += self.checks
        for v, text in self.made.items():
            program.line(f"{self.names[v]} = {text}")
        for i, node in enumerate(program.nodes[self.first : self.end], self.first):
            if i in self.before or i in self.after or self._is_made_once(node):
                continue
            made, read = (", ".join([v.name for v in values]) for values in (node.outs, node.reads))
            for line in node.lines if isinstance(node, Group) else [f"{made} = {node.name}({read})  [{node.where}]"]:
                program.line(f"# {line}")
        self._write_call()
        for v, text in self.moved.items():
            program.line(f"{self.names[v]} = {text}")
        self._write_behind()

    def _write_behind(self) -> None:
        for i in self.after:
            self.program.instruction(i)

    def _write_call(self) -> None:
        program, function = self.program, self.program.bind(self._function(), "run")
        for name, text in self.scratch.items():
            program.once(name, text)
        places = program.once(f"{function}_places", f"{program.bind(runs.places, 'places')}({', '.join(self.static)})")
        program.line(f"{function}({', '.join([places, *self.arrays])})")

    def _function(self) -> Callable[..., Any]:
        return runs.function_of(self.steps)


def waits(node: Node) -> bool:
    """Whether an instruction may wait for the end of a run, which nobody can see."""
    return (isinstance(node, SetGrad) and node.value is not None) or isinstance(node, Look)


def _shows_argument(node: Node) -> bool:
    """Whether an instruction makes a view of an argument, whose strides are those of the record."""
    views = isinstance(node, Call) and node.op.view == ALWAYS and node.op.single and not node.extras
    return views and len(node.reads) == 1 and node.reads[0].kind == ARGUMENT and node.outs[0].kind == RESULT


def checking(
    checks: Sequence[tuple[int, int, int]], run: Callable[..., Any], lines: Callable[..., Any]
) -> Callable[..., Any]:  # fmt: skip
    """What runs a program: `run`, or `lines` where classes are ignored or out of range. checks: the number of the
    argument that has classes, how many there are, and which is ignored."""

    def checked(*arguments: Any) -> Any:
        for place, classes, ignored in checks:
            if not native_cross_entropy.are_usual(arguments[place]._array, classes, ignored):
                return lines(*arguments)
        return run(*arguments)

    return checked if checks else run


def may_have_runs(program: Any) -> bool:
    """Whether a program, whose groups have native code, may have runs."""
    return len(program.emitters) - program.emitters.count(None) >= FEWEST and runs.are_there()


def run_at(program: Any, first: int, last_uses: dict[int, list[Value]]) -> Run | None:
    """The run that begins with instruction `first`, if there is one."""
    run = Run(program, first, last_uses)
    return run if run.count >= FEWEST else None
