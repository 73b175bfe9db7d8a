"""Functors of ops from formulas, by order, options and numbers."""

import pytest

import autograd_gpu as ag
from autograd_gpu.core.declare.formula_cuda import CudaCode, gradients_of, products_of

pytestmark = pytest.mark.cpu


def test_products_of_an_order():
    assert (products_of(0), products_of(2)) == ((((), 0),), ((("h",), 2),))
    assert gradients_of(1) == ((("g",), 1), (("g", "h"), 2))


def test_functors_are_named_by_op_and_options():
    code = CudaCode(ag.leaky_relu.family)
    assert code.applied(0, 0.1).functor.name == "LeakyRelu"
    assert code.applied(1, 0.1, gradients=True).functor.name == "LeakyReluGradGradients"
    steep = code.applied(0, 2.0)  # a slope above 1 is another formula
    assert steep.functor.name not in ("LeakyRelu", code.applied(1, 0.1).functor.name)
    assert steep.functor.name.startswith("LeakyRelu")


def test_numbers_are_values_and_not_functors():
    code = CudaCode(ag.elu.family)
    a, b = code.applied(0, 0.5), code.applied(0, 0.25)
    assert a.functor is b.functor
    assert (a.values, b.values) == ((0.5,), (0.25,))


def test_a_formula_is_compiled_with_its_first_derivative_and_a_higher_order_by_itself():
    code = CudaCode(ag.silu.family)
    first = [functor.name for functor in code.applied(0).together]
    assert first == ["Silu", "SiluGrad", "SiluGradGradients"]
    assert code.applied(1).together == code.applied(0).together
    assert code.applied(2).together[0].name == "SiluDerivative2"


def test_an_activation_has_one_functor_for_three_derivatives():
    text = CudaCode(ag.silu.family).activation().functor.text
    assert all(f" {member}(" in text for member in ("value", "pull", "bend", "twist"))
