"""Programs: their text, which is the key of caches, and what they compute."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from scalar_formulas import EXPRESSIONS, FORMULAS, exact

from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.expression import ON_HOST, element, number
from autograd_gpu.backend.formulas.lowering import OPERATIONS, lowered

pytestmark = pytest.mark.cpu
x, y, k = element("x"), element("y"), number("k")


def run(program, inputs, **numbers):
    """The program on Python's doubles, an operation at a time."""
    tables = {"i": inputs, "n": program.values(**numbers), "c": program.constants, "t": []}
    with np.errstate(all="ignore"):
        for instruction in program.instructions:
            assert instruction.op in OPERATIONS
            tables["t"].append(ON_HOST[instruction.op](*[tables[a.kind][a.place] for a in instruction.args]))
    return [tables[o.kind][o.place] for o in program.outputs]


SILU_GRAD = """\
i0 = input x
c0 = constant 0x1.0000000000000p+0
t0 = neg i0
t1 = exp t0
t2 = div c0 t1
t3 = add t2 c0
t4 = div i0 t3
t5 = add c0 t4
t6 = add t1 c0
t7 = div t5 t6
return t7"""


def test_the_sigmoids_of_x_and_minus_x_share_one_exponential():
    assert lowered([FORMULAS["silu"].derived((1,))], ["x"]).text == SILU_GRAD


def test_a_partner_may_stand_behind_the_sigmoid_that_shares_its_exponential():
    x = element("x")
    pair = [-x, language.select(x < 0.25, x, x)]
    for logits in (pair, pair[::-1]):
        program = lowered([language.sigmoid(e) for e in logits], ["x"])
        assert [i.op for i in program.instructions].count("exp") == 1


def texts(names):
    """The programs with the formula and its derivatives, made in the order of the names."""
    made = {}
    for name in names:
        formula = FORMULAS[name]
        orders = [(k,) + (0,) * (len(formula.inputs) - 1) for k in (3, 2, 1, 0)]
        made[name] = lowered([formula.derived(order) for order in orders], formula.inputs).text
    return [made[name] for name in FORMULAS]


def test_the_text_is_the_same_in_every_process():
    """It must not depend on what was traced before: caches of machine code outlive the process."""
    program = "import test_lowering as t; print(*t.texts(reversed(t.FORMULAS)), sep='\\n')"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONPATH": paths})
    assert other.stdout.rstrip() == "\n".join(texts(FORMULAS))


def test_numbers_are_the_largest_expressions_of_numbers_alone():
    program = lowered([x * (1 - k) + language.select(k > 2, x, x * k)], ["x"])
    assert [str(n) for n in program.numbers] == ["1 - k", "k"]
    assert program.values(k=0.25) == (0.75, 0.25)
    assert run(program, [3.0], k=0.25) == [3 * 0.75 + 3 * 0.25]


def test_outputs_may_be_inputs_numbers_and_each_other():
    program = lowered([y, k + 1, x * y, x * y], ["x", "y", "unused"])
    assert program.text.endswith("t0 = mul i0 i1\nreturn i1 n0 t0 t0")
    assert run(program, [2.0, 3.0, 0.0], k=1.0) == [3.0, 2.0, 6.0, 6.0]
    assert {str(a): last for a, last in program.last_uses.items()} == {"i0": 0, "i1": 1, "n0": 1, "t0": 1}


def test_normal_cdf_is_an_operation_in_double_only():
    assert "normal_cdf" not in lowered([language.normal_cdf(x)], ["x"]).text
    assert "normal_cdf" in lowered([language.normal_cdf(x)], ["x"], double=True).text


@given(EXPRESSIONS)
@settings(max_examples=60, deadline=None)
def test_random_programs_compute_their_expressions(e):
    values = {"x": 0.375, "y": -0.8125, "k": 1.25}
    (result,) = run(lowered([e], ["x", "y"], double=True), [values["x"], values["y"]], k=values["k"])
    assert float(result) == pytest.approx(float(exact(e, values)), rel=1e-11, abs=1e-11)
