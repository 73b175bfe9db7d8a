"""CUDA code of formulas: functors, structs that the kernels of kernels/*.cu take as template arguments.

The loops over memory stay in the kernels; a functor computes one element. It is a template of W, the type of the
computation: float, in which half types are computed, or double. Its members are numbers that the host computes. Where a
formula is used several times, equal subexpressions are `const` locals, named as in the Program. The compiler may
contract products and sums to fma. A division by exp(z) or 1 + exp(z), as in a sigmoid, has an error of two units in the
last place in float; every other one is rounded correctly.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .derivative import derivative, times
from .expression import INFIX, ZERO, Expression, element, on_host, text
from .lowering import Instruction, Operand, Program, lowered, written_out

# How tightly what is written binds, in C++; INFIX has Python's order, where `&` and `|` come before comparisons.
CHOICE, OR, AND, COMPARISON, SUM, PRODUCT, SIGN, ATOM = range(8)
BINDS = {"or": OR, "and": AND, "add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT}
SYMBOLS = {**{op: symbol for op, (symbol, _) in INFIX.items()}, "and": "&&", "or": "||"}
# Functions of CUDA, and of kernels/include/functions.cuh where CUDA has none, or a slower one.
CALLS = {
    "abs": "fabs({})", "sign": "sign({})", "sqrt": "sqrt({})", "exp": "exp({})", "expm1": "expm1({})",
    "log": "log({})", "log1p": "log1p({})", "sin": "sinpi(half_turns({}))", "cos": "cospi(half_turns({}))",
    "tanh": "tanh({})", "normal_cdf": "normal_below({})", "minimum": "minimum({}, {})", "maximum": "maximum({}, {})",
    "pow": "pow({}, {})",
}  # fmt: skip
LINE = 110  # characters of a member function that stands in one line


@dataclass(frozen=True, eq=False)
class Functor:
    """A functor: `text` is its definition, empty for one that is written in kernels/include/functions.cuh.

    `numbers` are its members. Of an activation, `from_result` says that derivatives are computed from its result, and
    `flat` that its second derivative is zero.
    """

    name: str
    text: str
    numbers: tuple[Expression, ...] = ()
    inputs: int = 1  # arrays that an element is computed from
    outputs: int = 1
    lists: int = 0  # of foreach.cu
    strided: int = 0  # inputs of group.cu that are not dense
    scalars: int = 0  # inputs of group.cu that have one element
    sums: int = 0  # outputs of group_sums.cu that are summed, the last ones
    from_result: bool = False
    flat: bool = False

    def values(self, **numbers: float) -> tuple[float, ...]:
        """The members, from the formula's arguments by keyword."""
        return tuple([float(on_host(number, numbers)) for number in self.numbers])


def elementwise(name: str, outputs: Sequence[Expression], inputs: Sequence[str]) -> Functor:
    """The functor of elementwise.cu: the outputs y[0], y[1], ... of an element from the inputs x[0], x[1], ..."""
    program = lowered(outputs, inputs, double=True)
    lines, results = _statements(program, [f"x[{k}]" for k in range(len(inputs))], program.numbers)
    lines += [f"y[{k}] = {result};" for k, result in enumerate(results)]
    written = [
        f"// {', '.join([f'x[{k}] = {name}' for k, name in enumerate(inputs)])}",
        *_head(name, program.numbers, f"int INPUTS = {len(inputs)}, OUTPUTS = {len(outputs)}"),
        "    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {",
        *[f"        {line}" for line in lines], "    }", "};", "",
    ]  # fmt: skip
    return Functor(name, "\n".join(written), program.numbers, len(inputs), len(outputs))


def group(program: Program, strided: int, scalars: int, sums: int = 0) -> Functor:
    """The functor of group.cu for a joined program without numbers: so many of its inputs are strided, and the last
    ones, so many, have one element. With `sums` that of group_sums.cu, which sums the last outputs, so many.

    Its name follows from the program, so that equal groups are one kernel.
    """
    digest = hashlib.sha256(f"{program.text} {strided} {scalars}{f' {sums}' * (sums > 0)}".encode()).hexdigest()
    name = f"Group{digest[:12]}"
    inputs, outputs = len(program.inputs), len(program.outputs)
    facts = f"int INPUTS = {inputs}, STRIDED = {strided}, SCALARS = {scalars}, OUTPUTS = {outputs}"
    facts += f", SUMS = {sums}" * (sums > 0)
    lines, results = _statements(program, [f"x[{k}]" for k in range(inputs)], ())
    lines += [f"y[{k}] = {result};" for k, result in enumerate(results)]
    written = [
        *_head(name, (), facts),
        "    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {",
        *[f"        {line}" for line in lines], "    }", "};", "",
    ]  # fmt: skip
    return Functor(name, "\n".join(written), (), inputs, outputs, strided=strided, scalars=scalars, sums=sums)


def over_lists(name: str, outputs: Mapping[str, Expression], inputs: Sequence[str]) -> Functor:
    """The functor of foreach.cu: x[0], x[1], ... are elements of the lists.

    `outputs` has results by the names of their lists. Those that are no inputs come first.
    """
    new = [out for out in outputs if out not in inputs]
    lists = [*new, *inputs]
    program = lowered([*outputs.values()], inputs, double=True)
    lines, results = _statements(program, [f"x[{lists.index(x)}]" for x in inputs], program.numbers)
    targets = [f"x[{lists.index(out)}]" for out in outputs]
    if len(results) == 1:
        lines.append(f"{targets[0]} = {results[0]};")
    else:  # all results, before an element is written
        lines += [f"const W y{k} = {result};" for k, result in enumerate(results)]
        lines += [f"{target} = y{k};" for k, target in enumerate(targets)]
    reads = sum([1 << lists.index(x) for x in inputs])
    writes = sum([1 << lists.index(out) for out in outputs])
    live = "".join([f" n{k} = W(live[{k}]);" for k in range(len(program.numbers))])
    written = [
        f"// {', '.join([f'x[{k}] = {x}' for k, x in enumerate(lists)])}",
        *_head(name, program.numbers, f"int LISTS = {len(lists)}, READS = {reads}, WRITES = {writes}"),
        "    __device__ void operator()(W (&x)[LISTS]) const {", *[f"        {line}" for line in lines], "    }",
        f"    __device__ void renew(const double* live) {{{live} }}", "};", "",
    ]  # fmt: skip
    return Functor(name, "\n".join(written), program.numbers, len(inputs), len(outputs), len(lists))


def activation(name: str, value: Expression, slope: Expression, saved: str = "x") -> Functor:
    """The functor of bias_activation.cu and second_order.cu, with what these need beside the value.

    slope is the derivative of `value`, a function of x, in terms of `saved`: of x, or of the result, y. The members are
    value(x); pull(g, s), g times the slope; bend(s), the derivative of the slope by `saved`; and twist(s), the
    derivative of the second derivative by `saved`. A flat activation, whose bend is zero, has neither of the last two.
    """
    from_result = saved != "x"
    bend = derivative(slope, saved)
    twist = derivative(times(bend, slope) if from_result else bend, saved)
    members = [("value", [value], ["x"]), ("pull", [times(element("g"), slope)], ["g", saved])]
    flat = bend is ZERO
    members += [] if flat else [("bend", [bend], [saved]), ("twist", [twist], [saved])]
    programs = [lowered(outputs, inputs, double=True) for _, outputs, inputs in members]
    numbers = tuple(dict.fromkeys([number for program in programs for number in program.numbers]))
    facts = f"bool FROM_RESULT = {str(from_result).lower()}, FLAT = {str(flat).lower()}"
    written = [f"// {text(written_out(value))}", *_head(name, numbers, facts)]
    for (member, _, inputs), program in zip(members, programs, strict=True):
        lines, (result,) = _statements(program, inputs, numbers)
        head = f"    __device__ W {member}({', '.join([f'W {i}' for i in inputs])}) const {{"
        body = [*lines, f"return {result};"]
        short = f"{head} {body[0]} }}"
        alone = len(body) == 1 and len(short) <= LINE
        written += [short] if alone else [head, *[f"        {line}" for line in body], "    }"]
    return Functor(name, "\n".join([*written, "};", ""]), numbers, from_result=from_result, flat=flat)


def _head(name: str, numbers: Sequence[Expression], facts: str) -> list[str]:
    """A functor's first lines. An empty struct would be passed as a byte, so one without numbers has a member, too."""
    members = [f"n{k}" for k in range(len(numbers))]
    listed = ", ".join([f"{n} = {text(number)}" for n, number in zip(members, numbers, strict=True)])
    return [*[f"// {listed}"][: len(members)], f"template <typename W> struct {name} {{",
            f"    static constexpr {facts};", f"    W {', '.join(members) or 'unused'};"]  # fmt: skip


# ---- statements ----------------------------------------------------------------------------------------

Written = tuple[str, int]  # an expression in C++, and how tightly it binds


def _statements(program: Program, inputs: Sequence[str], numbers: Sequence[Expression]) -> tuple[list[str], list[str]]:
    """Definitions of locals, and the outputs, which may refer to them."""
    uses = Counter([*program.outputs, *[a for i in program.instructions for a in i.args]])
    known: dict[Operand, Written] = {Operand("i", k): (name, ATOM) for k, name in enumerate(inputs)}
    known |= {Operand("n", k): (f"n{numbers.index(number)}", ATOM) for k, number in enumerate(program.numbers)}
    known |= {Operand("c", k): (_constant(value), ATOM) for k, value in enumerate(program.constants)}
    lines = []
    for k, instruction in enumerate(program.instructions):
        operand = Operand("t", k)
        known[operand] = _written(program, instruction, [known[a] for a in instruction.args])
        if uses[operand] > 1:
            kind = "bool" if instruction.is_condition else "W"
            lines.append(f"const {kind} {operand} = {known[operand][0]};")
            known[operand] = str(operand), ATOM
    return lines, [known[o][0] for o in program.outputs]


def _constant(value: float) -> str:
    """A number in the type of the computation: a literal alone would be double."""
    if math.isnan(value):
        return "W(__int_as_float(0x7fc00000))"
    if math.isinf(value):
        return f"W({'-' * (value < 0)}__int_as_float(0x7f800000))"
    return f"W({repr(value).removesuffix('.0')})"


def _written(program: Program, instruction: Instruction, args: Sequence[Written]) -> Written:
    op = instruction.op
    if op == "neg":
        return f"-{_inside(args[0], ATOM)}", SIGN
    if op == "select":
        condition, a, b = [_inside(arg, OR) for arg in args]
        return f"{condition} ? {a} : {b}", CHOICE
    if op == "div" and _is_of_a_sigmoid(program, instruction.args[1]):
        if args[0][0] == "W(1)":
            return f"reciprocal({args[1][0]})", ATOM
        return f"quotient({args[0][0]}, {args[1][0]})", ATOM
    if op in INFIX:
        binds = BINDS.get(op, COMPARISON)
        left = binds if binds in (SUM, PRODUCT) else binds + 1
        return f"{_inside(args[0], left)} {SYMBOLS[op]} {_inside(args[1], binds + 1)}", binds
    return CALLS[op].format(*[written for written, _ in args]), ATOM


def _inside(written: Written, binds: int) -> str:
    return written[0] if written[1] >= binds else f"({written[0]})"


def _is_of_a_sigmoid(program: Program, divisor: Operand) -> bool:
    """Whether it is e = exp(z), 1 + e, or 1 + 1 / e: what lowering makes of a sigmoid."""
    op, args = _instruction(program, divisor)
    if op == "add":
        op, args = _instruction(program, args[0])
        if op == "div":
            op, _ = _instruction(program, args[1])
    return op == "exp"


def _instruction(program: Program, operand: Operand) -> Instruction:
    return program.instructions[operand.place] if operand.kind == "t" else Instruction("", ())
