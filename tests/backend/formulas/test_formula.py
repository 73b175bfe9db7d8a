"""Formulas: what their signatures say, options, and numbers that are 1."""

import pytest

from autograd_gpu.backend.formulas.expression import maximum, select, with_derivative
from autograd_gpu.backend.formulas.formula import Formula

pytestmark = pytest.mark.cpu


def leaky(x, *, slope=0.01, gentle=lambda slope: 0 < slope <= 1):
    return maximum(x, x * slope) if gentle else select(x > 0, x, x * slope)


def test_an_option_may_follow_from_numbers():
    formula = Formula(leaky)
    assert (formula.numbers, formula.options) == ({"slope": 0.01}, {})
    assert formula.chosen({}) == formula.chosen({"slope": 0.5}) == (("gentle", True),)
    assert formula.chosen({"slope": 2}) == (("gentle", False),)
    assert str(formula.derived((0,), formula.chosen({"slope": 2}))) == "select(x > 0, x, x * slope)"
    assert str(formula.derived((0,))) == "maximum(x, x * slope)"


def test_a_number_that_is_1_leaves_no_product():
    formula = Formula(lambda x, *, a=1.0, b=2.0: x * a / a + b, "sum")
    assert str(formula.derived((0,), (), ("a",))) == "x + b"
    assert str(formula.derived((0,))) == "x * a / a + b"


def test_an_option_that_was_written_is_one_that_is_asked_for():
    formula = Formula(lambda x, *, kind="none": x if kind == "none" else -x, "either")
    assert [str(formula.derived((0,), formula.chosen({"kind": kind}))) for kind in ("none", "other")] == ["x", "-x"]


def test_a_stated_derivative_may_take_numbers():
    @with_derivative(lambda x, slope: select(x > 0, 1, slope))
    def larger(x, slope):
        return maximum(x, x * slope)

    formula = Formula(lambda x, *, slope=0.5: larger(x, slope) * 3, "larger")
    assert str(formula.derived((1,))) == "select(x > 0, 1, slope) * 3"
    with pytest.raises(TypeError, match="one for each stated derivative, and numbers after them"):
        Formula(lambda x, y: larger(x, y), "wrong").traced()
