"""Numbers that know how they follow from sizes: their values, formulas, and what is told of their use."""

import math
import operator
import pickle

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from autograd_gpu.core.interpret.sized import Formula, Polynomial, Sized, SizedInt, SizeNumber, plain

pytestmark = pytest.mark.cpu
SIZES = (7, 3)


class Told:
    """What is told, in order."""

    def __init__(self):
        self.lines = []

    def tested(self, text, result):
        self.lines.append(("tested", text, result))

    def computed(self, value, text):
        self.lines.append(("computed", text, value))

    def taken(self, text):
        self.lines.append(("taken", text))


@pytest.fixture
def told():
    return Told()


def sizes(kind, told):
    return [kind(n, f"s{i}", Polynomial.size(i), told) for i, n in enumerate(SIZES)]


OPERATIONS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
small = st.integers(-5, 5)
expressions = st.recursive(
    st.one_of(st.sampled_from(["a", "b"]), small), lambda inner: st.tuples(st.sampled_from(OPERATIONS), inner, inner),
    max_leaves=6,
)  # fmt: skip


def computed(expression, a, b):
    if isinstance(expression, tuple):
        operation, left, right = expression
        x, y = computed(left, a, b), computed(right, a, b)
        assume(not (type(x) is float and isinstance(y, SizedInt)))  # a float does not ask an int on its right
        return operation(x, y)
    return {"a": a, "b": b}.get(expression, expression)


@pytest.mark.parametrize("kind", [SizedInt, SizeNumber])
@example((operator.add, "a", (operator.truediv, 1, 2)))
@given(expressions)
def test_formulas_hold_for_other_sizes(kind, expression):
    """A number has the value that plain ints give, and its formula that of others."""
    try:
        expected, others = computed(expression, *SIZES), computed(expression, 12, 5)
    except ZeroDivisionError:
        return
    result = computed(expression, *sizes(kind, Told()))
    assert plain(result) == expected
    assert type(plain(result)) is type(expected)
    if isinstance(result, Sized):
        assert Formula(result.text).at((12, 5)) == others
        if result.polynomial is not None:
            assert result.polynomial.at((12, 5)) == others
    else:
        assert expected == others  # the sizes cancel


def test_conditions_are_told(told):
    a, b = sizes(SizeNumber, told)
    assert a > b
    assert a + 1 > a  # for all sizes, so nobody is told
    assert told.lines[0] == ("tested", "(s0 > s1)", True)
    assert [line[0] for line in told.lines] == ["tested", "computed"]


@pytest.mark.parametrize("use", [range, hash, repr, float, math.sqrt, list(range(9)).__getitem__, pickle.dumps, round],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_a_plain_number_is_not_had_without_a_word(use, told):
    use(sizes(SizeNumber, told)[0])
    assert ("taken", "s0") in told.lines


def test_it_passes_for_an_int(told):
    a = sizes(SizeNumber, told)[0]
    assert isinstance(a, int)
    assert plain([a, (a * 2, {"n": a}), slice(a)]) == [7, (14, {"n": 7}), slice(7)]
    assert [line[0] for line in told.lines] == ["computed"]


def test_polynomials():
    n, m = Polynomial.size(0), Polynomial.size(1)
    area = n.plus(Polynomial.constant(2)).times(m)
    assert (repr(area), area.at(SIZES)) == ("(2 * s1 + s0 * s1)", 27)
    assert area.divided(m) == n.plus(Polynomial.constant(2))
    assert area.divided(n) is None
    assert area.plus(area, -1).is_constant
