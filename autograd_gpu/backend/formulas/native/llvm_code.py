"""LLVM IR of a Program: the inner loop of a NumPy ufunc, loop(args, dims, steps, data).

The operands are inputs, numbers and outputs. The loop goes by strips of 1024 elements, which stay in the L1 cache. An
operand whose elements are not adjacent is copied to a strip, or from one. A strip is computed in stages: loops, which
LLVM makes vector code of, and between them calls of NumPy's own inner loops for functions such as exp, so that the
results have NumPy's bits. `data` has their addresses; the code holds none, and may be kept on disk.

There is no fast-math and no contraction: each operation is rounded by itself. Half types are computed in float32;
results are rounded to them, and so is what a group computes in between (ROUNDINGS). NumPy's functions of half types are
tables of their 65,536 results (HALF_FUNCTIONS). Accesses of a stage are parallel: NumPy copies operands that overlap
otherwise than element by element.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from ..lowering import HALF_FUNCTIONS, ROUNDINGS, Instruction, Operand, Program
from .stages import CALLED, Stages

STRIP = 1024  # elements
SYMBOL = "loop"  # the name of the function
OF_SCIPY = ("normal_cdf", "sigmoid")  # in float64 the former, and both in programs for few elements
ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq"}
INTRINSICS = {"sqrt": "sqrt", "abs": "fabs"}
STORED = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "i16"}  # types of arrays
Ties = Mapping[str, str]  # what minimum and maximum of zeros of different sign are: "first", "second" or "ordered"


def functions_of(program: Program) -> list[str]:
    """The functions whose inner loops are called, or whose results are looked up, in the order of their addresses in
    `data`."""
    return list(dict.fromkeys([i.op for i in program.instructions if i.op in CALLED or i.op in HALF_FUNCTIONS]))


def unsupported(program: Program) -> str | None:
    """Why there is no native code for a program, or None."""
    calls = [i.op for i in program.instructions if i.op in OF_SCIPY]
    return f"{calls[0]} is a function of SciPy, whose inner loops are not called" if calls else None


def types_of(program: Program, dtype: np.dtype) -> list[np.dtype]:
    """The dtypes of inputs, numbers and outputs, for arrays of one dtype; half types have float32 numbers."""
    computed = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    inputs, numbers, outputs = (len(part) for part in (program.inputs, program.numbers, program.outputs))
    return [dtype] * inputs + [computed] * numbers + [dtype] * outputs


def source(program: Program, types: Sequence[np.dtype], ties: Ties) -> str:
    """The loop for inputs, numbers and outputs of these dtypes as LLVM IR; half types are computed in float32."""
    return _Writer(program, types, ties).text()


# ---- text ----------------------------------------------------------------------------------------------


def _literal(value: float, dtype: np.dtype) -> str:
    with np.errstate(over="ignore"):
        rounded = float(dtype.type(value))
    return "0x" + struct.pack(">d", rounded).hex().upper()


class _Writer:
    """Writes the function; `%p0`, `%s0` are the address and the step of operand 0, `%x0` where its strip begins."""

    def __init__(self, program: Program, types: Sequence[np.dtype], ties: Ties) -> None:
        self.program, self.ties, self.lines, self.names = program, ties, list[str](), 0
        self.stored, self.sizes = [STORED[t.name] for t in types], [t.itemsize for t in types]
        self.type = "double" if "double" in self.stored else "float"
        self.dtype = np.dtype(np.float64 if self.type == "double" else np.float32)
        self.functions = functions_of(program)
        inputs, numbers = len(program.inputs), len(program.numbers)
        self.inputs, self.first_number, self.count = range(inputs), inputs, len(types)
        self.outputs = range(inputs + numbers, self.count)
        widened = {Operand("i", k) for k in self.inputs if self.stored[k] != self.type}
        self.stages = Stages(program, widened, self.stored[self.outputs[0]] != self.type)
        self.fixed = {Operand("c", k): _literal(value, self.dtype) for k, value in enumerate(program.constants)}
        self.loops = 0

    def text(self) -> str:
        """The whole module."""
        bits = 8 * self.dtype.itemsize
        self.lines += [f"declare {self.type} @llvm.{name}.f{bits}({self.type})" for name in INTRINSICS.values()]
        self.lines += ["", f"define void @{SYMBOL}(ptr %args, ptr %dims, ptr %steps, ptr %data) #0 {{", "entry:"]
        self._entry()
        self._strip()
        self.lines += ["done:"]
        self._call_clear()
        self.lines += ["  ret void", "}", "", 'attributes #0 = { nounwind "no-builtins" }', "!0 = distinct !{}",
                       '!1 = !{!"llvm.loop.parallel_accesses", !0}', '!2 = !{!"llvm.loop.vectorize.enable", i1 false}',
                       '!3 = !{!"llvm.loop.unroll.disable"}', "!4 = distinct !{!4, !2, !3}"]  # fmt: skip
        self.lines += [f"!{5 + k} = distinct !{{!{5 + k}, !1}}" for k in range(self.loops)]
        return "\n".join([*self.lines, ""])

    def write(self, *lines: str) -> None:
        self.lines += [line if line.endswith(":") else f"  {line}" for line in lines]

    def let(self, expression: str) -> str:
        """A new name for the result of an instruction."""
        self.names += 1
        self.write(f"%v{self.names} = {expression}")
        return f"%v{self.names}"

    def _loaded(self, type: str, array: str, index: int) -> str:
        return self.let(f"load {type}, ptr {self.let(f'getelementptr {type}, ptr {array}, i64 {index}')}")

    def _entry(self) -> None:
        for k in range(self.stages.count):
            self.write(f"%strip{k} = alloca [{STRIP} x {self.type}], align 64")
        for k in (*self.inputs, *self.outputs):
            self.write(f"%b{k} = alloca [{STRIP} x {self.stored[k]}], align 64")
        self.write("%pointers = alloca [3 x ptr]", "%strides = alloca [3 x i64]", "%length = alloca i64")
        self.write("%count = load i64, ptr %dims")
        for k in range(self.count):
            self.write(f"%p{k} = getelementptr i8, ptr {self._loaded('ptr', '%args', k)}, i64 0",
                        f"%s{k} = add i64 {self._loaded('i64', '%steps', k)}, 0",
                        f"%dense{k} = icmp eq i64 %s{k}, {self.sizes[k]}")  # fmt: skip
        for k, place in enumerate(range(self.first_number, self.outputs[0])):
            loaded = self.let(f"load {self.stored[place]}, ptr %p{place}")
            self.fixed[Operand("n", k)] = self.widened(loaded, self.stored[place])
        for value in dict.fromkeys([i.args[1] for i in self.program.instructions if i.op == "pow"]):
            self.write(f"%a{value} = alloca {self.type}", f"store {self.type} {self.fixed[value]}, ptr %a{value}")
        for k in range(len(self.functions)):
            self.write(f"%f{k} = getelementptr i8, ptr {self._loaded('ptr', '%data', 2 * k)}, i64 0",
                        f"%d{k} = getelementptr i8, ptr {self._loaded('ptr', '%data', 2 * k + 1)}, i64 0")  # fmt: skip
        self.write("br label %head")

    def _call_clear(self) -> None:
        """Both sides of a select are computed, so flags mean nothing: without this NumPy would warn of them."""
        self.write(f"call void {self._loaded('ptr', '%data', 2 * len(self.functions))}()")

    def _strip(self) -> None:
        self.write("head:", "%start = phi i64 [0, %entry], [%following, %tail]",
                    "%left = sub i64 %count, %start", "%more = icmp sgt i64 %left, 0",
                    "br i1 %more, label %strip, label %done", "strip:",
                    f"%short = icmp slt i64 %left, {STRIP}",
                    f"%n = select i1 %short, i64 %left, i64 {STRIP}")  # fmt: skip
        for k in (*self.inputs, *self.outputs):
            offset = self.let(f"mul i64 %start, %s{k}")
            self.write(f"%q{k} = getelementptr i8, ptr %p{k}, i64 {offset}",
                        f"%x{k} = select i1 %dense{k}, ptr %q{k}, ptr %b{k}")  # fmt: skip
        for k in self.inputs:
            self._move(k, into_strip=True)
        for stage in range(self.stages.top + 1):
            self._stage(stage)
            for k in self.stages.calls(stage):
                self._call(k, self.program.instructions[k])
        for k in self.outputs:
            self._move(k, into_strip=False)
        self.write("br label %tail", "tail:", f"%following = add i64 %start, {STRIP}", "br label %head")

    def _move(self, k: int, into_strip: bool) -> None:
        """Copies an operand of any step into its strip, or out of it."""
        self.write(f"br i1 %dense{k}, label %moved{k}, label %enter{k}", f"enter{k}:", f"br label %move{k}",
                    f"move{k}:", f"%m{k} = phi i64 [0, %enter{k}], [%m{k}n, %move{k}]")  # fmt: skip
        outside = self.let(f"getelementptr i8, ptr %q{k}, i64 {self.let(f'mul i64 %m{k}, %s{k}')}")
        inside = self.let(f"getelementptr {self.stored[k]}, ptr %b{k}, i64 %m{k}")
        source, target = (outside, inside) if into_strip else (inside, outside)
        self.write(f"store {self.stored[k]} {self.let(f'load {self.stored[k]}, ptr {source}')}, ptr {target}",
                    f"%m{k}n = add nuw nsw i64 %m{k}, 1", f"%m{k}c = icmp slt i64 %m{k}n, %n",
                    f"br i1 %m{k}c, label %move{k}, label %moved{k}, !llvm.loop !4", f"moved{k}:")  # fmt: skip

    def _call(self, k: int, instruction: Instruction) -> None:
        """A call of NumPy's inner loop on a strip."""
        result, (argument, *exponent), size = Operand("t", k), instruction.args, self.dtype.itemsize
        source = self._place(argument)
        target = f"%x{self.outputs[0]}" if result == self.stages.direct else f"%strip{self.stages.strips[result]}"
        operands = [(source, size), *[(f"%a{value}", 0) for value in exponent], (target, size)]
        for n, (pointer, step) in enumerate(operands):
            self.write(f"store ptr {pointer}, ptr {self.let(f'getelementptr ptr, ptr %pointers, i64 {n}')}",
                        f"store i64 {step}, ptr {self.let(f'getelementptr i64, ptr %strides, i64 {n}')}")  # fmt: skip
        f = self.functions.index(instruction.op)
        self.write("store i64 %n, ptr %length", f"call void %f{f}(ptr %pointers, ptr %length, ptr %strides, ptr %d{f})")

    def _place(self, value: Operand) -> str:
        """Where the strip of a value is that a call reads."""
        return f"%strip{self.stages.strips[value]}" if value in self.stages.strips else f"%x{value.place}"

    def _stage(self, stage: int) -> None:
        """The loop of a stage: computes values, and keeps those that are read behind it, or writes the outputs."""
        kept = [v for v in self.stages.kept if self.stages.of.get(v, 0) == stage and not self._is_call(v)]
        outputs = self.program.outputs if stage == self.stages.top and self.stages.direct is None else ()
        if not kept and not outputs:
            return
        k, self.loops = self.loops, self.loops + 1
        self.write(f"br label %enter_stage{k}", f"enter_stage{k}:", f"br label %stage{k}", f"stage{k}:",
                    f"%i{k} = phi i64 [0, %enter_stage{k}], [%i{k}n, %stage{k}]")  # fmt: skip
        loop = _Loop(self, f"%i{k}")
        for place in self.stages.loops[stage]:
            loop.compute(place)
        for value in kept:
            loop.store(self.type, f"%strip{self.stages.strips[value]}", loop.value(value))
        results = [loop.narrowed(o, self.stored[k]) for k, o in zip(self.outputs, outputs, strict=False)]
        for place, result in zip(self.outputs, results, strict=False):
            loop.store(self.stored[place], f"%x{place}", result)
        self.write(f"%i{k}n = add nuw nsw i64 %i{k}, 1", f"%i{k}c = icmp slt i64 %i{k}n, %n",
                    f"br i1 %i{k}c, label %stage{k}, label %behind{k}, !llvm.loop !{5 + k}", f"behind{k}:")  # fmt: skip

    def _is_call(self, value: Operand) -> bool:
        return value.kind == "t" and self.program.instructions[value.place].op in CALLED

    def widened(self, value: str, stored: str) -> str:
        """A value that has the type of an array in the type of the computation."""
        if stored == "half":
            return self.let(f"fpext half {value} to float")
        if stored == "i16":
            word = self.let(f"zext i16 {value} to i32")
            return self.let(f"bitcast i32 {self.let(f'shl i32 {word}, 16')} to float")
        return value

    def narrowed(self, value: str, stored: str) -> str:
        """A result in the type of an array, rounded to even; of bfloat16 its bits."""
        if stored == "half":
            return self.let(f"fptrunc float {value} to half")
        if stored != "i16":
            return value
        let = self.let
        bits = let(f"bitcast float {value} to i32")
        cut = let(f"lshr i32 {bits}, 16")
        half = let(f"add i32 {let(f'and i32 {cut}, 1')}, 32767")
        rounded = let(f"lshr i32 {let(f'add i32 {bits}, {half}')}, 16")
        is_nan, nan = let(f"fcmp uno float {value}, {value}"), let(f"or i32 {cut}, 64")
        return let(f"trunc i32 {let(f'select i1 {is_nan}, i32 {nan}, i32 {rounded}')} to i16")


class _Loop:
    """The body of a stage's loop, for the element `index`."""

    def __init__(self, writer: _Writer, index: str) -> None:
        self.writer, self.index, self.let = writer, index, writer.let
        self.known, self.rounded = dict(writer.fixed), dict[tuple[Operand, str], str]()

    def value(self, operand: Operand) -> str:
        """The name of a value, loaded from its array or its strip if this loop has not computed it."""
        if operand not in self.known:
            writer = self.writer
            if operand.kind == "i":
                stored = writer.stored[operand.place]
                loaded = self.rounded[operand, stored] = self._load(stored, f"%x{operand.place}")
                self.known[operand] = writer.widened(loaded, stored)
            else:
                self.known[operand] = self._load(writer.type, f"%strip{writer.stages.strips[operand]}")
        return self.known[operand]

    def narrowed(self, operand: Operand, stored: str) -> str:
        """A value in the type of an array: what it was rounded to, if it was."""
        value = self.value(operand)
        return self.rounded.get((operand, stored)) or self.writer.narrowed(value, stored)

    def _load(self, type: str, array: str, index: str = "") -> str:
        place = self.let(f"getelementptr {type}, ptr {array}, i64 {index or self.index}")
        return self.let(f"load {type}, ptr {place}, !llvm.access.group !0")

    def store(self, type: str, array: str, value: str) -> None:
        place = self.let(f"getelementptr {type}, ptr {array}, i64 {self.index}")
        self.writer.write(f"store {type} {value}, ptr {place}, !llvm.access.group !0")

    def compute(self, place: int) -> None:
        """An instruction, with the semantics of NumPy's function."""
        instruction, type, let = self.writer.program.instructions[place], self.writer.type, self.let
        op, args = instruction.op, [self.value(a) for a in instruction.args]
        if op in ARITHMETIC:
            result = let(f"{ARITHMETIC[op]} {type} {args[0]}, {args[1]}")
        elif op in COMPARISONS:
            result = let(f"fcmp {COMPARISONS[op]} {type} {args[0]}, {args[1]}")
        elif op in ("and", "or"):
            result = let(f"{op} i1 {args[0]}, {args[1]}")
        elif op in INTRINSICS:
            digits = 32 if type == "float" else 64
            result = let(f"call {type} @llvm.{INTRINSICS[op]}.f{digits}({type} {args[0]})")
        elif op == "neg":
            result = let(f"fneg {type} {args[0]}")
        elif op == "select":
            result = self._select(*args)
        elif op == "sign":
            result = self._sign(args[0])
        elif op in ROUNDINGS:
            stored = STORED[op]
            bits = self.rounded[Operand("t", place), stored] = self.writer.narrowed(args[0], stored)
            result = self.writer.widened(bits, stored)
        elif op in HALF_FUNCTIONS:
            result = self._looked_up(place, instruction)
        else:
            result = self._extremum(op, *args)
        self.known[Operand("t", place)] = result

    def _looked_up(self, place: int, instruction: Instruction) -> str:
        """A function of a half type, whose results are a table by the bits of its argument."""
        stored, table = STORED[HALF_FUNCTIONS[instruction.op][1]], self.writer.functions.index(instruction.op)
        bits = self.narrowed(instruction.args[0], stored)
        word = bits if stored == "i16" else self.let(f"bitcast {stored} {bits} to i16")
        result = self._load(stored, f"%f{table}", self.let(f"zext i16 {word} to i64"))
        self.rounded[Operand("t", place), stored] = result
        return self.writer.widened(result, stored)

    def _select(self, condition: str, a: str, b: str) -> str:
        return self.let(f"select i1 {condition}, {self.writer.type} {a}, {self.writer.type} {b}")

    def _sign(self, x: str) -> str:
        """1, -1 or 0, and NaN of NaN."""
        type, let = self.writer.type, self.let
        below = self._select(let(f"fcmp olt {type} {x}, 0.0"), "-1.0", "0.0")
        sign = self._select(let(f"fcmp ogt {type} {x}, 0.0"), "1.0", below)
        return self._select(let(f"fcmp uno {type} {x}, 0.0"), x, sign)

    def _extremum(self, op: str, a: str, b: str) -> str:
        """a if it is NaN or the larger one, or smaller one; of equal ones, such as zeros of either sign, by `ties`."""
        type, let, ties = self.writer.type, self.let, self.writer.ties[op]
        name = {"maximum": "og", "minimum": "ol"}[op] + ("e" if ties == "first" else "t")
        takes_a = let(f"or i1 {let(f'fcmp {name} {type} {a}, {b}')}, {let(f'fcmp uno {type} {a}, {a}')}")
        result = self._select(takes_a, a, b)
        if ties != "ordered":
            return result
        word, combine = "i32" if type == "float" else "i64", {"maximum": "and", "minimum": "or"}[op]
        bits = [let(f"bitcast {type} {x} to {word}") for x in (a, b)]
        both = let(f"bitcast {word} {let(f'{combine} {word} {bits[0]}, {bits[1]}')} to {type}")
        return self._select(let(f"fcmp oeq {type} {a}, {b}"), both, result)
