"""The stages of a strip: loops of machine code, and between them calls of NumPy's inner loops."""

from __future__ import annotations

from ..lowering import Operand, Program

CALLED = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "pow")  # by NumPy's inner loops
CHEAP = frozenset(("add", "sub", "mul", "neg", "abs"))  # computed twice rather than kept in a strip


class Stages:
    """Which values each stage computes, and which strips hold those that later stages read.

    The loop of stage s runs at the time 2 s, the calls behind it at 2 s + 1. The result of a call belongs to the stage
    behind it.
    """

    def __init__(self, program: Program, widened: set[Operand], narrows: bool) -> None:
        """widened: the inputs of half types; narrows: whether the first output is of one."""
        self.program, self.widened, self.narrows = program, widened, narrows
        self.of: dict[Operand, int] = {}
        for k, instruction in enumerate(program.instructions):
            last = max([self.of.get(a, 0) for a in instruction.args], default=0)
            self.of[Operand("t", k)] = last + (instruction.op in CALLED)
        self.top = max([self.of.get(o, 0) for o in program.outputs], default=0)
        self.kept: dict[Operand, tuple[int, int]] = {}  # value -> the times when it is written and last read
        self.direct = self._direct()
        self.loops = self._loops()
        self.strips, self.count = self._strips()

    def calls(self, stage: int) -> list[int]:
        """The calls behind the loop of a stage."""
        listed = enumerate(self.program.instructions)
        return [k for k, i in listed if i.op in CALLED and self.of[Operand("t", k)] == stage + 1]

    def _direct(self) -> Operand | None:
        """The result of a call that is the only output, and goes to its place at once."""
        (first, *others), stages = self.program.outputs, self.program.instructions
        called = first.kind == "t" and stages[first.place].op in CALLED
        return first if called and not others and not self.narrows else None

    def _keep(self, value: Operand, time: int) -> None:
        born, last = self.kept.get(value, (2 * self.of.get(value, 0) - self._is_call(value), 0))
        self.kept[value] = born, max(last, time)

    def _is_call(self, value: Operand) -> bool:
        return value.kind == "t" and self.program.instructions[value.place].op in CALLED

    def _loops(self) -> list[list[int]]:
        """The instructions that the loop of each stage computes, after settling which values are kept."""
        for stage in range(self.top + 1):
            for k in self.calls(stage):
                argument = self.program.instructions[k].args[0]
                if argument.kind == "t" or argument in self.widened:
                    self._keep(argument, 2 * stage + 1)
                if Operand("t", k) != self.direct:
                    self._keep(Operand("t", k), 2 * stage + 1)
        return [self._loop(s) for s in range(self.top, -1, -1)][::-1]

    def _loop(self, stage: int) -> list[int]:
        """What a stage computes for itself and for the stages behind it, which are settled."""
        waiting = [v for v in self.kept if v.kind == "t" and not self._is_call(v) and self.of[v] == stage]
        waiting += [o for o in self.program.outputs if stage == self.top and o != self.direct]
        needed: set[Operand] = set()
        while waiting:
            value = waiting.pop()
            if value.kind != "t" or value in needed:
                continue
            if self._is_call(value) or not (self.of[value] == stage or self._recomputed(value)):
                self._keep(value, 2 * stage)
                continue
            needed.add(value)
            waiting += self.program.instructions[value.place].args
        return sorted([value.place for value in needed])

    def _recomputed(self, value: Operand) -> bool:
        """Whether later stages compute the value themselves: a condition, or a sum or product of inputs."""
        instruction = self.program.instructions[value.place]
        if instruction.is_condition:
            return True
        return value not in self.kept and instruction.op in CHEAP and all(a.kind != "t" for a in instruction.args)

    def _strips(self) -> tuple[dict[Operand, int], int]:
        """A strip for each value that is kept; one that is no longer read is used again."""
        strips: dict[Operand, int] = {}
        free_from: list[int] = []  # by strip, the time of its last read
        for value, (born, last) in sorted(self.kept.items(), key=lambda item: (item[1], item[0])):
            strip = next((n for n, time in enumerate(free_from) if time < born), len(free_from))
            free_from[strip : strip + 1] = [last]
            strips[value] = strip
        return strips, len(free_from)
