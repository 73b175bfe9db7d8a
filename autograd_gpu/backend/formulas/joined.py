"""One Program of several: a group, which computes several formulas in one pass.

Programs are joined instruction by instruction. Nothing is lowered again, since the operations of a formula depend on
what is computed beside it; so the results have the bits of the programs one by one. Equal instructions are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .expression import number
from .lowering import Instruction, Operand, Program


class Joined:
    """Programs in order; their operands are the inputs and numbers of the whole, constants, and earlier results."""

    def __init__(self) -> None:
        self.constants: dict[str, float] = {}  # by their text: 0.0 and -0.0 differ
        self.instructions: dict[Instruction, Operand] = {}

    def constant(self, value: float) -> Operand:
        """The operand for a number that never changes."""
        key = float(value).hex()
        self.constants.setdefault(key, float(value))
        return Operand("c", list(self.constants).index(key))

    def add(
        self, program: Program, operands: Sequence[Operand], numbers: Sequence[float] = (), rounding: str | None = None
    ) -> list[Operand]:  # fmt: skip
        """Appends a program with these inputs, and numbers that become constants. Its outputs.

        rounding: a half type, to which the result of each instruction is rounded that is no condition.
        """
        known = {Operand("i", k): operand for k, operand in enumerate(operands)}
        known |= {Operand("n", k): self.constant(value) for k, value in enumerate(numbers)}
        known |= {Operand("c", k): self.constant(value) for k, value in enumerate(program.constants)}
        for k, instruction in enumerate(program.instructions):
            result = self._result(instruction.op, *[known[a] for a in instruction.args])
            rounds = rounding is not None and not instruction.is_condition
            known[Operand("t", k)] = self.rounded(rounding, result) if rounds else result
        return [known[o] for o in program.outputs]

    def rounded(self, dtype: Any, operand: Operand) -> Operand:
        """A value that is computed in float32, rounded to a half type."""
        return self._result(dtype, operand)

    def _result(self, op: str, *args: Operand) -> Operand:
        return self.instructions.setdefault(Instruction(op, args), Operand("t", len(self.instructions)))

    def program(self, inputs: int, numbers: int, outputs: Sequence[Operand]) -> Program:
        """The whole, without what no output needs."""
        instructions = [*self.instructions]
        needed, waiting = set[Operand](), [*outputs]
        while waiting:
            operand = waiting.pop()
            if operand not in needed:
                needed.add(operand)
                waiting += instructions[operand.place].args if operand.kind == "t" else ()
        places = {Operand(kind, k): Operand(kind, k) for kind, n in (("i", inputs), ("n", numbers)) for k in range(n)}
        listed = {kind: [o for o in sorted(needed) if o.kind == kind] for kind in "ct"}
        places |= {o: Operand(kind, k) for kind, operands in listed.items() for k, o in enumerate(operands)}
        values, kept = [*self.constants.values()], [instructions[o.place] for o in listed["t"]]
        return Program(
            inputs=tuple([f"x{k}" for k in range(inputs)]),
            numbers=tuple([number(f"s{k}") for k in range(numbers)]),
            constants=tuple([values[o.place] for o in listed["c"]]),
            instructions=tuple([Instruction(i.op, tuple([places[a] for a in i.args])) for i in kept]),
            outputs=tuple([places[o] for o in outputs]),
        )
