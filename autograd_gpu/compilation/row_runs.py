"""Layers of a second derivative as native code by blocks of rows: one call on each core goes through all of them.

A row of a product with a weight, of a group or of a `layer_jet` depends on the same row of what it reads. So a block of
rows, which fits into the cache of a core, goes through all these instructions before the next one begins. Others that
stand between them run before or behind. The bits are those of eager code; products are tried with random numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import counters
from ..backend.arrays.dtypes import FULL_FLOATS
from ..backend.cpu import chains, large_products, rows
from ..backend.cpu.blas import on_one_thread
from ..backend.cpu.matmul import matmul
from ..backend.formulas.native import runs
from ..backend.formulas.native.runs import MOST_ARRAYS, Place
from ..ops import layer_jets
from ..ops._support.layer_code import push_code
from ..ops.layer_jets import GRAIN, LARGE_BYTES, LEAST_BYTES, MOST_TURNED, Product
from .graph import Call, Group, Node, Value
from .names import identifier
from .native_runs import Listed, Run, Unfit, inner_loop_of, strides_of
from .passes.plan import Slot

BLOCK_BYTES = 1 << 19  # of what one instruction reads and writes in a block of rows: half of a core's L2 cache
# OpenBLAS' AVX-512 kernels pack the weight in products of more multiply-adds. Blocks of fewer rows avoid that; if they
# cannot, packing for each block takes longer than the cache saves.
SMALL_PRODUCT, SMALL_WEIGHT = 10**6, 1 << 12
TASKS_PER_CORE = 2  # where a core is taken, the others work on its share
Window = tuple[int, int]  # rows of a block: the first, and the one behind the last


class RowRun(Run):
    """The instructions from number `first` on that go through blocks of rows."""

    def _collect(self, last_uses: dict[int, list[Value]]) -> None:
        self.layers, self.slots, self.nbytes = 0, list[Slot](), 0
        self.turned: dict[Value, str] = {}  # by weight: the text for its transposed copy
        self.lines: list[str] = []  # before the call
        self.counted: list[tuple[int, ...]] = []  # the shapes of the products of layers
        layers = _layers_ahead(self.program.nodes[self.first :])
        if not layers:
            return
        self.height = layers[0].args[0].shape[0]
        self.tasks = _tasks(self.height, layers)
        self.windows = [(task, window) for task, windows in enumerate(self.tasks) for window in windows]
        self.parts: list[list[list[int]]] = [[] for _ in self.windows]
        for i, node in enumerate(self.program.nodes[self.first :], self.first):
            if self._is_made_once(node):
                self.program.instruction(i)  # which writes no line
            elif self._takes(i, node):
                self.end, self.count = i + 1, self.count + 1
            elif not self._sets_aside(i, node):
                break
        self._end_here()

    def _takes(self, i: int, node: Node) -> bool:
        lengths, lines = [len(part) for part in self.parts], [*self.lines]
        before = self.layers, [*self.slots], self.nbytes, {**self.turned}, [*self.counted]
        if super()._takes(i, node):
            return True
        self.layers, self.slots, self.nbytes, self.turned, self.counted = before
        self.lines[:] = lines
        for part, length in zip(self.parts, lengths, strict=True):
            del part[length:]
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
        if all(plan.slot(v) is None or program.makers.get(v) in self.after for v in node.reads):
            self.after.append(i)
            return True
        return False

    def _is_there(self, v: Value) -> bool:
        """Whether a value is there before the run."""
        maker = self.program.makers.get(v, -1)
        return maker < self.first or maker in self.before

    def _add(self, i: int, node: Node) -> None:
        if not all(type(v.array) is np.ndarray and v.array.flags.c_contiguous for v in node.outs):
            raise Unfit
        if isinstance(node, Call) and node.op.name == "layer_jet":
            add: Callable[[Any], None] = self._layer
        elif isinstance(node, Group):
            add = self._group
        elif isinstance(node, Call) and node.op.name == "linear":
            add = self._product
        else:
            raise Unfit
        for (task, window), steps in zip(self.windows, self.parts, strict=True):
            self.task, self.window, self.steps, self.temporaries = task, window, steps, 0
            add(node)
        if self.nbytes > chains.MOST_BYTES or len(self.arrays) > MOST_ARRAYS:
            raise Unfit

    # ---- instructions ------------------------------------------------------------------------------

    def _product(self, node: Call) -> None:
        (x, weight, bias), (out,) = (*node.args, None)[:3], node.outs
        if x.array.ndim != 2 or not x.array.flags.c_contiguous or len(x.array) != self.height:
            raise Unfit
        self._gemm_of_rows(x.array, weight, 0, x, out, is_layer=False)
        if bias is not None:
            function = inner_loop_of("add", out.dtype)
            self._over(function, [self._listed(v) for v in (out, bias, out)], self._shape(out))

    def _group(self, node: Group) -> None:
        kernel = node.code.kernel
        if kernel is None or node.outs[0].array.ndim != 2 or len(node.outs[0].array) != self.height:
            raise Unfit
        self.program.bind(kernel, "kernel")  # which has to live as long as the run
        listed = [self._listed(v) for v in node.args]
        self._over(kernel.native.loop, [*listed, *map(self._target, node.outs)], self._shape(node.outs[0]))

    def _layer(self, node: Call) -> None:
        (saved, stream, weight, bias), (before, after), how = node.args, node.outs, node.attributes
        dtype, moves = saved.dtype, stream.shape[1] == self.height
        code = push_code(how["activation"], how["parameters"], dtype, how["d"], how["groups"], len(stream.array))
        fits = dtype in FULL_FLOATS and saved.array.ndim == 2 and len(saved.array) == self.height
        if code is None or not fits or not all(v.array.flags.c_contiguous for v in (saved, stream, weight)):
            raise Unfit
        kernel = _kernel(code[0], dtype)
        if kernel is None or stream.array.nbytes >= LARGE_BYTES:
            raise Unfit
        self.program.bind(kernel, "kernel")
        if moves:
            for s in range(len(stream.array)):
                self._gemm_of_rows(stream.array[s], weight, s, stream, before, is_layer=True)
        elif before not in self.names:  # the same in all rows
            self.names[before] = identifier(before.name)
            of_all = self.program.bind(matmul, "matmul")
            self.lines.append(f"{self.names[before]} = {of_all}({self._text(stream)}, {self._text(weight)}.T)")
            self._given(self.names[before])
        shape = self._shape(saved)
        operands = [self._listed(saved)]
        if bias is not None:
            total = self._new(shape[0] * shape[1], dtype), (shape[1] * dtype.itemsize, dtype.itemsize), dtype.itemsize
            self._over(inner_loop_of("add", dtype), [*operands, self._listed(bias), total], shape)
            operands = [total]
        operands += [self._listed(before, s) for s in range(len(before.array))]
        operands += [(self._bound(number), (0, 0), dtype.itemsize) for number in code[1][: kernel.numbers]]
        operands += [self._target(after, s) for s in range(len(after.array))]
        self._over(kernel.native.loop, operands, shape)
        if self.window == self.windows[0][1]:
            self.layers += 1
            if moves:
                self.counted.append((stream.array[..., 0].size, *weight.shape[::-1]))

    def _gemm_of_rows(self, a: np.ndarray, weight: Value, s: int, x: Value, out: Value, is_layer: bool) -> None:
        """The steps for rows of matrix s of x times the transposed weight."""
        i, j = self.window
        w = weight.array
        turns = w.size <= MOST_TURNED
        if w.ndim != 2 or not w.flags.c_contiguous or w.dtype != a.dtype:
            raise Unfit
        if not _are_equal(self.height, *w.shape, a.dtype, tuple([w for _, w in self.windows]), turns, is_layer):
            raise Unfit
        b, at = (np.empty(w.shape[::-1], w.dtype), self._turned(weight)) if turns else (w.T, self.place(weight))
        places = [self._listed(x, s)[0], at, self._target(out, s)[0]]
        step = runs.gemm(a[i:j], b, places)
        if step is None:
            raise Unfit
        self.steps.append(step)

    # ---- memory ------------------------------------------------------------------------------------

    def _shape(self, v: Value) -> tuple[int, int]:
        return self.window[1] - self.window[0], v.shape[-1]

    def _listed(self, v: Value, s: int = 0) -> Listed:
        """The rows of the window of a matrix, or of matrix s of a stack."""
        return self._rows_of(v, s, self.place(v))

    def _target(self, v: Value, s: int = 0) -> Listed:
        return self._rows_of(v, s, self.place(v) if v in self.names else self.target(v))

    def _rows_of(self, v: Value, s: int, place: Place) -> Listed:
        array, offset = v.array, 0
        if array.ndim == 3:
            array, offset = array[s], s * array.strides[0]
        strides = strides_of(array, (self.height, array.shape[-1] if array.ndim else 1))
        return Place(place.number, place.offset + offset + self.window[0] * strides[0]), strides, array.itemsize

    def place(self, v: Value) -> Place:
        if v not in self.names and not self._is_there(v):
            raise Unfit
        self._touch(v)
        return super().place(v)

    def target(self, v: Value) -> Place:
        self._touch(v)
        return super().target(v)

    def _touch(self, v: Value) -> None:
        """Unfit where a block would overwrite rows that other blocks have yet to read."""
        slot = self.program.plan.slot(v)
        if slot is None or slot in self.slots:
            return
        for other in self.slots:
            apart = slot.place + slot.nbytes <= other.place or other.place + other.nbytes <= slot.place
            if not apart and (slot.place, slot.shape, slot.dtype) != (other.place, other.shape, other.dtype):
                raise Unfit
        self.slots.append(slot)

    def _may_make(self, v: Value) -> bool:
        if self.program.plan.root_of(v) not in self.program.plan.kept:
            self.nbytes += v.array.nbytes
        return True

    def _new(self, elements: int, dtype: np.dtype) -> Place:
        """Memory of a task, whose blocks use it one after the other."""
        name = f"s{self.first}_{self.task}_{self.temporaries}_{elements}"
        self.temporaries += 1
        self.scratch[name] = f"{self.program.bind(np.empty, 'empty')}({elements}, {self.program.bind(dtype, 'dtype')})"
        return self._static(name)

    def _turned(self, weight: Value) -> Place:
        """A transposed copy of a weight, which is made before the run."""
        if weight not in self.turned:
            name = self.turned[weight] = f"w{self.first}_{len(self.turned)}"
            shape, dtype = weight.shape[::-1], self.program.bind(weight.dtype, "dtype")
            self.scratch[name] = f"{self.program.bind(np.empty, 'empty')}({shape!r}, {dtype})"
            self.lines.append(f"{self.program.bind(np.copyto, 'copyto')}({name}, {self._text(weight)}.T)")
        return self._static(self.turned[weight])

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
        super()._write_call()

    def _function(self) -> Callable[..., Any]:
        tasks: list[list[list[int]]] = [[] for _ in self.tasks]
        for (task, _), steps in zip(self.windows, self.parts, strict=True):
            tasks[task] += steps
        return by_tasks([runs.function_of(steps) for steps in tasks])


def by_tasks(functions: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    """A function that calls all functions with its arguments, on all cores."""

    def run(*arguments: Any) -> None:
        def work(i: int, j: int) -> None:
            for function in functions[i:j]:
                function(*arguments)

        on_one_thread(rows.in_blocks, len(functions), 1, work)

    return run


def _counting(shapes: Sequence[tuple[int, ...]]) -> Callable[[], None]:
    def count() -> None:
        for shape in shapes:
            counters.matmul(shape)

    return count


def _layers_ahead(nodes: Sequence[Node]) -> list[Call]:
    """The `layer_jet`s of matrices before the first instruction that could not run beside them."""
    layers = []
    for node in nodes:
        if not isinstance(node, (Call, Group)) or node.has_effect:
            break
        if isinstance(node, Call) and node.op.name == "layer_jet":
            if type(node.outs[0].array) is not np.ndarray or node.args[0].array.ndim != 2:
                break
            layers.append(node)
    return layers


def _kernel(code: Any, dtype: np.dtype) -> Any:
    """The native code of a formula; made now, since that of groups was compiled before. None if there is none."""
    switch = code.native
    if switch is None:
        return None
    if not switch.is_ready(dtype):
        switch.compile(dtype)
    return switch.runs[dtype] if switch.is_ready(dtype) else None


def _tasks(height: int, layers: Sequence[Call]) -> list[list[Window]]:
    """For each task, of which a core does one at a time, its blocks of rows."""
    row = max([v.array.itemsize * v.shape[-1] * (2 * len(v.array) + 1) for v in [layer.outs[1] for layer in layers]])
    share = height
    if height * row >= LEAST_BYTES and large_products.are_shared():
        share = _whole(-(-height // (rows.cores() * TASKS_PER_CORE)))
    weight = max([layer.args[2].array.size for layer in layers])
    count = math.ceil(share * max(row / BLOCK_BYTES, weight / SMALL_PRODUCT)) if weight <= SMALL_WEIGHT else 1
    step = _whole(-(-share // count))
    ends = [min(start + share, height) for start in range(0, height, share)]
    return [[(i, min(i + step, end)) for i in range(start, end, step)]
            for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _whole(count: int) -> int:
    return -(-count // GRAIN) * GRAIN


@functools.lru_cache(1024)
def _are_equal(
    height: int, h: int, k: int, dtype: np.dtype, windows: tuple[Window, ...], turned: bool, is_layer: bool
) -> bool:
    """Whether products of blocks of rows with a transposed weight have the bits of eager code."""
    rng = np.random.default_rng(height + h + k)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((height, k), (h, k)))
    if is_layer:
        product = Product(x[None], w.T, height)
        layer_jets.by_blocks(height, 1 << 30, product.compute)
        expected = product.out[0]
    else:
        expected = matmul(x, w.T)
    b, out = np.ascontiguousarray(w.T) if turned else w.T, np.empty((height, h), dtype)
    at = Place(0), Place(1), Place(2)
    for i, j in windows:
        step = runs.gemm(x[i:j], b, at)
        if step is None:
            return False
        runs.function_of([step])(runs.places(), x[i:j], b if turned else w, out[i:j])
    return bool(np.array_equal(out, expected))


def row_run_at(program: Any, first: int, last_uses: dict[int, list[Value]]) -> RowRun | None:
    """The run of layers that begins with instruction `first`, if there is one."""
    run = RowRun(program, first, last_uses)
    return run if run.count and run.layers else None
