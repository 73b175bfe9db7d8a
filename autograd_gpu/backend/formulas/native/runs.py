"""Several products and loops as one call of native code: what a compiled call runs between two Python functions.

A run is data: a list of steps, each a product by BLAS, a call of the inner loop of a ufunc, or a copy. One function of
machine code, the same for all runs, goes through the steps, without Python and the GIL. It is a built-in function of
Python whose `self` is the list of words. Nothing changes but the time between the steps: the functions are those that
NumPy calls, with the same arguments.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays.dtypes import float64
from ...arrays.strides import address
from ...cpu import numpy_ops, sums
from ...cpu.blas import SMALL_VECTOR, products_of
from . import builtin, disk_cache, llvm_code
from .lists import FIELDS, HEAD
from .switch import COMPILING, say
from .ufunc import CLEAR_FLAGS, inner_loop, numpy_function

GEMM, GEMV, LOOP, COPY, TRANSPOSE, PICK, PUT = 0, 2, 4, 5, 6, 7, 8  # products in float64 have the next number
MOST_OPERANDS = 64  # of a loop
MOST_ARRAYS = 64  # that a call gets: their places come first
BEGIN = 6  # words before the first step: the end, and five functions and objects
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # of CBLAS
_TYPES = {"float": "32", "double": "64"}


class Place(NamedTuple):
    """Memory of a step: an array of the run by number, and bytes behind its beginning."""

    number: int
    offset: int = 0


class Operand(NamedTuple):
    """An operand of a loop: where it is, and the bytes from one iteration, and from one element, to the next."""

    place: Place
    outer: int
    inner: int


# ---- the machine code ----------------------------------------------------------------------------------


def source(word: str) -> str:
    """The function as LLVM IR; `word` is the type of BLAS' integers, i64 or i32."""
    lines = [
        "define internal ptr @at(ptr %places, ptr %words) alwaysinline {",
        "%n = load i64, ptr %words", "%p = getelementptr ptr, ptr %places, i64 %n", "%base = load ptr, ptr %p",
        "%o = getelementptr i64, ptr %words, i64 1", "%offset = load i64, ptr %o",
        "%address = getelementptr i8, ptr %base, i64 %offset", "ret ptr %address", "}",
        f"define ptr @{llvm_code.SYMBOL}(ptr %self, ptr %args, i64 %count) #0 {{", "entry:",
        f"%pointers = alloca [{MOST_OPERANDS} x ptr]", f"%steps = alloca [{MOST_OPERANDS} x i64]",
        "%length = alloca i64",
        f"%s0 = getelementptr i8, ptr %self, i64 {HEAD + FIELDS['data']}", "%code = load ptr, ptr %s0",
        "%a0 = load ptr, ptr %args", f"%a1 = getelementptr i8, ptr %a0, i64 {HEAD + FIELDS['data']}",
        "%places = load ptr, ptr %a1",
        # The addresses of the arrays that this call gets.
        "br label %arrays", "arrays:", "%i = phi i64 [1, %entry], [%i1, %array]", "%i2 = icmp slt i64 %i, %count",
        "br i1 %i2, label %array, label %begin", "array:", "%g0 = getelementptr ptr, ptr %args, i64 %i",
        "%g1 = load ptr, ptr %g0", f"%g2 = getelementptr i8, ptr %g1, i64 {HEAD + FIELDS['data']}",
        "%g3 = load ptr, ptr %g2", "%i1 = add i64 %i, 1", "%g4 = sub i64 %i, 1",
        "%g5 = getelementptr ptr, ptr %places, i64 %g4", "store ptr %g3, ptr %g5", "br label %arrays",
        "begin:", *_word("end", "%code", 0), *_function("save", 1), *_function("restore", 2), *_function("incref", 3),
        *_function("none", 4), *_function("clear", 5), "%thread = call ptr %save()", "br label %next",
        "next:", f"%pc = phi i64 [{BEGIN}, %begin], [%pc1, %behind]", "%more = icmp slt i64 %pc, %end",
        "br i1 %more, label %step, label %done",
        "step:", "%w = getelementptr i64, ptr %code, i64 %pc", "%op = load i64, ptr %w", *_word("size", "%w", 1),
        "%pc1 = add i64 %pc, %size",
        f"switch i64 %op, label %transpose [i64 {GEMM}, label %gemm32 i64 {GEMM + 1}, label %gemm64 "
        f"i64 {GEMV}, label %gemv32 i64 {GEMV + 1}, label %gemv64 i64 {LOOP}, label %loop i64 {COPY}, label %copy "
        f"i64 {PICK}, label %pick i64 {PUT}, label %pick]",
        *_gemm("float", word), *_gemm("double", word), *_gemv("float", word), *_gemv("double", word),
        *_loop(), *_copy(), *_transpose(), *_pick(),
        "behind:", "br label %next",
        "done:", "call void %clear()", "call void %restore(ptr %thread)", "call void %incref(ptr %none)",
        "ret ptr %none", "}", 'attributes #0 = { nounwind "no-builtins" }', "",
    ]  # fmt: skip
    return "\n".join(lines)


def _word(name: str, words: str, place: int, type: str = "i64") -> list[str]:
    narrowed = "" if type == "i64" else ".wide"
    lines = [f"%{name}.p = getelementptr i64, ptr {words}, i64 {place}",
             f"%{name}{narrowed} = load i64, ptr %{name}.p"]  # fmt: skip
    return lines if not narrowed else [*lines, f"%{name} = trunc i64 %{name}.wide to {type}"]


def _function(name: str, place: int, words: str = "%code") -> list[str]:
    return [f"%{name}.p = getelementptr i64, ptr {words}, i64 {place}", f"%{name} = load ptr, ptr %{name}.p"]


def _place(name: str, place: int) -> list[str]:
    return [f"%{name}.w = getelementptr i64, ptr %w, i64 {place}",
            f"%{name} = call ptr @at(ptr %places, ptr %{name}.w)"]


def _gemm(type: str, word: str) -> list[str]:
    """Words: function, transpositions of a and b, m, n, k, and place and leading dimension of a, b and out."""
    s = f"g{_TYPES[type]}"
    integers = [(f"{s}m", 5), (f"{s}n", 6), (f"{s}k", 7), (f"{s}la", 10), (f"{s}lb", 13), (f"{s}lc", 16)]
    return [f"gemm{_TYPES[type]}:", *_function(f"{s}f", 2, "%w"), *_word(f"{s}ta", "%w", 3, "i32"),
            *_word(f"{s}tb", "%w", 4, "i32"), *[line for name, at in integers for line in _word(name, "%w", at, word)],
            *_place(f"{s}a", 8), *_place(f"{s}b", 11), *_place(f"{s}c", 14),
            f"call void %{s}f(i32 {ROW_MAJOR}, i32 %{s}ta, i32 %{s}tb, {word} %{s}m, {word} %{s}n, {word} %{s}k, "
            f"{type} 1.0, ptr %{s}a, {word} %{s}la, ptr %{s}b, {word} %{s}lb, {type} 0.0, ptr %{s}c, {word} %{s}lc)",
            "br label %behind"]  # fmt: skip


def _gemv(type: str, word: str) -> list[str]:
    """Words: function, rows and columns of the matrix, places of it, of the vector and the result, and TRANSPOSED for
    vector @ matrix, AS_IT_IS for matrix @ vector."""
    s = f"v{_TYPES[type]}"
    return [f"gemv{_TYPES[type]}:", *_function(f"{s}f", 2, "%w"), *_word(f"{s}m", "%w", 3, word),
            *_word(f"{s}n", "%w", 4, word), *_place(f"{s}a", 5), *_place(f"{s}x", 7), *_place(f"{s}y", 9),
            *_word(f"{s}t", "%w", 11, "i32"),
            f"call void %{s}f(i32 {ROW_MAJOR}, i32 %{s}t, {word} %{s}m, {word} %{s}n, {type} 1.0, "
            f"ptr %{s}a, {word} %{s}n, ptr %{s}x, {word} 1, {type} 0.0, ptr %{s}y, {word} 1)",
            "br label %behind"]  # fmt: skip


def _loop() -> list[str]:
    """Words: function, its data, iterations, elements of each, number of operands, and four words for each operand."""
    return ["loop:", *_function("lf", 2, "%w"), *_function("ld", 3, "%w"), *_word("times", "%w", 4),
            *_word("elements", "%w", 5), *_word("operands", "%w", 6), "store i64 %elements, ptr %length",
            "br label %turn",
            "turn:", "%t = phi i64 [0, %loop], [%t1, %call]", "%t2 = icmp slt i64 %t, %times",
            "br i1 %t2, label %operand, label %behind",
            "operand:", "%k = phi i64 [0, %turn], [%k1, %set]", "%k2 = icmp slt i64 %k, %operands",
            "br i1 %k2, label %set, label %call",
            "set:", "%o0 = shl i64 %k, 2", "%o1 = add i64 %o0, 7", "%ow = getelementptr i64, ptr %w, i64 %o1",
            "%base = call ptr @at(ptr %places, ptr %ow)", *_word("outer", "%ow", 2), *_word("inner", "%ow", 3),
            "%o2 = mul i64 %t, %outer", "%o3 = getelementptr i8, ptr %base, i64 %o2",
            "%o4 = getelementptr ptr, ptr %pointers, i64 %k", "store ptr %o3, ptr %o4",
            "%o5 = getelementptr i64, ptr %steps, i64 %k", "store i64 %inner, ptr %o5", "%k1 = add i64 %k, 1",
            "br label %operand",
            "call:", "call void %lf(ptr %pointers, ptr %length, ptr %steps, ptr %ld)", "%t1 = add i64 %t, 1",
            "br label %turn"]  # fmt: skip


def _copy() -> list[str]:
    """Words: times, units of four bytes, and the places of source and target, which is written one after the other."""
    return ["copy:", *_word("copies", "%w", 2), *_word("units", "%w", 3), *_place("from", 4), *_place("to", 6),
            "br label %again", "again:", "%c = phi i64 [0, %copy], [%c1, %copied]", "%c2 = icmp slt i64 %c, %copies",
            "br i1 %c2, label %unit, label %behind",
            "unit:", "%u = phi i64 [0, %again], [%u1, %move]", "%u2 = icmp slt i64 %u, %units",
            "br i1 %u2, label %move, label %copied",
            "move:", "%m0 = getelementptr i32, ptr %from, i64 %u", "%m1 = load i32, ptr %m0",
            "%m2 = mul i64 %c, %units", "%m3 = add i64 %m2, %u", "%m4 = getelementptr i32, ptr %to, i64 %m3",
            "store i32 %m1, ptr %m4", "%u1 = add i64 %u, 1", "br label %unit",
            "copied:", "%c1 = add i64 %c, 1", "br label %again"]  # fmt: skip


def _transpose() -> list[str]:
    """Words: rows and columns of the target, and the places of source and target, of units of four bytes."""
    return ["transpose:", *_word("rows", "%w", 2), *_word("columns", "%w", 3), *_place("x", 4), *_place("y", 6),
            "br label %row", "row:", "%r = phi i64 [0, %transpose], [%r1, %ended]", "%r2 = icmp slt i64 %r, %rows",
            "br i1 %r2, label %column, label %behind",
            "column:", "%q = phi i64 [0, %row], [%q1, %put]", "%q2 = icmp slt i64 %q, %columns",
            "br i1 %q2, label %put, label %ended",
            "put:", "%x0 = mul i64 %q, %rows", "%x1 = add i64 %x0, %r", "%x2 = getelementptr i32, ptr %x, i64 %x1",
            "%x3 = load i32, ptr %x2", "%y0 = mul i64 %r, %columns", "%y1 = add i64 %y0, %q",
            "%y2 = getelementptr i32, ptr %y, i64 %y1", "store i32 %x3, ptr %y2", "%q1 = add i64 %q, 1",
            "br label %column", "ended:", "%r1 = add i64 %r, 1", "br label %row"]  # fmt: skip


def _pick() -> list[str]:
    """Words: rows, units of four bytes of a row and of an element, and the places of the matrix, the column of each row
    as int64, and the elements."""
    return ["pick:", *_word("lines", "%w", 2), *_word("stride", "%w", 3), *_word("width", "%w", 4),
            *_place("matrix", 5), *_place("index", 7), *_place("picked", 9), f"%puts = icmp eq i64 %op, {PUT}",
            "br label %line", "line:", "%l = phi i64 [0, %pick], [%l1, %took]", "%l2 = icmp slt i64 %l, %lines",
            "br i1 %l2, label %which, label %behind",
            "which:", "%h0 = getelementptr i64, ptr %index, i64 %l", "%h1 = load i64, ptr %h0",
            "%h2 = mul i64 %h1, %width", "%h3 = mul i64 %l, %stride", "%h4 = add i64 %h2, %h3",
            "%e0 = getelementptr i32, ptr %matrix, i64 %h4", "%e1 = mul i64 %l, %width",
            "%e2 = getelementptr i32, ptr %picked, i64 %e1", "%source = select i1 %puts, ptr %e2, ptr %e0",
            "%target = select i1 %puts, ptr %e0, ptr %e2", "br label %part",
            "part:", "%j = phi i64 [0, %which], [%j1, %take]", "%j2 = icmp slt i64 %j, %width",
            "br i1 %j2, label %take, label %took",
            "take:", "%t3 = getelementptr i32, ptr %source, i64 %j", "%t4 = load i32, ptr %t3",
            "%t5 = getelementptr i32, ptr %target, i64 %j", "store i32 %t4, ptr %t5", "%j1 = add i64 %j, 1",
            "br label %part", "took:", "%l1 = add i64 %l, 1", "br label %line"]  # fmt: skip


# ---- steps ---------------------------------------------------------------------------------------------


def gemm(a: np.ndarray, b: np.ndarray, places: Sequence[Place]) -> list[int] | None:
    """The words for a @ b of matrices as NumPy's dot computes it; None where it would copy, or call another function.

    places: of a, b and the result, which is row-major. For a @ a.T, too, it calls another one.
    """
    (m, k), n = a.shape, b.shape[1]
    functions = products_of(a.dtype)
    if functions is None or min(m, k, n) < 2 or a.dtype != b.dtype:
        return None
    flags = [_direction(x) for x in (a, b)]
    if None in flags:
        return None
    leading = [x.shape[1] if flag == AS_IT_IS else x.shape[0] for x, flag in zip((a, b), flags, strict=True)]
    return _step(GEMM + (a.dtype == float64), functions.gemm, *flags, m, n, k, *places[0], leading[0], *places[1],
                 leading[1], *places[2], n)


def _direction(x: np.ndarray) -> int | None:
    return AS_IT_IS if x.flags.c_contiguous else TRANSPOSED if x.flags.f_contiguous else None


def loop(function: tuple[int, int], times: int, elements: int, operands: Sequence[Operand]) -> list[int]:
    """The words for calls of an inner loop, whose address and data `function` has."""
    words = [word for operand in operands for word in (*operand.place, operand.outer, operand.inner)]
    return _step(LOOP, *function, times, elements, len(operands), *words)


def copies(times: int, nbytes: int, source: Place, target: Place) -> list[int]:
    """The words for so many copies of bytes, a multiple of four, one behind the other."""
    return _step(COPY, times, nbytes // 4, *source, *target)


def transposed(rows: int, columns: int, source: Place, target: Place) -> list[int]:
    """The words for target[...] = source.T of float32; rows and columns are those of the target."""
    return _step(TRANSPOSE, rows, columns, *source, *target)


def elements(op: int, matrix: Place, shape: tuple[int, int], size: int, index: Place, picked: Place) -> list[int]:
    """The words that PICK one element of each row of a matrix, by its column in int64, or PUT them there."""
    return _step(op, shape[0], shape[1] * size // 4, size // 4, *matrix, *index, *picked)


def row_sums(shape: tuple[int, int], dtype: np.dtype, at: Place, ones: Place, zero: Place,
             out: Place) -> list[list[int]] | None:
    """The words for the sums of the rows of a row-major matrix, as `sums.total` computes them; None where it does
    otherwise. ones: as many as a row has elements; zero: one 0."""
    functions, (rows, columns), size = products_of(dtype), shape, dtype.itemsize
    if functions is None or min(shape) < 2:
        return None
    if rows * columns <= numpy_ops.FEW:
        return [row_products(shape, dtype, at, ones, out)]
    if columns < sums.NARROW or rows * columns >= 4 * SMALL_VECTOR:
        return None
    return [copies(rows, size, zero, out), loop(inner_loop("add", dtype), rows, columns, [
        Operand(out, size, 0), Operand(at, columns * size, size), Operand(out, size, 0)])]  # fmt: skip


def row_products(shape: tuple[int, int], dtype: np.dtype, at: Place, vector: Place, out: Place) -> list[int]:
    """The words for a row-major matrix times a vector, as NumPy's dot computes it."""
    functions = products_of(dtype)
    assert functions is not None  # are_there()
    return _step(GEMV + (dtype == float64), functions.gemv, *shape, *at, *vector, *out, AS_IT_IS)


def _step(op: int, *words: Any) -> list[int]:
    return [op, len(words) + 2, *map(int, words)]


# ---- functions -----------------------------------------------------------------------------------------


@functools.cache
def are_there() -> bool:
    """Whether runs work here: not with a BLAS whose functions are unknown; and not, with a warning, without LLVM."""
    if platform.python_implementation() != "CPython" or products_of(np.dtype(np.float32)) is None:
        return False
    try:
        with COMPILING:
            _method()
    except RuntimeError as error:  # of llvmlite
        say(str(error))
        return False
    return True


@functools.cache
def _method() -> builtin.Method:
    functions = products_of(np.dtype(np.float32))
    address = disk_cache.address(source("i64" if functions is None or functions.wide else "i32"))
    return builtin.method(b"native_run", address, b"Steps of a compiled call.")


def function_of(steps: Sequence[Sequence[int]]) -> Any:
    """A function f(places, *arrays) that runs the steps; `places` below makes its argument, for one call at a time."""
    words = [word for step in steps for word in step]
    head = [BEGIN + len(words), *builtin.interpreter(), numpy_function(CLEAR_FLAGS)]
    return builtin.function(_method(), [*head, *words])


def places(*arrays: np.ndarray) -> np.ndarray:
    """The addresses of arrays that are the same in all calls, behind the places of those that each call gets."""
    return np.array([*[0] * MOST_ARRAYS, *map(address, arrays)], np.uint64)


def column_sums(n: int, m: int, ones: Callable[[int], Place], at: Place, scratch: Callable[[int], Place], out: Place,
                dtype: np.dtype) -> list[list[int]] | None:
    """The words for the sum of a row-major matrix over its rows, as `sums.rows` computes it; None if it does otherwise.

    ones(n) is the place of n ones, scratch(elements) that of new memory.
    """
    functions = products_of(dtype)
    if functions is None or min(n, m) < 2:
        return None
    kind = GEMV + (dtype == float64)
    if n <= sums.FEW_ROWS:
        return [_step(kind, functions.gemv, n, m, *at, *ones(n), *out, TRANSPOSED)] if n * m <= SMALL_VECTOR else None
    size, product = sums.block(n, m, True)
    if not product or n % size or n * m >= sums.MANY:
        return None
    parts, nbytes = scratch(n // size * m), m * dtype.itemsize
    blocks = [_step(kind, functions.gemv, size, m, at.number, at.offset + k * size * nbytes, *ones(size), parts.number,
                    parts.offset + k * nbytes, TRANSPOSED) for k in range(n // size)]  # fmt: skip
    rest = column_sums(n // size, m, ones, parts, scratch, out, dtype)
    return None if rest is None else [*blocks, *rest]


@functools.lru_cache(1024)
def sums_are_equal(n: int, m: int, dtype: np.dtype) -> bool:
    """Whether the steps for column sums have the bits of `sums.total`."""
    x = np.random.default_rng(n + m).standard_normal((n, m)).astype(dtype)
    held = [x, np.empty(m, dtype)]

    def scratch(elements: int) -> Place:
        held.append(np.empty(elements, dtype))
        return Place(MOST_ARRAYS + len(held) - 1)

    def ones(count: int) -> Place:
        held.append(np.ones(count, dtype))
        return Place(MOST_ARRAYS + len(held) - 1)

    steps = column_sums(n, m, ones, Place(MOST_ARRAYS), scratch, Place(MOST_ARRAYS + 1), dtype)
    if steps is None:
        return False
    function_of(steps)(places(*held))
    return bool(np.array_equal(held[1], sums.total(x, 0)))


@functools.lru_cache(1024)
def products_are_equal(m: int, k: int, n: int, ta: bool, tb: bool, dtype: np.dtype) -> bool:
    """Whether the step for a product has the bits of NumPy's dot; ta, tb: whether the operands are transposed views."""
    rng = np.random.default_rng(m + k + n)
    a, b = [rng.standard_normal(shape[::-1] if turned else shape).astype(dtype) for shape, turned in
            (((m, k), ta), ((k, n), tb))]  # fmt: skip
    a, b, out = a.T if ta else a, b.T if tb else b, np.empty((m, n), dtype)
    step = gemm(a, b, [Place(0), Place(1), Place(2)])
    if step is None:
        return False
    function_of([step])(places(), a, b, out)
    return bool(np.array_equal(out, a.dot(b)))
