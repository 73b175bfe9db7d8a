"""LLVM IR of matrix products whose second operand is packed: inner loops(args, dims, steps, data) as those of ufuncs.

A packed matrix (k, n) is a sequence of panels of `width` columns, each (k, width) and row-major; the last one is filled
up with zeros. A tile of the result, some rows of a panel, is accumulated in registers over all of k or a part of it:
each row of the panel is loaded once for all rows of the tile. This is the method of Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008, doi:10.1145/1356052.1356053.

An element is fma(a, b, ...) in the order of k from zero on, for each part of k, and the sum of these: the bits do not
depend on the number of rows, nor on the tile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .llvm_code import STORED, SYMBOL


class Tile(NamedTuple):
    """What is accumulated in registers: so many rows, and `vectors` of `lanes` elements in each."""

    rows: int
    vectors: int
    lanes: int
    dtype: np.dtype

    @property
    def width(self) -> int:
        """The columns of a panel."""
        return self.vectors * self.lanes

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def type(self) -> str:
        """The type of an element."""
        return STORED[self.dtype.name]

    @property
    def vector(self) -> str:
        """The type of a vector."""
        return f"<{self.lanes} x {self.type}>"

    @property
    def mask(self) -> str:
        """The type of a mask of the elements of a vector."""
        return f"<{self.lanes} x i1>"

    @property
    def kind(self) -> str:
        """The type of a vector in the names of LLVM's functions."""
        return f"v{self.lanes}f{8 * self.size}"


def tile(dtype: np.dtype, nbytes: int, registers: int) -> Tile:
    """The tile for a processor with so many vector registers, of so many bytes each."""
    return Tile(12 if registers == 32 else 6, 2, nbytes // dtype.itemsize, dtype)


# ---- text ----------------------------------------------------------------------------------------------


def _module(*parts: Sequence[str]) -> str:
    attributes = 'attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }'
    return "\n".join([*itertools.chain(*parts), attributes, ""])


def _entry(*operands: str) -> list[str]:
    """The beginning of the loop: the address and the step of each operand, and the number of iterations `%count`."""
    lines = [f"define void @{SYMBOL}(ptr %args, ptr %dims, ptr %steps, ptr %data) #0 {{", "entry:",
             "%count = load i64, ptr %dims"]  # fmt: skip
    for i, name in enumerate(operands):
        lines += [f"%{name}.p = getelementptr ptr, ptr %args, i64 {i}", f"%{name} = load ptr, ptr %{name}.p",
                  *_word(f"{name}.step", "steps", str(i))]  # fmt: skip
    return lines


def _word(name: str, words: str, place: str) -> list[str]:
    return [f"%{name}.w = getelementptr i64, ptr %{words}, i64 {place}", f"%{name} = load i64, ptr %{name}.w"]


def _repeat(
    name: str, before: str, first: str, end: str, step: int, body: Sequence[str], phis: Sequence[str] = ()
) -> list[str]:  # fmt: skip
    """`body` for each %name from `first` to `end`; the text goes on in the block %name.done. before: the block before.

    phis: what else changes from one turn to the next, with the blocks `before` and %name.next. A body of several blocks
    ends in one from which the text goes on.
    """
    return [f"br label %{name}.head", f"{name}.head:",
            f"%{name} = phi i64 [{first}, %{before}], [%{name}.plus, %{name}.next]", *phis,
            f"%{name}.more = icmp slt i64 %{name}, {end}",
            f"br i1 %{name}.more, label %{name}.body, label %{name}.done", f"{name}.body:", *body,
            f"br label %{name}.next", f"{name}.next:", f"%{name}.plus = add i64 %{name}, {step}",
            f"br label %{name}.head", f"{name}.done:"]  # fmt: skip


def _masks(tile: Tile, left: str, vectors: int, name: str = "mask") -> list[str]:
    """For each vector of a panel, which of its columns are among the `left` ones: %mask0, ..."""
    lanes = tile.lanes
    lines = _splat(f"{name}.left", f"<{lanes} x i64>", "i64", left)
    for v in range(vectors):
        columns = ", ".join(f"i64 {v * lanes + lane}" for lane in range(lanes))
        lines.append(f"%{name}{v} = icmp slt <{lanes} x i64> <{columns}>, %{name}.left")
    return lines


def _splat(name: str, vector: str, type: str, scalar: str) -> list[str]:
    lanes = vector[1:].split()[0]
    return [f"%{name}.first = insertelement {vector} poison, {type} {scalar}, i64 0",
            f"%{name} = shufflevector {vector} %{name}.first, {vector} poison, <{lanes} x i32> zeroinitializer"]


def _load(tile: Tile, name: str, at: str, mask: str) -> str:
    """A vector with zeros where the mask is false."""
    return (f"%{name} = call {tile.vector} @llvm.masked.load.{tile.kind}.p0(ptr {at}, i32 {tile.size}, "
            f"{tile.mask} {mask}, {tile.vector} zeroinitializer)")


def _store(tile: Tile, value: str, at: str, mask: str) -> str:
    return (f"call void @llvm.masked.store.{tile.kind}.p0({tile.vector} {value}, ptr {at}, i32 {tile.size}, "
            f"{tile.mask} {mask})")


def _declared(tile: Tile) -> list[str]:
    vector, mask, kind = tile.vector, tile.mask, tile.kind
    return [f"declare {vector} @llvm.fma.{kind}({vector}, {vector}, {vector})",
            f"declare {vector} @llvm.masked.load.{kind}.p0(ptr, i32 immarg, {mask}, {vector})",
            f"declare void @llvm.masked.store.{kind}.p0({vector}, ptr, i32 immarg, {mask})"]  # fmt: skip


def _offset(name: str, base: str, index: str, stride: str | int) -> list[str]:
    """%name = base + index * stride, in bytes."""
    return [f"%{name}.o = mul i64 {index}, {stride}", f"%{name} = getelementptr i8, ptr {base}, i64 %{name}.o"]


# ---- products ------------------------------------------------------------------------------------------


def product(tile: Tile) -> str:
    """The loop over the rows of a (m, k), for out (m, n) = a @ b with b packed.

    Operands: a, b, out. data: n, k, the number of parts of k, and their ends.
    """
    smaller = tile.rows // 3
    ends, tiles = ["0", "%whole", "%rest", "%count"], list[str]()
    for t, rows in enumerate((tile.rows, smaller, 1)):
        name, before = f"i{t}", "panel.body" if t == 0 else f"i{t - 1}.done"
        part = [
            f"%place{t} = add i64 %part{t}, 3", *_word(f"end{t}", "data", f"%place{t}"),
            f"%terms{t} = sub i64 %end{t}, %begin{t}", f"%adds{t} = icmp sgt i64 %begin{t}, 0",
            *_offset(f"left{t}", f"%at{t}", f"%begin{t}", tile.size),
            *_offset(f"right{t}", "%columns", f"%begin{t}", tile.width * tile.size),
            f"call void @tile{rows}(ptr %left{t}, i64 %a.step, ptr %right{t}, i64 %terms{t}, ptr %to{t}, "
            f"i64 %out.step, i64 %width, i1 %adds{t})",
        ]  # fmt: skip
        begin = [f"%begin{t} = phi i64 [0, %{name}.body], [%end{t}, %part{t}.next]"]
        tiles += _repeat(name, before, ends[t], ends[t + 1], rows, [
            *_offset(f"at{t}", "%a", f"%{name}", "%a.step"), *_offset(f"to{t}", "%above", f"%{name}", "%out.step"),
            *_repeat(f"part{t}", f"{name}.body", "0", "%parts", 1, part, begin),
        ])  # fmt: skip
    panel = ["%width = sub i64 %n, %panel", *_offset("columns", "%b", "%panel", "%nbytes"),
             *_offset("above", "%out", "%panel", tile.size), *tiles]  # fmt: skip
    return _module(
        _declared(tile), *[_tiles(tile, rows) for rows in (tile.rows, smaller, 1)],
        [*_entry("a", "b", "out"), *_word("n", "data", "0"), *_word("k", "data", "1"), *_word("parts", "data", "2"),
         f"%nbytes = mul i64 %k, {tile.size}", f"%over = srem i64 %count, {tile.rows}",
         "%whole = sub i64 %count, %over", f"%few = srem i64 %count, {smaller}", "%rest = sub i64 %count, %few",
         *_repeat("panel", "entry", "0", "%n", tile.width, panel), "ret void", "}"],
    )  # fmt: skip


_ARGUMENTS = ("ptr %left", "i64 %row", "ptr %right", "i64 %terms", "ptr %out", "i64 %line", "i64 %width",
              "i1 %adds")  # fmt: skip


def _tiles(tile: Tile, rows: int) -> list[str]:
    """The functions for tiles of so many rows: of all vectors, and of the first one, in a panel of few columns."""
    arguments, lines = ", ".join(_ARGUMENTS), list[str]()
    for vectors in (1, tile.vectors):
        lines += _tile(tile, rows, vectors)
    return [*lines, f"define internal void @tile{rows}({arguments}) #0 {{",
            f"%few = icmp sle i64 %width, {tile.lanes}", "br i1 %few, label %one, label %all",
            "one:", f"call void @tile{rows}x1({arguments})", "ret void",
            "all:", f"call void @tile{rows}x{tile.vectors}({arguments})", "ret void", "}"]  # fmt: skip


def _tile(tile: Tile, rows: int, vectors: int) -> list[str]:
    """The function that adds a tile of a @ b to `out`, or writes it there."""
    every = [(i, v) for i in range(rows) for v in range(vectors)]
    size, vector = tile.size, tile.vector
    body = _offset("b", "%right", "%n", tile.width * size)
    for v in range(vectors):
        body += [f"%b{v}.p = getelementptr i8, ptr %b, i64 {v * tile.lanes * size}",
                 f"%b{v} = load {vector}, ptr %b{v}.p, align {size}"]  # fmt: skip
    for i in range(rows):
        group, place = divmod(i, 3)
        body += [*_offset(f"a{i}", f"%g{group}", str(place), "%row"),
                 f"%x{i}.s = load {tile.type}, ptr %a{i}, align {size}",
                 *_splat(f"x{i}", vector, tile.type, f"%x{i}.s")]  # fmt: skip
        body += [f"%c{i}.{v}.plus = call {vector} @llvm.fma.{tile.kind}({vector} %x{i}, {vector} %b{v}, "
                 f"{vector} %c{i}.{v})" for v in range(vectors)]  # fmt: skip
    groups = range(-(-rows // 3))  # three rows have one pointer, which leaves registers of addresses free
    begin = [line for g in groups for line in _offset(f"g{g}.begin", "%left", str(3 * g), "%row")]
    body += [f"%g{g}.plus = getelementptr i8, ptr %g{g}, i64 {size}" for g in groups]
    sums = [f"%c{i}.{v} = phi {vector} [zeroinitializer, %entry], [%c{i}.{v}.plus, %n.next]" for i, v in every]
    sums += [f"%g{g} = phi ptr [%g{g}.begin, %entry], [%g{g}.plus, %n.next]" for g in groups]
    loop = _repeat("n", "entry", "0", "%terms", 1, body, sums)
    targets, olds, news = list[str](), list[str](), list[str]()
    for i, v in every:
        targets += [*_offset(f"o{i}.{v}", "%out", str(i), "%line"),
                    f"%p{i}.{v} = getelementptr i8, ptr %o{i}.{v}, i64 {v * tile.lanes * size}"]  # fmt: skip
        olds.append(_load(tile, f"old{i}.{v}", f"%p{i}.{v}", f"%mask{v}"))
        news.append(f"%before{i}.{v} = phi {vector} [zeroinitializer, %n.done], [%old{i}.{v}, %again]")
    for i, v in every:
        news += [f"%sum{i}.{v} = fadd {vector} %before{i}.{v}, %c{i}.{v}",
                 _store(tile, f"%sum{i}.{v}", f"%p{i}.{v}", f"%mask{v}")]  # fmt: skip
    ending = [*_masks(tile, "%width", vectors), *targets, "br i1 %adds, label %again, label %write", "again:", *olds,
              "br label %write", "write:", *news]  # fmt: skip
    return [f"define internal void @tile{rows}x{vectors}({', '.join(_ARGUMENTS)}) #0 {{", "entry:", *begin, *loop,
            *ending, "ret void", "}"]  # fmt: skip


# ---- packing -------------------------------------------------------------------------------------------


def packing(tile: Tile) -> str:
    """The loop over the rows of a matrix (k, n) that packs it. Operands: the matrix, its packed form. data: n."""
    panel = ["%left = sub i64 %n, %panel", *_masks(tile, "%left", tile.vectors),
             *_offset("from", "%above", "%panel", tile.size),
             *_offset("to", "%begin", "%panel", "%nbytes")]  # fmt: skip
    for v in range(tile.vectors):
        nbytes = v * tile.lanes * tile.size
        panel += [f"%f{v} = getelementptr i8, ptr %from, i64 {nbytes}", _load(tile, f"x{v}", f"%f{v}", f"%mask{v}"),
                  f"%t{v} = getelementptr i8, ptr %to, i64 {nbytes}",
                  f"store {tile.vector} %x{v}, ptr %t{v}, align {tile.size}"]  # fmt: skip
    row = [*_offset("above", "%x", "%row", "%x.step"), *_offset("begin", "%packed", "%row", tile.width * tile.size),
           *_repeat("panel", "row.body", "0", "%n", tile.width, panel)]  # fmt: skip
    return _module(
        _declared(tile), _entry("x", "packed"), _word("n", "data", "0"), [f"%nbytes = mul i64 %count, {tile.size}"],
        _repeat("row", "entry", "0", "%count", 1, row), ["ret void", "}"],
    )  # fmt: skip


def packing_transposed(tile: Tile) -> str:
    """The loop over the rows of a matrix (n, k) that packs its transpose, by squares of `lanes` rows and columns.

    Operands: the matrix, its packed form. data: k.
    """
    lanes, size = tile.lanes, tile.size
    panel = ["%left = sub i64 %count, %panel", *_offset("begin", "%packed", "%panel", "%nbytes")]
    for v in range(tile.vectors):
        rows, square = list[str](), list[str]()
        for i in range(lanes):
            rows += [f"%u{v}.{i} = add i64 %panel, {v * lanes + i}", f"%v{v}.{i} = icmp slt i64 %u{v}.{i}, %count",
                     *_splat(f"is{v}.{i}", tile.mask, "i1", f"%v{v}.{i}"),
                     *_offset(f"row{v}.{i}", "%x", f"%u{v}.{i}", "%x.step")]  # fmt: skip
            square += [f"%m{v}.{i} = and {tile.mask} %k{v}.mask0, %is{v}.{i}",
                       *_offset(f"q{v}.{i}", f"%row{v}.{i}", f"%q{v}", size),
                       _load(tile, f"x{v}.{i}", f"%q{v}.{i}", f"%m{v}.{i}")]  # fmt: skip
        turned, names = _turned(tile, [f"%x{v}.{i}" for i in range(lanes)], f"y{v}")
        square = [f"%k{v}.left = sub i64 %k, %q{v}", *_masks(tile, f"%k{v}.left", 1, f"k{v}.mask"), *square, *turned,
                  *_offset(f"to{v}", "%begin", f"%q{v}", tile.width * size)]  # fmt: skip
        for i, name in enumerate(names):
            square += [f"%w{v}.{i} = icmp slt i64 {i}, %k{v}.left",
                       *_splat(f"in{v}.{i}", tile.mask, "i1", f"%w{v}.{i}"),
                       f"%p{v}.{i} = getelementptr i8, ptr %to{v}, i64 {(i * tile.width + v * lanes) * size}",
                       _store(tile, name, f"%p{v}.{i}", f"%in{v}.{i}")]  # fmt: skip
        before = "panel.body" if v == 0 else f"q{v - 1}.done"
        panel += [*rows, *_repeat(f"q{v}", before, "0", "%k", lanes, square)]
    return _module(
        _declared(tile), _entry("x", "packed"), _word("k", "data", "0"), [f"%nbytes = mul i64 %k, {size}"],
        _repeat("panel", "entry", "0", "%count", tile.width, panel), ["ret void", "}"],
    )  # fmt: skip


def _turned(tile: Tile, names: list[str], prefix: str) -> tuple[list[str], list[str]]:
    """The transpose of a square of vectors: exchanges its halves, then quarters, and so on."""
    lines, lanes, vector = list[str](), tile.lanes, tile.vector
    distance = 1
    while distance < lanes:
        turned = list[str]()
        for i in range(lanes):
            low = i & ~distance
            first = distance if i & distance else 0  # what row i takes of the rows `low` and `low + distance`
            picks = [(e & ~distance) + first + (lanes if e & distance else 0) for e in range(lanes)]
            turned.append(f"%{prefix}.{distance}.{i}")
            lines.append(f"{turned[-1]} = shufflevector {vector} {names[low]}, {vector} {names[low + distance]}, "
                         f"<{lanes} x i32> <{', '.join(f'i32 {pick}' for pick in picks)}>")
        names, distance = turned, 2 * distance
    return lines, names


SOURCES: dict[str, Callable[[Tile], str]] = {
    "product": product, "packing": packing, "transposed packing": packing_transposed,
}  # fmt: skip
