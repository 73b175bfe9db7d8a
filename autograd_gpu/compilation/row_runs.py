"""Layers of a second derivative as native code by blocks of rows: one call on each core goes through all of them.

A row of a product with a weight, of a group or of a `layer_jet` depends on the same row of what it reads. So a block of
rows, which fits into the cache of a core, goes through all these instructions before the next one begins. Others that
stand between them run before or behind. The bits are those of eager code; products are tried with random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import counters
from ..backend.arrays.dtypes import FULL_FLOATS
from ..backend.cpu import chains, large_products, numpy_ops
from ..backend.cpu.matmul import matmul
from ..backend.formulas.native import loops, runs
from ..backend.formulas.native.layers import (
    SHARED_BYTES,
    Layer,
    Linear,
    Rows,
    Scratch,
    Terms,
    Window,
    are_equal,
    by_tasks,
    product,
    sums_are_equal,
    tasks,
)
from ..backend.formulas.native.loops import New, Unfit, loop_of
from ..backend.formulas.native.runs import MOST_ARRAYS, Place
from ..ops import layer_jets
from ..ops._support.layer_code import push_code, terms_code
from .graph import Call, Group, Node, Value
from .names import identifier
from .native_runs import Run
from .passes.plan import Slot

PRODUCTS = {"linear": 1, "layer_jet": 2, "layer_linear": 1, "layer_terms": 1}  # by op: the place of the weight
Emit = Callable[[Window, New], list[list[int]]]  # the steps of an instruction for a block of rows


class RowRun(Run):
    """The instructions from number `first` on that go through blocks of rows."""

    def _collect(self, last_uses: dict[int, list[Value]]) -> None:
        plan, self.layers, self.slots, self.nbytes = self.program.plan, 0, list[Slot](), 0
        self.placed = {plan.root_of(v) for slot in plan.placed for v in slot.values}  # roots of memory of the program
        self.behind: list[Slot] = []  # where instructions behind the run put their results
        self.held = set[int]()  # roots of memory that is read behind the run, or as a whole by each block
        self.turned: dict[Value, str] = {}  # by weight: the name of its transposed copy
        self.lines: list[str] = []  # before the call
        self.counted: list[tuple[int, ...]] = []  # the shapes of the products of layers
        self.emits: list[Emit] = []
        self.products = 0
        self.height, products = _products_ahead(self.program.nodes[self.first :])
        if not products:
            return
        self.tasks = _tasks(self.height, products)
        self.windows = tuple([window for task in self.tasks for window in task])
        for i, node in enumerate(self.program.nodes[self.first :], self.first):
            if self._is_made_once(node):
                self.program.instruction(i)  # which writes no line
            elif self._takes(i, node):
                self.end, self.count = i + 1, self.count + 1
            elif not self._sets_aside(i, node):
                break
        self._end_here()

    def _takes(self, i: int, node: Node) -> bool:
        before = self.layers, self.products, [*self.slots], self.nbytes, {**self.turned}, [*self.lines]
        noted = [*self.counted], {*self.held}
        if super()._takes(i, node):
            return True
        self.layers, self.products, self.slots, self.nbytes, self.turned, self.lines = before
        self.counted, self.held = noted
        return False

    def _sets_aside(self, i: int, node: Node) -> bool:
        """Whether an instruction may as well stand before or behind the run."""
        program, plan = self.program, self.program.plan
        if not isinstance(node, (Call, Group)) or node.has_effect:
            return False
        if any(slot.place >= 0 for slot in plan.scratch.get(i, ())):
            return False
        if all(self._is_there(v) for v in node.reads) and all(
            plan.slot(v) is None and v not in plan.over for v in node.made()
        ):
            self.before.append(i)
            return True
        # Memory of the program that it reads might be taken by a later instruction of the chain.
        if all(plan.root_of(v) not in self.placed or program.makers.get(v) in self.after for v in node.reads):
            self.after.append(i)
            self.held |= {plan.root_of(v) for v in node.reads}
            self.behind += [slot for v in node.made() if (slot := plan.slot(v)) is not None]
            return True
        return False

    def _is_there(self, v: Value) -> bool:
        """Whether a value is there before the run."""
        maker = self.program.makers.get(v, -1)
        return maker < self.first or maker in self.before

    def _add(self, i: int, node: Node) -> None:
        if not all(type(v.array) is np.ndarray and v.array.size and v.array.flags.c_contiguous for v in node.outs):
            raise Unfit
        if isinstance(node, Call) and node.op.name == "layer_jet":
            emit = self._layer(node)
        elif isinstance(node, Call) and node.op.name == "layer_linear":
            emit = self._linear(node)
        elif isinstance(node, Call) and node.op.name == "layer_terms":
            emit = self._terms(node)
        elif isinstance(node, Group):
            emit = self._rows_of_group(node)
        elif isinstance(node, Call) and node.op.name == "linear":
            emit = self._rows_of_product(node)
        else:
            raise Unfit
        for window in {j - i: (i, j) for i, j in self.windows}.values():
            emit(window, Scratch(0).of(0))  # Unfit if blocks of this size have no steps
        if self.nbytes > chains.MOST_BYTES or len(self.arrays) > MOST_ARRAYS:
            raise Unfit
        self.emits.append(emit)

    # ---- instructions ------------------------------------------------------------------------------

    def _rows_of_product(self, node: Call) -> Emit:
        (x, weight, bias), (out,) = (*node.args, None)[:3], node.outs
        plan = self.program.plan
        is_square = plan.root_of(x) == plan.root_of(weight)  # for x @ x.T NumPy calls another function
        if is_square or not self._is_stack(x) or not self._is_stack(out):
            raise Unfit
        count = math.prod(x.shape[:-2])
        a, b, c = self._rows(x), self._transposed(weight, 0, count), self._target(out)
        self.products += 1
        if self.program.emitters[self.program.makers[out]] is None:  # whose products the program counts
            self.counted.append((count * self.height, *weight.shape[::-1]))
        shift, add = None if bias is None else self._rows(bias), loop_of("add", out.dtype)

        def emit(window: Window, new: New) -> list[list[int]]:
            steps = [product(window, self.height, a, b, c, s) for s in range(count)]
            if shift is not None:
                for s in range(count):
                    at = c.of(window, self.height, s)
                    steps += loops.over(add, [at, shift.of(window, self.height), at], c.shape_of(window), new)
            return steps

        return emit

    def _rows_of_group(self, node: Group) -> Emit:
        kernel = node.code.kernel
        if kernel is None or not all(map(self._is_matrix, node.outs)):
            raise Unfit
        self.program.bind(kernel, "kernel")  # which has to live as long as the run
        operands = [*map(self._rows, node.args), *map(self._target, node.outs)]

        def emit(window: Window, new: New) -> list[list[int]]:
            listed = [rows.of(window, self.height) for rows in operands]
            return loops.over(kernel.native.loop, listed, operands[-1].shape_of(window), new)

        return emit

    def _layer(self, node: Call) -> Emit:
        (saved, stream, weight, bias), (before, after), how = node.args, node.outs, node.attributes
        code = push_code(how["activation"], how["parameters"], saved.dtype, how["d"], how["groups"], len(stream.array))
        kernel, numbers = self._kernel(code, saved)
        a, b, c = self._begin(stream, weight, before, after.array.nbytes, turned=True)
        layer = Layer(kernel, numbers, a, b, c, self._rows(saved), None if bias is None else self._rows(bias),
                      self._target(after))
        return lambda window, new: layer.steps(window, self.height, new)

    def _linear(self, node: Call) -> Emit:
        stream, weight = node.args
        linear = Linear(None, (), *self._begin(stream, weight, node.outs[0], 0, turned=True))
        self.layers += 1
        return lambda window, new: linear.steps(window, self.height, new)

    def _terms(self, node: Call) -> Emit:
        (adjoint, weight, saved, tangents, bias), (arrived, left, out), how = node.args, node.outs, node.attributes
        o, d, h = len(adjoint.array), len(tangents.array), saved.shape[-1]
        kernel, numbers = self._kernel(terms_code(how["activation"], how["parameters"], saved.dtype, o, d), saved)
        nbytes, ones = left.array.nbytes + d * saved.array.nbytes, numpy_ops.ones(h, saved.dtype)
        a, b, c = self._begin(adjoint, weight, arrived, nbytes, turned=False)
        step = self._step(adjoint, arrived, nbytes)
        if not tangents.array.flags.c_contiguous or not sums_are_equal(self.height, h, step, self.windows, saved.dtype):
            raise Unfit
        terms = Terms(kernel, numbers, a, b, c, self._rows(saved), None if bias is None else self._rows(bias),
                      self._rows(tangents), Rows(self._bound(ones), ones), self._target(left), self._target(out))
        return lambda window, new: terms.steps(window, self.height, new)

    def _kernel(self, code: Any, saved: Value) -> tuple[Any, tuple[Place, ...]]:
        """The native code behind a product, made now since that of groups was compiled before; and its numbers."""
        if code is None or not self._is_matrix(saved) or saved.dtype not in FULL_FLOATS:
            raise Unfit
        if code[0].native is not None and not code[0].native.is_ready(saved.dtype):
            code[0].native.compile(saved.dtype)
        kernel = code[0].kernel(saved.dtype)
        if kernel is None:
            raise Unfit
        self.program.bind(kernel, "kernel")  # which has to live as long as the run
        self.layers += 1
        return kernel, tuple([self._bound(number) for number in code[1][: kernel.numbers]])

    def _begin(
        self, x: Value, weight: Value, out: Value, others: int, turned: bool
    ) -> tuple[Rows | None, Rows | None, Rows]:
        """The operands and the result of the product that begins a layer; no operands if it is made before the run.

        turned: whether the weight is transposed. others: the bytes of what else the layer works on.
        """
        if not x.array.flags.c_contiguous or not weight.array.flags.c_contiguous:
            raise Unfit
        if x.shape[1] != self.height:  # the same in all rows
            name = self.names[out] = identifier(out.name)
            of_all = self.program.bind(matmul, "matmul")
            self.lines.append(f"{name} = {of_all}({self._text(x)}, {self._text(weight)}{'.T' if turned else ''})")
            return None, None, Rows(self._given(name), out.array)
        if x.array.nbytes >= layer_jets.LARGE_BYTES:
            raise Unfit
        step = self._step(x, out, others)
        k, h = x.shape[-1], out.shape[-1]
        self.counted.append((x.array[..., 0].size, k, h))
        if turned:
            b = self._transposed(weight, step)
        elif are_equal(self.height, k, h, True, step, self.windows, x.dtype):
            b = Rows(self._whole(weight), weight.array)
        else:
            raise Unfit
        return self._rows(x), b, self._target(out)

    def _step(self, x: Value, out: Value, others: int) -> int:
        """The rows of the blocks in which eager code computes a layer."""
        moves = x.shape[1] == self.height
        return layer_jets.block_rows(self.height, others + (x.array.nbytes + out.array.nbytes if moves else 0))

    def _transposed(self, weight: Value, step: int, count: int = 1) -> Rows:
        """The transposed weight, for products that eager code computes by blocks of `step` rows.

        With step 0 it computes those of a stack of `count` matrices at once. If it is small, a copy is made before.
        """
        w = weight.array
        if w.ndim != 2 or not w.flags.c_contiguous:
            raise Unfit
        turns = w.size <= layer_jets.MOST_TURNED
        windows = tuple([(s + i, s + j) for s in range(0, count * self.height, self.height) for i, j in self.windows])
        sharing = large_products.sharing()
        if not are_equal(count * self.height, *w.shape[::-1], turns, step, windows, w.dtype, sharing):
            raise Unfit
        if not turns:
            return Rows(self._whole(weight), w.T)
        if weight not in self.turned:
            name = self.turned[weight] = f"w{self.first}_{len(self.turned)}"
            self.scratch[name] = self._new_memory(w.shape[::-1], w.dtype)
            self.lines.append(f"{self.program.bind(np.copyto, 'copyto')}({name}, {self._text(weight)}.T)")
        return Rows(self._static(self.turned[weight]), np.empty(w.shape[::-1], w.dtype))

    # ---- memory ------------------------------------------------------------------------------------

    def _is_stack(self, v: Value) -> bool:
        return v.array.ndim in (2, 3) and v.shape[-2] == self.height and v.array.flags.c_contiguous

    def _is_matrix(self, v: Value) -> bool:
        return v.array.ndim == 2 and len(v.array) == self.height and v.array.flags.c_contiguous

    def _rows(self, v: Value) -> Rows:
        return Rows(self.place(v), v.array)

    def _target(self, v: Value) -> Rows:
        return Rows(self.target(v), v.array)

    def place(self, v: Value) -> Place:
        if v not in self.names and not self._is_there(v):
            raise Unfit
        self._touch(v)
        return super().place(v)

    def target(self, v: Value) -> Place:
        self._touch(v)
        over = self.program.plan.over.get(v)
        if over is not None and self.program.plan.root_of(over) in self.held:
            raise Unfit
        return super().target(v)

    def _whole(self, v: Value) -> Place:
        """Where a matrix is of which each block reads all rows."""
        root = self.program.plan.root_of(v)
        if not self._is_there(v) or root in self.placed:
            raise Unfit
        self.held.add(root)
        return super().place(v)

    def _touch(self, v: Value) -> None:
        """Unfit where a block would overwrite rows that other blocks, or instructions behind the run, have yet to read.

        A view of memory of the program may have other rows than the memory.
        """
        slot = self.program.plan.slot(v)
        if slot is None and self.program.plan.root_of(v) in self.placed:
            raise Unfit
        if slot is not None and slot not in self.slots:
            others = [s for s in self.slots if (s.place, s.shape, s.dtype) != (slot.place, slot.shape, slot.dtype)]
            begin, end = slot.place, slot.place + slot.nbytes
            if any(begin < s.place + s.nbytes and s.place < end for s in others + self.behind):
                raise Unfit
            self.slots.append(slot)

    def _may_make(self, v: Value) -> bool:
        if self.program.plan.root_of(v) not in self.program.plan.kept:
            self.nbytes += v.array.nbytes
        return True

    def _text(self, v: Value) -> str:
        if not self._is_there(v):
            raise Unfit
        return self.program.argument(v)

    # ---- text --------------------------------------------------------------------------------------

    def _write_call(self) -> None:
        for line in self.lines:
            self.program.line(line)
        if self.counted:
            self.program.line(f"if observers: {self.program.bind(_counting(self.counted), 'count')}()")
        self.program.has_row_runs = True
        super()._write_call()

    def _function(self) -> Callable[..., Any]:
        memory = Scratch(MOST_ARRAYS + len(self.static))
        functions = [
            runs.function_of([step for window in windows for emit in self.emits
                              for step in emit(window, memory.of(task))])
            for task, windows in enumerate(self.tasks)
        ]  # fmt: skip
        for number, (*_, elements, dtype) in enumerate(memory.known):
            name = f"s{self.first}_{number}"
            self.scratch[name] = self._new_memory(elements, dtype)
            self._static(name)
        return by_tasks(functions)


def while_shared_alike(run: Callable[..., Any], lines: Callable[..., Any]) -> Callable[..., Any]:
    """What runs a program: `run` as long as cores share products as they do now, else `lines`, as eager code does."""
    now = large_products.sharing()
    return lambda *arguments: (run if large_products.sharing() == now else lines)(*arguments)


def _counting(shapes: Sequence[tuple[int, ...]]) -> Callable[[], None]:
    def count() -> None:
        for shape in shapes:
            counters.matmul(shape)

    return count


def _products_ahead(nodes: Sequence[Node]) -> tuple[int, list[Call]]:
    """The height of matrices, and the layers and products of them that come before what cannot run beside them.

    Those of another height than the first one do not count.
    """
    height, products = 0, list[Call]()
    for node in nodes:
        if not isinstance(node, (Call, Group)) or node.has_effect:
            break
        if isinstance(node, Call) and node.op.name in PRODUCTS:
            x = node.outs[min(len(node.outs) - 1, 1)].array
            if type(x) is not np.ndarray or x.ndim < 2 or not x.size:
                break
            height = height or x.shape[-2]
            if x.shape[-2] == height:
                products.append(node)
    return height, products


def _tasks(height: int, products: Sequence[Call]) -> list[list[Window]]:
    nbytes = [sum([v.array.nbytes for v in (*node.reads, *node.outs) if height in v.shape[-2:-1]]) for node in products]
    weight = max([node.args[PRODUCTS[node.op.name]].array.size for node in products])
    of_layers = sum([n for n, node in zip(nbytes, products, strict=True) if node.op.name != "linear"])
    many = max(nbytes) >= layer_jets.LEAST_BYTES or of_layers >= SHARED_BYTES
    return tasks(height, max(nbytes) // height, weight, many and large_products.are_shared())


def row_run_at(program: Any, first: int, last_uses: dict[int, list[Value]]) -> RowRun | None:
    """The run that begins with instruction `first`, if there is one: of layers, or of products on several cores."""
    run = RowRun(program, first, last_uses)
    return run if run.layers or (run.products > 1 and len(run.tasks) > 1) else None
