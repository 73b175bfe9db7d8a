"""Derivatives of expressions, against mpmath's numerical ones, and as text."""

import mpmath
import pytest
from hypothesis import assume, given, settings
from scalar_formulas import EXPRESSIONS, FORMULAS, exact

from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.derivative import derivative, pruned
from autograd_gpu.backend.formulas.expression import ZERO, element, listing, number, select, text

pytestmark = pytest.mark.cpu
x, y, k = element("x"), element("y"), number("k")

PRINTED = {
    ("silu", 1): "out = sigmoid(x) * (1 + x * sigmoid(-x))",
    ("silu", 2): "v0 = sigmoid(x)\nv1 = sigmoid(-x)\nout = v0 * v1 * (x * (v1 - v0) + 2)",
    ("gelu", 1): "out = normal_cdf(x) + x * exp(x * x * -0.5) * 0.3989422804014327",
    ("gelu", 2): "v0 = x * x\nout = (2 - v0) * exp(v0 * -0.5) * 0.3989422804014327",
    ("gelu", 3): "v0 = x * x\nout = x * (v0 - 4) * exp(v0 * -0.5) * 0.3989422804014327",
    ("tanh", 1): "v0 = tanh(x)\nout = 1 - v0 * v0",
    ("elu", 3): "out = select(x <= 0, exp(x) * alpha, 0)",
    ("softplus", 1): "v0 = x * beta\nout = select(v0 > threshold, 1, sigmoid(v0))",
    ("softplus", 2): "v0 = x * beta\nout = select(v0 > threshold, 0, sigmoid(v0) * sigmoid(-v0) * beta)",
}  # fmt: skip


@pytest.mark.parametrize(("name", "order"), PRINTED)
def test_derivatives_read_as_by_hand(name, order):
    assert listing({"out": FORMULAS[name].derived((order,))}) == PRINTED[name, order]


def test_the_formula_itself_is_not_simplified():
    e = (x - y) + (x - y)
    assert text(e * e) == "(x - y + (x - y)) * (x - y + (x - y))"
    assert text(derivative(e * e, "x")) == "(x - y + (x - y)) * 4"


def test_what_is_zero_is_the_constant_zero():
    assert derivative(select(x > 0, x, x * k), "y") is ZERO
    assert derivative(derivative(select(x > 0, x, x * k), "x"), "x") is ZERO
    assert FORMULAS["lerp"].derived((0, 0, 2)) is ZERO


def test_a_choice_inside_of_the_same_choice_is_dropped():
    inner = select(x > 0, y, language.exp(y))
    assert pruned(select(x > 0, inner * 2, inner)) is select(x > 0, y * 2, language.exp(y))


def test_lerp_reads_the_weight_alone_for_its_ends():
    for alpha in ((1, 0, 0), (0, 1, 0)):
        assert language.inputs_of([FORMULAS["lerp"].derived(alpha)]) == ["weight"]


POINTS = [-30.0, -3.0, -0.7, -1e-3, 0.4, 1.9, 9.0, 19.0]


@pytest.mark.parametrize("name", [name for name, f in FORMULAS.items() if len(f.inputs) == 1])
def test_three_derivatives_against_numerical_ones(name):
    formula = FORMULAS[name]
    with mpmath.workdps(60):
        for point in POINTS:
            for order in (1, 2, 3):
                values = {n: mpmath.mpf(v) for n, v in formula.numbers.items()}
                value = formula.derived((0,))
                def at(t, value=value, values=values): return exact(value, {"x": t, **values})
                numeric = mpmath.diff(at, point, order, h=mpmath.mpf(10) ** -15)
                result = exact(formula.derived((order,)), {"x": point, **values})
                assert mpmath.almosteq(result, numeric, rel_eps=1e-10, abs_eps=1e-20), (point, order)


@given(EXPRESSIONS)
@settings(max_examples=60, deadline=None)
def test_random_formulas_have_their_mixed_derivatives(e):
    assume(language.inputs_of([e]))
    with mpmath.workdps(50):
        at = {"x": mpmath.mpf("0.375"), "y": mpmath.mpf("-0.8125"), "k": mpmath.mpf("1.25")}
        step = mpmath.mpf(10) ** -20
        for name, first in (("x", e), ("y", derivative(e, "x"))):
            result = exact(derivative(first, name), at)
            above, below = [exact(first, {**at, name: at[name] + s}) for s in (step, -step)]
            numeric = (above - below) / (2 * step)
            assert abs(result - numeric) <= mpmath.mpf(10) ** -15 * (1 + abs(numeric))
