"""Formulas as calls of ufuncs for each element of lists."""

import numpy as np
import pytest

from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.list_code import ListCode

pytestmark = pytest.mark.cpu
X, Y = (np.float32([0.5, -2.0, 3.0]), np.float32([1.5, 0.25, -1.0]))
N = np.float32(0.3)
# A formula, its kinds of arguments, and what NumPy computes of the arrays.
FORMULAS = {
    "add": (lambda a, b, alpha: a + b * alpha, "lln", lambda a, b: a + b * N),
    "difference": (lambda a, b: a - b, "nl", lambda b: N - b),
    "inverse": (lambda a: 1 / a, "l", lambda a: np.float32(1) / a),
    "product": (lambda a, b, c: a + b * c, "lll", lambda a, b, c: a + b * c),
    "larger": (language.maximum, "ln", lambda a: np.maximum(a, N)),
    "root": (lambda a: 1 / language.sqrt(language.absolute(a)), "l", lambda a: np.float32(1) / np.sqrt(abs(a))),
}  # fmt: skip


def computed(calls, lists, numbers, dtype=None, out=()):
    arguments = [lists[a] if isinstance(a, int) else a for a in calls.arguments(numbers, dtype)]
    return [*map(calls.compute, *arguments, *out)]


@pytest.mark.parametrize("dtype", [np.dtype("f4"), None])
@pytest.mark.parametrize("name", FORMULAS)
def test_results_and_where_they_are_written(name, dtype):
    formula, kinds, function = FORMULAS[name]
    numbers = {f"a{k}": 0.3 for k, kind in enumerate(kinds) if kind == "n"}
    calls = ListCode(name, formula, kinds).chosen(numbers)
    lists = [[X, Y], [Y, X], [X + 1, Y + 1]][: kinds.count("l")]
    expected = [*map(function, *lists)]
    for result, right in zip(computed(calls, lists, numbers, dtype), expected, strict=True):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, right)
    targets = [np.empty_like(X), np.empty_like(X)]
    computed(calls, lists, numbers, dtype, [targets])
    np.testing.assert_array_equal(targets, expected)


def test_one_operation_is_the_ufunc_itself():
    for formula, kinds, ufunc, is_bare in (
        (lambda a, b: a * b, "ll", np.multiply, True), (lambda a, b: a * b, "nl", np.multiply, False),
        (lambda a: 1 / a, "l", np.divide, False), (lambda a, b, alpha: a - b * alpha, "ll1", np.subtract, True),
    ):  # fmt: skip
        calls = ListCode("test", formula, kinds).chosen({"a0": 2.0} if "n" in kinds else {})
        assert calls.compute is ufunc
        assert (calls.is_one, calls.is_bare) == (True, is_bare)


def test_a_choice_by_a_number_is_made_before_the_calls():
    near = language.absolute(language.number("a1")) < 0.5
    code = ListCode("test", lambda a, b: language.select(language.absolute(b) < 0.5, a, a * b), "ln")
    assert str(code.conditions[0]) == str(near)
    assert code.chosen({"a1": 0.75}).compute is np.multiply
    assert code.chosen({"a1": 0.25}) is None  # a itself is no call


def test_what_is_no_sequence_of_ufuncs():
    for formula in (lambda a: a, lambda a: language.select(a > 0, a, 0), lambda a: None):
        assert ListCode("test", formula, "l").chosen({}) is None
