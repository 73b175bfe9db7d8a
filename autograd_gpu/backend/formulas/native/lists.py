"""Machine code of an update for lists of arrays: one call for all parameters of an optimizer.

Two functions run one after the other, in one call from Python where the elements are few. `look` reads the fields of
NumPy's array objects (numpy/ndarraytypes.h), so that a hundred parameters cost as much as one call of a ufunc: it notes
where their elements are and how many, or that a row does not fit. `loop` calls the program's inner loop, as
llvm_code.py writes it, for a range of all elements; several threads take a range each. A row, the arrays of one
parameter, fits if all are NumPy arrays of one dtype and shape, dense in the same order, aligned, writeable where they
are written to, and do not overlap.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays.strides import address
from ...cpu.rows import SHARED_BLOCK, Blocks
from ..lowering import Program
from . import builtin, disk_cache, llvm_code
from .switch import Switch, is_there
from .ufunc import loops_of

Int, Pointer = ctypes.c_int64, ctypes.c_void_p
HEAD = object.__basicsize__  # bytes of the head of a Python object, behind which its class is the last word
FIELDS = {"data": 0, "nd": 8, "dims": 16, "descr": 40, "flags": 48}  # of an array object, behind its head
DONE = -1  # in place of the sum of sizes
KIND = 8  # of a dtype object: kind, type, byte order and flags as bytes, and the number of the type
C_DENSE, F_DENSE, ALIGNED, WRITEABLE = 1, 2, 256, 1024  # flags of an array


# ---- the text ------------------------------------------------------------------------------------------


def look_source() -> str:
    """`look(objects, columns, rows, read, like, size, at, sizes)` as LLVM IR; answers how many rows do not fit.

    objects[column][row] are arrays, `like` is one of the class and dtype that they have to have, with elements of
    `size` bytes; the column `read` is not written to. The results are the addresses `at`, and the numbers of elements,
    -1 of a row that does not fit. Behind them is that of all that fit.
    """

    def field(array: str, name: str) -> str:
        return f"getelementptr i8, ptr {array}, i64 {HEAD + FIELDS[name]}"

    def kind(array: str) -> list[str]:
        """Its kind of dtype, %type..., as a word."""
        return [f"%d{array} = {field('%' + array, 'descr')}", f"%e{array} = load ptr, ptr %d{array}",
                f"%k{array} = getelementptr i8, ptr %e{array}, i64 {HEAD + KIND}",
                f"%type{array} = load i64, ptr %k{array}"]  # fmt: skip

    lines = [
        f"define i64 @{llvm_code.SYMBOL}(ptr %objects, i64 %columns, i64 %rows, i64 %read, ptr %like, i64 %size, "
        "ptr %at, ptr %sizes) {", "entry:",
        f"%cl = getelementptr i8, ptr %like, i64 {HEAD - 8}", "%class = load ptr, ptr %cl", *kind("like"),
        "br label %row", "row:",
        "%r = phi i64 [0, %entry], [%r1, %end]", "%wrong = phi i64 [0, %entry], [%wrong1, %end]",
        "%total = phi i64 [0, %entry], [%total1, %end]",
        "%more = icmp slt i64 %r, %rows", "br i1 %more, label %first, label %done", "first:",
        "%f0 = getelementptr ptr, ptr %objects, i64 %r", "%head = load ptr, ptr %f0", "br label %column",
        # Each array of the row: its class, before any field is read; its dtype, flags and shape.
        "column:", "%c = phi i64 [0, %first], [%c1, %apart]", f"%dense = phi i32 [{C_DENSE | F_DENSE}, %first], "
        "[%dense1, %apart]", "%count = phi i64 [0, %first], [%product, %apart]",
        "%left = icmp slt i64 %c, %columns", "br i1 %left, label %array, label %fit",
        "array:", "%place = mul i64 %c, %rows", "%index = add i64 %place, %r",
        "%o0 = getelementptr ptr, ptr %objects, i64 %index", "%a = load ptr, ptr %o0",
        f"%ca = getelementptr i8, ptr %a, i64 {HEAD - 8}", "%classa = load ptr, ptr %ca",
        "%same = icmp eq ptr %classa, %class", "br i1 %same, label %fields, label %unfit",
        "fields:", *kind("a"), "%alike = icmp eq i64 %typea, %typelike",
        f"%g0 = {field('%a', 'flags')}", "%flags = load i32, ptr %g0",
        "%isread = icmp eq i64 %c, %read", f"%need = select i1 %isread, i32 {ALIGNED}, i32 {ALIGNED | WRITEABLE}",
        "%has = and i32 %flags, %need", "%enough = icmp eq i32 %has, %need", "%dense1 = and i32 %dense, %flags",
        f"%order = and i32 %dense1, {C_DENSE | F_DENSE}", "%isdense = icmp ne i32 %order, 0",
        f"%n0 = {field('%a', 'nd')}", "%nd = load i32, ptr %n0", f"%n1 = {field('%head', 'nd')}",
        "%ndhead = load i32, ptr %n1", "%samend = icmp eq i32 %nd, %ndhead", "%q0 = and i1 %alike, %enough",
        "%q1 = and i1 %isdense, %samend", "%q2 = and i1 %q0, %q1",
        f"%d0 = {field('%a', 'dims')}", "%dims = load ptr, ptr %d0", f"%d1 = {field('%head', 'dims')}",
        "%dimshead = load ptr, ptr %d1", f"%p0 = {field('%a', 'data')}", "%data = load i64, ptr %p0",
        "%w0 = getelementptr i64, ptr %at, i64 %index", "store i64 %data, ptr %w0",
        "br i1 %q2, label %shape, label %unfit",
        "shape:", "%k = phi i32 [0, %fields], [%k1, %dim]", "%product = phi i64 [1, %fields], [%product1, %dim]",
        "%rest = icmp slt i32 %k, %nd", "br i1 %rest, label %dim, label %others",
        "dim:", "%i0 = getelementptr i64, ptr %dims, i32 %k", "%extent = load i64, ptr %i0",
        "%i1 = getelementptr i64, ptr %dimshead, i32 %k", "%extenthead = load i64, ptr %i1",
        "%product1 = mul i64 %product, %extent", "%k1 = add i32 %k, 1", "%equal = icmp eq i64 %extent, %extenthead",
        "br i1 %equal, label %shape, label %unfit",
        # The arrays before it in the row: at the same address, or apart.
        "others:", "%b = phi i64 [0, %shape], [%b1, %other]", "%before = icmp slt i64 %b, %c",
        "br i1 %before, label %other, label %apart",
        "other:", "%x0 = mul i64 %b, %rows", "%x1 = add i64 %x0, %r", "%x2 = getelementptr i64, ptr %at, i64 %x1",
        "%there = load i64, ptr %x2", "%way = sub i64 %data, %there", "%y0 = sub i64 0, %way",
        "%y1 = icmp slt i64 %way, 0", "%distance = select i1 %y1, i64 %y0, i64 %way",
        "%bytes = mul i64 %product, %size", "%near = icmp slt i64 %distance, %bytes",
        "%elsewhere = icmp ne i64 %distance, 0",
        "%overlap = and i1 %near, %elsewhere", "%b1 = add i64 %b, 1", "br i1 %overlap, label %unfit, label %others",
        "apart:", "%c1 = add i64 %c, 1", "br label %column",
        "fit:", "br label %end", "unfit:", "br label %end",
        "end:", "%result = phi i64 [%count, %fit], [-1, %unfit]", "%one = phi i64 [0, %fit], [1, %unfit]",
        "%added = phi i64 [%count, %fit], [0, %unfit]", "%total1 = add i64 %total, %added",
        "%z0 = getelementptr i64, ptr %sizes, i64 %r", "store i64 %result, ptr %z0", "%wrong1 = add i64 %wrong, %one",
        "%r1 = add i64 %r, 1", "br label %row",
        "done:", "%z1 = getelementptr i64, ptr %sizes, i64 %rows", "store i64 %total, ptr %z1", "ret i64 %wrong", "}",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def loop_source(program: Program, replaced: Sequence[int], dtype: np.dtype, inner: str) -> str:
    """`loop(at, sizes, rows, from, to, numbers, data)` as LLVM IR, behind the text of the program's inner loop, @inner.

    Works on the elements of this range of all rows together. The output k takes the place of the input replaced[k].
    Behind the last of all elements it stores DONE for the sum of `sizes`.
    """
    inputs, numbers, size = len(program.inputs), len(program.numbers), dtype.itemsize
    type, width = ("double", 8) if dtype == np.float64 else ("float", 4)
    count = inputs + numbers + len(replaced)
    lines = [
        f"define void @{llvm_code.SYMBOL}(ptr %at, ptr %sizes, i64 %rows, i64 %from, i64 %to, ptr %numbers, ptr %data) "
        "#0 {", "entry:", f"%args = alloca [{count} x ptr]", f"%steps = alloca [{count} x i64]", "%length = alloca i64",
        f"%values = alloca [{max(numbers, 1)} x {type}]",
    ]  # fmt: skip
    for k in range(count):
        is_number = inputs <= k < inputs + numbers
        lines += [f"%step{k} = getelementptr i64, ptr %steps, i64 {k}",
                  f"store i64 {0 if is_number else size}, ptr %step{k}",
                  f"%arg{k} = getelementptr ptr, ptr %args, i64 {k}"]  # fmt: skip
    for k in range(numbers):
        value = f"%double{k}" if type == "double" else f"%single{k}"
        narrowed = [] if type == "double" else [f"%single{k} = fptrunc double %double{k} to float"]
        lines += [f"%number{k} = getelementptr double, ptr %numbers, i64 {k}",
                  f"%double{k} = load double, ptr %number{k}", *narrowed,
                  f"%value{k} = getelementptr i8, ptr %values, i64 {k * width}",
                  f"store {type} {value}, ptr %value{k}", f"store ptr %value{k}, ptr %arg{inputs + k}"]  # fmt: skip
    lines += [
        "br label %row", "row:", "%r = phi i64 [0, %entry], [%r1, %next]",
        "%start = phi i64 [0, %entry], [%end, %next]",
        "%more = icmp slt i64 %r, %rows", "br i1 %more, label %range, label %done",
        "range:", "%s0 = getelementptr i64, ptr %sizes, i64 %r", "%size = load i64, ptr %s0",
        "%end = add i64 %start, %size", "%r1 = add i64 %r, 1", "%a0 = sub i64 %from, %start",
        "%a1 = icmp sgt i64 %a0, 0", "%first = select i1 %a1, i64 %a0, i64 0", "%b0 = sub i64 %to, %start",
        "%b1 = icmp slt i64 %b0, %size", "%last = select i1 %b1, i64 %b0, i64 %size", "%n = sub i64 %last, %first",
        "%any = icmp sgt i64 %n, 0", "br i1 %any, label %work, label %next",
        "work:", "store i64 %n, ptr %length", f"%offset = mul i64 %first, {size}",
    ]  # fmt: skip
    for k in range(inputs):
        lines += [f"%c{k} = mul i64 %rows, {k}", f"%d{k} = add i64 %c{k}, %r",
                  f"%e{k} = getelementptr ptr, ptr %at, i64 %d{k}", f"%f{k} = load ptr, ptr %e{k}",
                  f"%x{k} = getelementptr i8, ptr %f{k}, i64 %offset", f"store ptr %x{k}, ptr %arg{k}"]  # fmt: skip
    for k, place in enumerate(replaced):
        lines.append(f"store ptr %x{place}, ptr %arg{inputs + numbers + k}")
    lines += ["call void @inner(ptr %args, ptr %length, ptr %steps, ptr %data)", "br label %next",
              "next:", "br label %row", "done:", "%z0 = getelementptr i64, ptr %sizes, i64 %rows",
              "%total = load i64, ptr %z0", "%whole0 = icmp eq i64 %from, 0", "%whole1 = icmp eq i64 %to, %total",
              "%whole = and i1 %whole0, %whole1", "br i1 %whole, label %mark, label %exit",
              "mark:", f"store i64 {DONE}, ptr %z0", "br label %exit", "exit:", "ret void", "}", ""]  # fmt: skip
    return "\n".join([inner, *lines])


def call_source() -> str:
    """`f(notes, numbers, *arrays)` as LLVM IR, a built-in function: `look` at arrays by columns, then `loop`.

    The words of `self` are those of `builtin.interpreter`, `look`, `loop` and its `data`, columns, `read`, `like`,
    `size`, and the number of elements from which on it leaves `loop` to others, as it does if a row does not fit. The
    words of `notes` are rows, `at` and `sizes`.
    """
    data = HEAD + FIELDS["data"]

    def words(array: str, *names: str) -> list[str]:
        lines = [f"%{array}.p = getelementptr i8, ptr %{array}, i64 {data}", f"%{array}.w = load ptr, ptr %{array}.p"]
        for k, name in enumerate(names):
            type = "i64" if name in ("columns", "read", "size", "many", "rows") else "ptr"
            lines += [f"%{name}.p = getelementptr i64, ptr %{array}.w, i64 {k}",
                      f"%{name} = load {type}, ptr %{name}.p"]  # fmt: skip
        return lines

    return "\n".join([
        f"define ptr @{llvm_code.SYMBOL}(ptr %self, ptr %args, i64 %count) {{", "entry:",
        *words("self", "save", "restore", "incref", "none", "look", "loop", "data", "columns", "read", "like", "size",
               "many"),
        "%notes = load ptr, ptr %args", *words("notes", "rows", "at", "sizes"),
        "%o1 = getelementptr ptr, ptr %args, i64 1", "%values = load ptr, ptr %o1",
        f"%v0 = getelementptr i8, ptr %values, i64 {data}", "%numbers = load ptr, ptr %v0",
        "%objects = getelementptr ptr, ptr %args, i64 2",
        "%wrong = call i64 %look(ptr %objects, i64 %columns, i64 %rows, i64 %read, ptr %like, i64 %size, ptr %at, "
        "ptr %sizes)", "%t0 = getelementptr i64, ptr %sizes, i64 %rows", "%total = load i64, ptr %t0",
        "%fits = icmp eq i64 %wrong, 0", "%few = icmp slt i64 %total, %many", "%runs = and i1 %fits, %few",
        "br i1 %runs, label %run, label %exit",
        "run:", "%thread = call ptr %save()",
        "call void %loop(ptr %at, ptr %sizes, i64 %rows, i64 0, i64 %total, ptr %numbers, ptr %data)",
        "call void %restore(ptr %thread)", "br label %exit",
        "exit:", "call void %incref(ptr %none)", "ret ptr %none", "}", "",
    ])  # fmt: skip


# ---- calls ---------------------------------------------------------------------------------------------


class Notes(NamedTuple):
    """Memory of a thread for what a call notes of the rows: addresses, and numbers of elements."""

    at: np.ndarray
    sizes: np.ndarray
    words: np.ndarray  # for the machine code

    @property
    def is_done(self) -> bool:
        """Whether a call has updated all rows that fit, though an interrupt may have come before it returned."""
        return self.sizes.item(-1) == DONE


class _Kept(threading.local):
    """The notes of this thread."""

    def __init__(self) -> None:
        self.notes: dict[tuple[int, int], Notes] = {}

    def of(self, columns: int, rows: int) -> Notes:
        notes = self.notes.get((columns, rows))
        if notes is None:
            if len(self.notes) >= 64:
                self.notes.clear()
            memory = np.empty((columns, rows), np.uint64), np.empty(rows + 1, np.int64)
            notes = Notes(*memory, np.array([rows, *map(address, memory)], np.uint64))
            self.notes[columns, rows] = notes
        notes.sizes[-1] = 0
        return notes


KEPT = _Kept()


@functools.cache
def _methods() -> tuple[int, builtin.Method]:
    """The address of `look`, and the built-in function that calls it."""
    look, call = [disk_cache.address(source) for source in (look_source(), call_source())]
    assert look is not None  # it compiles
    return look, builtin.method(b"native_update", call, b"The update of a list of parameters.")


class ListKernel:
    """Machine code of an update for lists of arrays of one dtype. `read` is the input that is not replaced."""

    def __init__(self, program: Program, replaced: Sequence[int], dtype: np.dtype, address: int) -> None:
        computed = np.dtype(np.float64 if dtype == np.float64 else np.float32)
        (read,) = {*range(len(program.inputs))} - {*replaced}
        self.columns, self.size = len(program.inputs), dtype.itemsize
        self.like, self.table = np.empty(0, dtype), loops_of(program, computed)
        self.data, (look, method) = ctypes.addressof(self.table), _methods()
        self.loop = ctypes.CFUNCTYPE(None, Pointer, Pointer, Int, Int, Int, Pointer, Pointer)(address)
        self.function = builtin.function(method, [
            *builtin.interpreter(), look, address, self.data, self.columns, read, id(self.like), self.size,
            4 * SHARED_BLOCK,  # from which on Blocks are shared by two threads
        ])  # fmt: skip

    def notes(self, rows: int) -> Notes:
        """What a call on so many rows gets, until the next one of this thread."""
        return KEPT.of(self.columns, rows)

    def __call__(self, notes: Notes, numbers: np.ndarray, arrays: Iterable[Any]) -> None:
        """Updates the arrays of all rows, with the program's numbers in float64, if all rows fit.

        `arrays` has those of all rows for the first input of the update, then those for the second one, and so on. If
        a row does not fit, its size is -1 in the notes, and none is updated.
        """
        self.function(notes.words, numbers, *arrays)
        if not notes.is_done and notes.sizes[:-1].min() >= 0:
            self.rest(notes, numbers)

    def rest(self, notes: Notes, numbers: np.ndarray) -> None:
        """Updates the rows that fit."""
        at, sizes, words = notes
        np.maximum(sizes, 0, out=sizes)
        (rows, *addresses), total, values = map(int, words), int(sizes[-1]), address(numbers)
        blocks = Blocks(total, 1, 1)
        if blocks.shared and _apart(at, sizes[:-1] * self.size):
            blocks.run(lambda i, j: self.loop(*addresses, rows, i, j, values, self.data))
            sizes[-1] = DONE
        else:
            self.loop(*addresses, rows, 0, total, values, self.data)


def _apart(at: np.ndarray, sizes: np.ndarray) -> bool:
    """Whether no arrays of different rows overlap, so that the order of rows does not matter."""
    begins = at.ravel()
    order = begins.argsort(kind="stable")
    rows, ends = order % at.shape[1], (begins + np.broadcast_to(sizes.astype(np.uint64), at.shape).ravel())[order]
    begins = begins[order]
    meets = ends[:-1] > begins[1:]  # neighbours; one that reaches further meets the one behind it, too
    return not (meets & (rows[:-1] != rows[1:])).any()


class ListSwitch(Switch):
    """The machine code of an update for lists of arrays: None until it is there."""

    def __init__(self, name: str, program: Program, replaced: Sequence[int]) -> None:
        super().__init__(name, program)
        self.replaced = replaced

    def kernel(self, dtype: np.dtype, elements: int) -> ListKernel | None:
        """The machine code for arrays of this dtype, if a call on so many elements may have it."""
        run: Any = self.running(dtype, elements)
        return run if isinstance(run, ListKernel) else None

    def ir(self, dtype: np.dtype) -> str:
        """The text of `loop` for arrays of this dtype."""
        inner = super().ir(dtype).replace(f"define void @{llvm_code.SYMBOL}(", "define internal void @inner(", 1)
        return loop_source(self.program, self.replaced, dtype, inner)

    def linked(self, dtype: np.dtype, address: int) -> Any:
        return ListKernel(self.program, self.replaced, dtype, address)


def list_switch(name: str, program: Program, replaced: Sequence[int]) -> ListSwitch | None:
    """The switch of an update; None where there is no native code for it, or arrays are no plain objects."""
    fits = platform.python_implementation() == "CPython" and len(replaced) == len(program.inputs) - 1
    return ListSwitch(name, program, replaced) if fits and is_there(program) else None
