"""The text of a Program as Python functions of NumPy arrays.

`few` makes a call per instruction, and so does `each`, for lists of arrays. `block` works on vectors of a block's
elements: every instruction writes into a register, an array that a later instruction reuses; outputs are registers,
too.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .lowering import Instruction, Operand, Program

CALLED = {"select": "where", "or": "logical_or", "and": "logical_and"}  # operations that have other names in the text


def called(op: str) -> str:
    """The name of an operation in generated code."""
    return CALLED.get(op, op)


def defined(file: str, text: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The scope, after the text has run in it; tracebacks show the text, by the name `file`."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), scope)
    return scope


class _Registers:
    """Names of arrays of a block: a result gets the one that was given back last, or a new one.

    `outputs` are free until the instruction that claims them.
    """

    def __init__(self, letter: str, outputs: Sequence[str] = ()) -> None:
        self.letter, self.free, self.count = letter, [*outputs], 0

    def claim(self, name: str) -> str:
        """This register, or another if it is in use."""
        if name not in self.free:
            return self.take()
        self.free.remove(name)
        return name

    def take(self) -> str:
        return self.free.pop() if self.free else self.new()

    def new(self) -> str:
        self.count += 1
        return f"{self.letter}{self.count - 1}"


def _scaled(program: Program) -> dict[int, tuple[Operand, Operand, Operand]]:
    """The selects between a and a product of a with a number, which nothing else reads: a, the product, the number."""
    uses = Counter([*program.outputs, *[a for i in program.instructions for a in i.args]])
    result = {}
    for k, instruction in enumerate(program.instructions):
        sides = instruction.args[1:] if instruction.op == "select" else ()
        for whole, product in zip(sides, sides[::-1], strict=True):
            if product.kind != "t" or uses[product] > 1 or whole.kind in "nc":
                continue
            op, args = program.instructions[product.place]
            numbers = [a for a in args if a.kind in "nc"]
            if op == "mul" and whole in args and numbers:
                result[k] = whole, product, numbers[0]
    return result


def _limited(program: Program) -> set[int]:
    """The minima of a maximum before, both with a constant other than 0: of zeros the sign depends on the function."""
    uses = Counter([*program.outputs, *[a for i in program.instructions for a in i.args]])
    result = set()
    for k, (op, args) in enumerate(program.instructions):
        before = Operand("t", k - 1)
        if op == "minimum" and args[0] == before and uses[before] == 1 and program.instructions[k - 1].op == "maximum":
            limits = [program.instructions[k - 1].args[1], args[1]]
            if all(a.kind == "c" and program.constants[a.place] for a in limits):
                result.add(k)
    return result


class BlockWriter:
    """Writes the lines of `block`.

    `floats` and `flags` are its registers, `wide` the numbers that it reads as vectors w0, w1, ...: NumPy's minimum and
    maximum take three times as long with a number. `replaced` says for each output in whose input's memory it is:
    such an output is free once the input has been read.
    """

    def __init__(self, program: Program, replaced: Sequence[int] = ()) -> None:
        self.program, self.lines, self.wide = program, list[str](), list[Operand]()
        self.viewed = set[str]()
        self.places: dict[Operand, str] = {Operand("i", place): f"o{k}" for k, place in enumerate(replaced)}
        read = [name for operand, name in self.places.items() if operand in program.last_uses]
        outputs = [f"o{k}" for k in range(len(program.outputs))]
        self.floats, self.flags = _Registers("f", [o for o in outputs if o not in read]), _Registers("b")
        self.own = {o: f"o{k}" for k, o in reversed([*enumerate(program.outputs)]) if o.kind == "t"}
        self.scaled, self.limited = _scaled(program), _limited(program)
        skipped = {side.place for _, side, _ in self.scaled.values()} | {k - 1 for k in self.limited}
        for k, instruction in enumerate(program.instructions):
            if k in self.scaled:
                self._scale(k, *self.scaled[k])
            elif k in self.limited:
                self._limit(k, program.instructions[k - 1].args, instruction.args[1])
            elif instruction.op == "select":
                self._select(k, instruction)
            elif k not in skipped:
                self._call(k, instruction)
        self._copy({f"o{k}": self._place(o) for k, o in enumerate(program.outputs)})

    @property
    def arrays(self) -> list[str]:
        """The parameters after the inputs, numbers and constants."""
        outputs = [f"o{k}" for k in range(len(self.program.outputs))]
        registers = [f"{r.letter}{k}" for r in (self.floats, self.flags) for k in range(r.count)]
        return [*outputs, *registers, *[f"w{k}" for k in range(len(self.wide))]]

    def _copy(self, sources: dict[str, str]) -> None:
        """Copies to outputs what ended up elsewhere. An output that holds another one's result is copied first."""
        left = {target: source for target, source in sources.items() if target != source}
        while left:
            target = next((t for t in left if t not in left.values()), None)
            if target is None:  # a circle: one of them moves out of the way; free registers may be outputs
                target, moved = next(iter(left)), self.floats.new()
                self.lines.append(f"copyto({moved}, {target})")
                left = {t: moved if source == target else source for t, source in left.items()}
            self.lines.append(f"copyto({target}, {left.pop(target)})")

    def _place(self, operand: Operand) -> str:
        return self.places.get(operand, str(operand))

    def _call(self, k: int, instruction: Instruction) -> None:
        widens = instruction.op in ("minimum", "maximum")
        args = [self._as_vector(a) if widens and a.kind in "nc" else self._place(a) for a in instruction.args]
        self._give_back(k, instruction.args)
        result = self.places[Operand("t", k)] = self._take(Operand("t", k), instruction)
        self.lines.append(f"{called(instruction.op)}({', '.join(args)}, out={result})")

    def _limit(self, k: int, lower: Sequence[Operand], upper: Operand) -> None:
        """minimum(maximum(x, lower), upper) in one pass."""
        x, low = lower
        place = self._place(x)
        self._give_back(k - 1, [x])
        out = self.places[Operand("t", k)] = self._take(Operand("t", k), self.program.instructions[k])
        self.lines.append(f"clip({place}, {low}, {upper}, out={out})")

    def _as_vector(self, number: Operand) -> str:
        if number not in self.wide:
            self.wide.append(number)
        return f"w{self.wide.index(number)}"

    def _take(self, result: Operand, instruction: Instruction) -> str:
        if instruction.is_condition:
            return self.flags.take()
        own = self.own.get(result)
        return self.floats.take() if own is None else self.floats.claim(own)

    def _give_back(self, k: int, args: Sequence[Operand]) -> None:
        """The registers of those that no instruction after k reads."""
        for a in dict.fromkeys(args):
            if a in self.places and self.program.last_uses[a] == k:
                is_flag = a.kind == "t" and self.program.instructions[a.place].is_condition
                (self.flags if is_flag else self.floats).free.append(self.places[a])

    def _bits(self, name: str) -> str:
        """The name of an array as unsigned integers; a view takes as long as the pass over a thousand elements."""
        if name not in self.viewed:
            self.viewed.add(name)
            self.lines.append(f"{name}_bits = {name}.view(BITS)")
        return f"{name}_bits"

    def _constant(self, operand: Operand) -> str:
        return repr(self.program.constants[operand.place]) if operand.kind == "c" else ""

    def _select(self, k: int, instruction: Instruction) -> None:
        """A select on bits: a branch per element takes up to 20 times as long for a random condition."""
        condition, a, b = instruction.args
        sides = self._constant(a), self._constant(b)
        if "0.0" not in sides:
            self._choice(k, instruction)
            return
        flag, result = self._place(condition), Operand("t", k)
        if sides[0] == "0.0":  # then the other side stays where the condition does not hold
            opposite = self.flags.take()
            self.lines.append(f"logical_not({flag}, out={opposite})")
            self.flags.free.append(opposite)
            flag = opposite
        out = self.places[result] = self._take(result, instruction)
        other = b if sides[0] == "0.0" else a
        if self._constant(other) == "1.0":
            self.lines.append(f"copyto({out}, {flag})")
        else:
            bits, factor = self._bits(out), self._bits(self._place(other))
            self.lines += [f"copyto({bits}, {flag})", f"multiply({bits}, {factor}, out={bits})"]
        self._give_back(k, instruction.args)

    def _scale(self, k: int, whole: Operand, _: Operand, number: Operand) -> None:
        """select(condition, a, a * n) as a times a choice between numbers: numbers make shorter passes."""
        condition, first, _ = self.program.instructions[k].args
        out = self.places[Operand("t", k)] = self._take(Operand("t", k), self.program.instructions[k])
        bits, scale = self._bits(out), self._bits(self._place(number))
        sides = f"bitwise_xor({scale}, ONE)"
        self.lines += [
            f"copyto({bits}, {self._place(condition)})",
            f"multiply({bits}, {sides}, out={bits})",
            f"bitwise_xor({bits}, {scale if first == whole else 'ONE'}, out={bits})",
            f"multiply({out}, {self._place(whole)}, out={out})",
        ]
        self._give_back(k, [condition, whole])

    def _choice(self, k: int, instruction: Instruction) -> None:
        """b ^ (mask * (a ^ b)). The result may overwrite a, but not b, nor the mask."""
        condition, a, b = instruction.args
        left, right, mask = self._place(a), self._place(b), self.floats.take()
        self._give_back(k, [a] if a != b else [])
        out = self.places[Operand("t", k)] = self._take(Operand("t", k), instruction)
        left, right, bits, chosen = [self._bits(name) for name in (left, right, out, mask)]
        self.lines += [
            f"copyto({chosen}, {self._place(condition)})",
            f"bitwise_xor({left}, {right}, out={bits})",
            f"multiply({chosen}, {bits}, out={bits})",
            f"bitwise_xor({bits}, {right}, out={bits})",
        ]
        self._give_back(k, [x for x in instruction.args if x != a or a == b])
        self.floats.free.append(mask)


def _parameters(program: Program) -> str:
    return ", ".join(map(str, program.operands))


def _calls(program: Program) -> list[str]:
    """A line for each instruction."""
    return [f"    t{k} = {called(i.op)}({', '.join(map(str, i.args))})" for k, i in enumerate(program.instructions)]


def block_source(writer: BlockWriter) -> str:
    """`block` as Python."""
    lines = [f"def block({', '.join([_parameters(writer.program), *writer.arrays])}):"]
    return "\n".join([*lines, *[f"    {line}" for line in writer.lines or ["pass"]], ""])


def source(program: Program) -> str:
    """`block` and `few` as Python."""
    lines = [block_source(BlockWriter(program)), f"def few({_parameters(program)}):", *_calls(program)]
    return "\n".join([*lines, f"    return {', '.join(map(str, program.outputs))},", ""])


def each_source(program: Program, takes_out: bool = True) -> str:
    """`each` as Python: the result of the last instruction, with `takes_out` in the array `out` if that is given."""
    *lines, last = _calls(program)
    result = last.partition(" = ")[2].removesuffix(")")
    more, target = (", out=None", ", out=out") if takes_out else ("", "")
    return "\n".join([f"def each({_parameters(program)}{more}):", *lines, f"    return {result}{target})", ""])
