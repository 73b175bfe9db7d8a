"""Layers of a second derivative as native code by blocks of rows: one call on each core goes through all of them.

A row of a product with a weight, of a group or of a `layer_jet` depends on the same row of what it reads. So a block of
rows, which fits into the cache of a core, goes through all these instructions before the next one begins. Others that
stand between them run before or behind, and so do products that need all rows, such as gradients of weights. The bits
are those of eager code; products are tried with random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import counters
from ..backend.cpu import large_products, pool
from ..backend.formulas.native.layers import (
    SHARED_BYTES,
    Packed,
    Rows,
    Scratch,
    Window,
    by_tasks,
    packed_weight,
    tasks,
)
from ..backend.formulas.native.loops import Unfit
from ..backend.formulas.native.packed import Ends, ends_of_weight
from ..backend.formulas.native.runs import MOST_ARRAYS, Place
from ..ops import layer_jets
from . import behind
from .graph import Call, FusedRule, Group, Node, Value
from .names import identifier
from .native_runs import Run, waits
from .passes.fuse import FEW_BYTES, MORE
from .passes.plan import Slot
from .row_instructions import Emit, begun_by, emit_of, workspace


class RowRun(Run):
    """The instructions from number `first` on that go through blocks of rows."""

    STATE = (*Run.STATE, "layers", "products", "slots", "nbytes", "held", "turned", "packs", "lines", "counted",
             "emits", "lines_behind", "products_behind", "holders", "late", "temporaries")  # fmt: skip

    def _collect(self) -> None:
        plan = self.program.plan
        self.layers = self.products = self.nbytes = 0
        self.slots = list[Slot]()
        self.placed = {plan.root_of(v) for slot in plan.placed for v in slot.values}  # roots of memory of the program
        self.slots_behind: list[Slot] = []  # where instructions behind the run put their results
        self.held = set[int]()  # roots of memory that is read behind the run, or as a whole by each block
        self.holders: dict[str, Value] = {}  # by text of new memory: the value that it holds last
        self.turned: dict[Value, str] = {}  # by weight: the name of its transposed copy
        self.packs: dict[tuple[Value, bool], Packed] = {}  # by weight, and whether it is turned: packed before the rows
        self.lines: list[str] = []  # before the call
        self.lines_behind: list[str] = []
        self.products_behind: list[behind.Product] = []
        self.late = set[Value]()  # the results of these lines and products
        self.temporaries: list[str] = []  # names of memory that lines behind the run read last
        self.counted: list[tuple[int, ...]] = []  # the shapes of the products of layers
        self.emits: list[Emit] = []
        self.height, products = _products_ahead(self.program.nodes[self.first :])
        if not products:
            return
        self.tasks = _tasks(self.height, products)
        if len(self.tasks) == 1 and not any(node.name.startswith("layer") for node, _ in products):
            return  # no run, of whatever it has (row_run_at)
        self.alive = plan.alive(self.program.nodes, self.first)
        self.room = most_bytes(self.program) - sum(self.alive.values())
        self.windows = tuple([window for task in self.tasks for window in task])
        for i, node in enumerate(self.program.nodes[self.first :], self.first):
            self.number = i
            if self._is_made_once(node):
                self.program.instruction(i)  # which writes no line
            elif self._takes(i, node):
                self.end, self.count = i + 1, self.count + 1
            elif not self._sets_aside(i, node):
                break
        self._end_here()

    def _sets_aside(self, i: int, node: Node) -> bool:
        """Whether an instruction may as well stand before or behind the run."""
        program, plan = self.program, self.program.plan
        if waits(node):
            self.after.append(i)
            return True
        if not isinstance(node, (Call, Group)) or node.has_effect:
            return False
        if any(slot.place >= 0 for slot in plan.scratch.get(i, ())):
            return False
        read, made = {plan.root_of(v) for v in node.reads}, [v for v in node.made() if v not in plan.over]
        new = sum([v.array.nbytes for v in made if plan.root_of(v) not in read])
        if all(map(self._is_there, node.reads)) and all(self._may_be_earlier(i, v) for v in node.made()):
            self.before.append(i)
            freed = {plan.root_of(v) for v in self._freed_by(i) if plan.is_dead(i + 1, v)}
            self.nbytes += new - sum([self.alive.get(root, 0) for root in freed])
            self.alive |= {plan.root_of(v): v.array.nbytes for v in made if plan.root_of(v) not in read}
            return True
        # Memory of the program that it reads might be taken by a later instruction of the chain.
        if all(plan.root_of(v) not in self.placed or program.makers.get(v) in self.after for v in node.reads):
            self.after.append(i)
            self.nbytes += new
            self.held |= read
            self.slots_behind += [slot for v in node.made() if (slot := plan.slot(v)) is not None]
            return True
        return False

    def _is_there(self, v: Value) -> bool:
        """Whether a value is there before the run."""
        maker = self.program.makers.get(v, -1)
        return maker < self.first or maker in self.before

    def _may_be_earlier(self, i: int, v: Value) -> bool:
        """Whether nothing in the run, or behind it, needs the memory in which a result of instruction i is to be."""
        plan, slot, over = self.program.plan, self.program.plan.slot(v), self.program.plan.over.get(v)
        between = [self.program.nodes[k] for k in range(self.first, i) if k not in self.before]
        needed = {plan.root_of(u) for node in between for u in (*node.reads, *node.made())}
        if over is not None:
            return plan.root_of(over) not in needed
        return slot is None or not any(
            slot.overlaps(other) and any(plan.root_of(u) in needed for u in other.values)
            for other in plan.placed if other is not slot
        )  # fmt: skip

    def _add(self, i: int, node: Node) -> None:
        emit = emit_of(self, node)
        for window in {j - i: (i, j) for i, j in self.windows}.values():
            emit(window, Scratch(0).of(0))  # Unfit if blocks of this size have no steps
        if self.nbytes > self.room or len(self.arrays) > MOST_ARRAYS:
            raise Unfit
        self.emits.append(emit)

    # ---- operands and results ----------------------------------------------------------------------

    def is_stack(self, v: Value) -> bool:
        """Whether a value is a matrix with the rows of the run, or a stack of them."""
        return v.array.ndim in (2, 3) and v.shape[-2] == self.height and v.array.flags.c_contiguous

    def is_matrix(self, v: Value) -> bool:
        """Whether a value is a matrix with the rows of the run."""
        return v.array.ndim == 2 and len(v.array) == self.height and v.array.flags.c_contiguous

    def rows(self, v: Value) -> Rows:
        """An operand."""
        return Rows(self.place(v), v.array)

    def whole(self, v: Value) -> Place:
        """Where a matrix is of which each block reads all rows."""
        root = self.program.plan.root_of(v)
        if not self._is_there(v) or root in self.placed:
            raise Unfit
        self.held.add(root)
        return super().place(v)

    def packed(self, weight: Value, operand: np.ndarray, ends: Ends) -> Packed:
        """The weight or its transpose, packed before the run."""
        key = weight, not operand.flags.c_contiguous
        if key not in self.packs:
            packing, self.packs[key] = packed_weight(Rows(self.whole(weight), operand), ends, self._new)
            self.steps.append(packing)
        return self.packs[key]._replace(ends=ends)  # products of other heights may have other parts

    def turned_copy(self, weight: Value) -> Rows:
        """The transposed copy of a matrix, made before the run."""
        shape, dtype = weight.shape[::-1], weight.dtype
        if weight not in self.turned:
            name = self.turned[weight] = f"w{self.first}_{len(self.turned)}"
            self.scratch[name] = self._new_memory(shape, dtype)
            self.lines.append(f"{self.program.bind(np.copyto, 'copyto')}({name}, {self.text(weight)}.T)")
        return Rows(self._static(self.turned[weight]), np.empty(shape, dtype))

    def made_before(self, v: Value, function: Callable[..., Any], *operands: str) -> Place:
        """Where a result is that a line before the run makes."""
        name = self.names[v] = identifier(v.name)
        self.lines.append(f"{name} = {self.program.bind(function, function.__name__)}({', '.join(operands)})")
        return self._given(name)

    def target_rows(self, v: Value, over: Sequence[Value] = ()) -> Rows:
        """A result, perhaps in the memory of one of the operands `over`, which this instruction reads before."""
        if self.program.plan.slot(v) is None and v not in self.program.plan.over:
            for u in over:
                if u.shape == v.shape and u.dtype == v.dtype and self._is_free(u):
                    return Rows(self._put_over(v, u), v.array)
        return Rows(self.target(v), v.array)

    def buffer(self, shape: tuple[int, ...], over: Sequence[Value]) -> tuple[Rows, str]:
        """A stack that this instruction writes and lines behind the run read, and its text: in memory of an operand, or
        new. It has the dtype of the operands."""
        for u in over:
            if u.shape[1:] == shape[1:] and len(u.array) >= shape[0] and self._is_free(u):
                self.held.add(self.program.plan.root_of(u))
                return Rows(self.place(u), u.array[: shape[0]]), f"{self._memory_of(u)}[:{shape[0]}]"
        name, dtype = self._temporary("b"), over[0].dtype
        pooled, like = self.program.bind(pool.empty, "pooled"), np.empty(shape, dtype)
        self.lines.append(f"{name} = {pooled}({shape}, {self.program.bind(dtype, 'dtype')})")
        self.nbytes += like.nbytes
        return Rows(self._given(name), like), name

    def _temporary(self, prefix: str) -> str:
        """The name of memory that lines of this instruction behind the run read last."""
        self.temporaries.append(f"{prefix}{self.first}_{self.number}")
        return self.temporaries[-1]

    def _is_free(self, v: Value) -> bool:
        """Whether the memory of an operand of this instruction may be written to, row by row."""
        plan = self.program.plan
        return v.array.flags.c_contiguous and plan.is_free_behind(self.number, v) and (
            plan.root_of(v) not in self.placed | self.held
        )  # fmt: skip

    def place(self, v: Value) -> Place:
        if v in self.late or (v not in self.names and not self._is_there(v)):
            raise Unfit
        self._touch(v)
        return super().place(v)

    def target(self, v: Value) -> Place:
        self._touch(v)
        plan, over = self.program.plan, self.program.plan.over.get(v)
        if over is not None and plan.root_of(over) in self.held:
            raise Unfit
        if over is None and plan.slot(v) is None:
            over = next((u for u in self.holders.values() if self._may_follow(v, u)), None)
            if over is not None:
                return self._put_over(v, over)
        at = super().target(v)
        if v in self.made:
            self.holders[self.names[v]] = v
        return at

    def _may_follow(self, v: Value, u: Value) -> bool:
        """Whether a result may be put into memory of the run in which a value was that nothing reads any more."""
        plan, alike = self.program.plan, (u.shape, u.dtype) == (v.shape, v.dtype)
        return alike and plan.is_dead(self.number, u) and plan.root_of(u) not in self.held

    def _put_over(self, v: Value, over: Value) -> Place:
        at = super()._put_over(v, over)
        if self.moved[v] in self.holders:
            self.holders[self.moved[v]] = v
        return at

    def _touch(self, v: Value) -> None:
        """Unfit where a block would overwrite rows that other blocks, or instructions behind the run, have yet to read.

        A view of memory of the program may have other rows than the memory.
        """
        slot = self.program.plan.slot(v)
        if slot is None and self.program.plan.root_of(v) in self.placed:
            raise Unfit
        if slot is not None and slot not in self.slots:
            others = [s for s in self.slots if (s.place, s.shape, s.dtype) != (slot.place, slot.shape, slot.dtype)]
            if any(map(slot.overlaps, others + self.slots_behind)):
                raise Unfit
            self.slots.append(slot)

    def _may_make(self, v: Value) -> bool:
        self.nbytes += v.array.nbytes
        return True

    def text(self, v: Value) -> str:
        """The text for a value in lines before the run."""
        if not self._is_there(v):
            raise Unfit
        return self.program.argument(v)

    # ---- behind the run ----------------------------------------------------------------------------

    def text_behind(self, v: Value) -> str:
        """The text for a value in lines behind the run."""
        root = self.program.plan.root_of(v)
        if root in self.placed or v in self.late:  # a later instruction might take its memory; products come last
            raise Unfit
        self.held.add(root)
        return self.names.get(v) or self.text(v)

    def line_behind(self, function: Callable[..., Any], *operands: str, v: Value | None = None) -> str:
        """Lets a line behind the run make a result, or a temporary, from these operands; returns its name."""
        name = self._temporary("t") if v is None else self._late(v)
        self.lines_behind.append(f"{name} = {self.program.bind(function, function.__name__)}({', '.join(operands)})")
        return name

    def _late(self, v: Value) -> str:
        """The name of a result that is made behind the run."""
        self.late.add(v)
        name = self.names[v] = identifier(v.name)
        return name

    def product_behind(self, v: Value, a: str, b: str, work: int) -> None:
        """Lets a line behind the run make a result, the product of matrices a, transposed, and b."""
        self.products_behind.append(behind.of_gradients(self.program, self._late(v), a, b, work))

    def _write_behind(self) -> None:
        for line in self.lines_behind:
            self.program.line(line)
        products = [*self.products_behind]
        late = self.late.union(*[self.program.nodes[i].made() for i in self.after])
        for i in [*self.after]:
            node = self.program.nodes[i]
            if late.isdisjoint(node.reads) and all(map(self._may_come_first, node.made())):
                product = behind.of_instruction(self.program, i)
                if product is not None:
                    products.append(product)
                    self.after.remove(i)
        behind.write(self.program, products)
        if self.temporaries:
            self.program.line(f"del {', '.join(self.temporaries)}")
        super()._write_behind()

    def _may_come_first(self, v: Value) -> bool:
        """Whether the memory of a result is free as soon as the run has ended."""
        slot = self.program.plan.slot(v)
        others = [s for s in self.slots + self.slots_behind if s is not slot]
        return v not in self.program.plan.over and (slot is None or not any(map(slot.overlaps, others)))

    # ---- text --------------------------------------------------------------------------------------

    def _write_call(self) -> None:
        for line in self.lines:
            self.program.line(line)
        if self.packs:
            self.program.line(f"# packed before: {', '.join([weight.name for weight, _ in self.packs])}")
        if self.counted:
            self.program.line(f"if observers: {self.program.bind(_counting(self.counted), 'count')}()")
        self.program.has_row_runs = True
        super()._write_call()

    def _function(self) -> Callable[..., Any]:
        memory = Scratch(MOST_ARRAYS + len(self.static))
        tasks = [
            [step for window in windows for emit in self.emits for step in emit(window, memory.of(task))]
            for task, windows in enumerate(self.tasks)
        ]
        for *_, elements, dtype in memory.known:
            self._new(elements, dtype)
        return by_tasks(self.steps, tasks)


def most_bytes(program: Any) -> int:
    """The bytes of results that may be alive at a time: little more than in the order of the instructions."""
    return int(MORE * max(program.plan.peak(program.nodes, beside=workspace), FEW_BYTES))


def while_shared_alike(run: Callable[..., Any], lines: Callable[..., Any]) -> Callable[..., Any]:
    """What runs a program: `run` as long as cores share products as they do now, else `lines`, as eager code does."""
    now = large_products.sharing()
    return lambda *arguments: (run if large_products.sharing() == now else lines)(*arguments)


def _counting(shapes: Sequence[tuple[int, ...]]) -> Callable[[], None]:
    def count() -> None:
        for shape in shapes:
            counters.matmul(shape)

    return count


def _products_ahead(nodes: Sequence[Node]) -> tuple[int, list[tuple[Node, Value]]]:
    """The height of matrices, and the layers and products of them that come before what cannot run beside them.

    Those of another height than the first one do not count. Beside each: its weight.
    """
    height, products = 0, list[tuple[Node, Value]]()
    for node in nodes:
        if not (isinstance(node, (Call, Group, FusedRule)) and not node.has_effect) and not waits(node):
            break
        begun = begun_by(node)
        if begun is not None:
            result, weight = begun
            x = result.array
            if type(x) is not np.ndarray or x.ndim < 2 or not x.size:
                break
            height = height or (x.shape[-2] if x.shape[-2] > 1 else 0)  # one row has the strides of one that repeats
            if x.shape[-2] == height:
                products.append((node, weight))
    return height, products


def _tasks(height: int, products: Sequence[tuple[Node, Value]]) -> list[list[Window]]:
    nbytes = [sum([v.array.nbytes for v in (*node.reads, *node.outs) if height in v.shape[-2:-1]])
              for node, _ in products]  # fmt: skip
    weight = max([0 if _may_be_packed(node, height, weight) else weight.array.size for node, weight in products])
    of_layers = sum([n for n, (node, _) in zip(nbytes, products, strict=True) if node.name.startswith("layer")])
    many = max(nbytes) >= layer_jets.LEAST_BYTES or of_layers >= SHARED_BYTES
    return tasks(height, max(nbytes) // height, weight, many and large_products.are_shared())


def _may_be_packed(node: Node, height: int, weight: Value) -> bool:
    n = weight.shape[1] if isinstance(node, FusedRule) else node.outs[0].shape[-1]
    return weight.array.ndim == 2 and ends_of_weight(height, weight.array.size // n, n, weight.dtype) is not None


def row_run_at(program: Any, first: int, last_uses: dict[int, list[Value]]) -> RowRun | None:
    """The run that begins with instruction `first`, if there is one: of layers, or of products on several cores."""
    run = RowRun(program, first, last_uses)
    return run if run.layers or (run.products > 1 and len(run.tasks) > 1) else None
