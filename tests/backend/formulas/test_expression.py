"""The language of formulas: what is traced, what is refused, and how it is printed."""

import pytest

from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.expression import ONE, compare, constant, element, listing, number, on_host, text
from autograd_gpu.backend.formulas.formula import Formula

pytestmark = pytest.mark.cpu
x, y, k = element("x"), element("y"), number("k")


def test_equal_expressions_are_one_object():
    assert language.exp(x) * y is language.exp(x) * y
    assert x * y is not y * x
    assert constant(0.0) is not constant(-0.0)


def test_constants_are_computed_and_other_arithmetic_stays_as_written():
    assert (constant(3) - 2) is ONE
    assert text(x * 2 / 2 + 0) == "x * 2 / 2 + 0"
    assert x * 1 is 1 * x is x / 1 is x
    assert text((x - y) - (k - 1) / 2) == "x - y - (k - 1) / 2"
    assert text(-(x + y) * -x) == "-(x + y) * -x"


def test_division_of_constants_by_zero_is_that_of_doubles():
    assert (constant(1) / 0).value == float("inf")


@pytest.mark.parametrize(("formula", "message"), [
    (lambda x: 1 if x > 0 else 0, "instead of `if`, use select"),
    (lambda x: language.select(x == 0, 0, x), "equal.a, b. compares"),
    (lambda x: language.select(x, 0, 1), "needs a condition"),
    (lambda x: (x > 0) * x, "takes no condition"),
    (lambda x: x + "1", "works on numbers and expressions"),
    (lambda x: x**x, "exponent of pow must be a number"),
])  # fmt: skip
def test_what_a_formula_cannot_do_is_an_error_that_names_the_way(formula, message):
    with pytest.raises(TypeError, match=message):
        Formula(formula, "wrong").traced()


def test_a_formula_has_elements_numbers_and_options():
    def scaled(a, b, *, alpha, beta=2.0, mode="plain"):
        return a * alpha if mode == "plain" else {"first": a * beta, "second": b}

    formula = Formula(scaled)
    assert (formula.inputs, [*formula.numbers], formula.options) == (("a", "b"), ["alpha", "beta"], {"mode": "plain"})
    assert formula.traced() == {"out": element("a") * number("alpha")}
    assert formula.traced((("mode", "both"),)) == {"first": element("a") * number("beta"), "second": element("b")}
    with pytest.raises(TypeError, match="at least one"):
        Formula(lambda *a: a[0], "list")


def test_the_order_does_not_depend_on_what_was_traced_before():
    later = language.exp(element("order_b"))
    earlier = language.exp(element("order_a"))
    assert compare(earlier, later) == -1 == -compare(later, earlier)
    assert compare(earlier, earlier) == 0


def test_numbers_are_computed_on_the_host_in_double():
    e = 1 - k ** 2 / language.select(k > 3, k, 2)
    assert on_host(e, {"k": 3.0}) == 1 - 9 / 2
    assert on_host(e, {"k": 4.0}) == 1 - 16 / 4


def test_a_listing_names_what_is_used_twice():
    s = language.sigmoid(x)
    assert listing({"a": s * (1 - s), "b": y}) == "v0 = sigmoid(x)\na = v0 * (1 - v0)\nb = y"


def test_a_stated_function_counts_its_arguments():
    product = language.with_derivative(lambda a, b: b, lambda a, b: a)(lambda a, b: a * b)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        product(x)
