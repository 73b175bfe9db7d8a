"""Code of ops from formulas by dtype, attributes and size."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu.half_table import MANY
from autograd_gpu.backend.formulas.expression import element, maximum, number
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.formulas.numpy_code import NumpyCode
from autograd_gpu.core.declare import formula_codes
from autograd_gpu.core.declare.formula_codes import FEW, Codes, Forwards
from autograd_gpu.core.declare.op import RAW

pytestmark = pytest.mark.cpu


def codes_of(op, factors=(), order=0):
    return Codes(op.family, "test", ((factors, order),))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", ["gelu", "sigmoid", "silu"])
def test_few_elements_are_those_of_many_but_for_the_last_digits(name, dtype):
    x = np.linspace(-9, 9, FEW + 1).astype(dtype)
    many, few = getattr(RAW, name)(x), getattr(RAW, name)(x[:FEW])
    assert few.dtype == many.dtype
    np.testing.assert_allclose(few, many[:FEW], rtol={2: 1e-3, 4: 4e-6, 8: 1e-14}[x.itemsize], atol=0)


def test_formulas_without_functions_of_scipy_have_one_code():
    codes = codes_of(ag.elu)
    code, _ = codes[np.dtype("f4"), 1.0]
    assert code.program.numbers == ()  # alpha is 1
    assert codes[np.dtype("f4"), 0.5][0] is codes[np.dtype("f4"), 0.25][0]
    assert codes[np.dtype("f4"), 0.5][1] != codes[np.dtype("f4"), 0.25][1]


def test_numbers_of_many_attributes_are_forgotten(monkeypatch):
    monkeypatch.setattr(formula_codes, "MOST", 3)
    codes = codes_of(ag.elu)
    for alpha in range(2, 9):
        code, numbers = codes[np.dtype("f8"), alpha]
        assert code([np.array([-1.0])], numbers)[0][0] == alpha * np.expm1(-1.0)
    assert len(codes) <= 3


def test_many_halves_are_looked_up():
    x = np.random.default_rng(0).standard_normal(MANY).astype(np.float16)
    np.testing.assert_array_equal(RAW.softplus(x, 2.0)[:300], RAW.softplus(x[:300], 2.0))


def test_integers_take_a_way_of_their_own():
    for dtype in (np.int64, np.uint8, np.bool_):
        x = np.array([0, 1], dtype)
        assert RAW.relu(x).dtype == dtype
    with pytest.raises(RuntimeError, match="unsigned type with negative"):
        RAW.hardtanh(np.array([1], np.uint8))


@pytest.mark.parametrize(("name", "ufunc"), [("relu", np.maximum), ("tanh", np.tanh), ("silu", None)])
def test_a_formula_of_one_operation_is_the_ufunc_itself(name, ufunc):
    op, dtype, x = getattr(RAW, name), np.dtype("f4"), np.linspace(-3, 3, 7, dtype="f4")
    codes = codes_of(getattr(ag, name))
    assert codes.compiled((), dtype, (), False).ufunc is ufunc
    code, numbers = codes[dtype]
    if ufunc is not None:
        np.testing.assert_array_equal(code((x,), numbers)[0], ufunc(x, *numbers))
    assert isinstance(op(x[0].reshape(())), np.ndarray)


@pytest.mark.parametrize("name", ["relu", "softsign", "elu", "sigmoid", "gelu"])
def test_the_short_way_of_few_elements_has_the_bits_of_the_code(name):
    x = np.linspace(-99, 99, 61, dtype="f4")
    codes = codes_of(getattr(ag, name))
    key = {"elu": (x.dtype, 1.5), "gelu": (x.dtype, "none")}.get(name, x.dtype)
    few, most, _, code, numbers = Forwards(codes)[key]
    assert most >= FEW
    np.testing.assert_array_equal(few(x), code((x,), numbers)[0])
    assert Forwards(codes)[(np.dtype("f2"), *key[1:]) if isinstance(key, tuple) else np.dtype("f2")][:2] == (None, -1)


def test_an_operation_of_other_operands_is_no_ufunc():
    x = element("x")
    programs = [[number(2.0) / x], [maximum(x, number(0.0)), x], [maximum(number(0.0), x)], [x]]
    assert [NumpyCode("test", lowered(outputs, ["x"]), np.float32).ufunc for outputs in programs] == [None] * 4
