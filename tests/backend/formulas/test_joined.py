"""Joined programs: what is shared, what is left out, and that nothing is lowered again."""

import pytest

from autograd_gpu.backend.formulas.expression import element, number, sigmoid
from autograd_gpu.backend.formulas.joined import Joined
from autograd_gpu.backend.formulas.lowering import Operand, lowered

pytestmark = pytest.mark.cpu
x, y, k = element("x"), element("y"), number("k")
A, B = Operand("i", 0), Operand("i", 1)


def test_equal_instructions_are_one_and_unneeded_ones_none():
    joined = Joined()
    (first,) = joined.add(lowered([x * y + 1], ["x", "y"]), [A, B])
    (second,) = joined.add(lowered([x * y - 1], ["x", "y"]), [A, B])
    joined.add(lowered([x / y], ["x", "y"]), [first, second])
    program = joined.program(2, 0, [second, first])
    assert [i.op for i in program.instructions] == ["mul", "add", "sub"]
    assert program.outputs == (Operand("t", 2), Operand("t", 1))
    assert program.constants == (1.0,)


def test_zeros_of_different_sign_are_two_constants():
    joined = Joined()
    outputs = [joined.add(lowered([x + c], ["x"]), [A])[0] for c in (0.0, -0.0)]
    assert [str(c) for c in joined.program(1, 0, outputs).constants] == ["0.0", "-0.0"]


def test_numbers_become_constants_and_operands_may_be_numbers_of_the_whole():
    joined = Joined()
    outputs = joined.add(lowered([x * k], ["x"]), [Operand("n", 0)], [2.5])
    program = joined.program(0, 1, outputs)
    assert (program.constants, len(program.numbers)) == ((2.5,), 1)
    assert program.instructions[0].args == (Operand("n", 0), Operand("c", 0))


def test_a_formula_stays_what_it_is_by_itself():
    """Together, x * sigmoid(x) and sigmoid(x) would share a quotient, and have other bits."""
    alone, joined = lowered([x * sigmoid(x)], ["x"]), Joined()
    outputs = joined.add(alone, [A]) + joined.add(lowered([sigmoid(x)], ["x"]), [A])
    ops = [i.op for i in joined.program(1, 0, outputs).instructions]
    assert ops.count("div") == 2
    assert ops.count("exp") == 1
    assert [i.op for i in lowered([x * sigmoid(x), sigmoid(x)], ["x"]).instructions].count("div") == 1
