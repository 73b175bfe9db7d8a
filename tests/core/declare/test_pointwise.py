"""Ops from formulas: derivatives of every order, what they save, and what a block cannot say."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from scalar_formulas import EXPRESSIONS, exact

import autograd_gpu as ag
from autograd_gpu.backend.formulas import cuda_code
from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.derivative import derivative, substituted
from autograd_gpu.backend.formulas.formula import Formula
from autograd_gpu.core.declare.op import RAW, RECORD, REGISTRY
from autograd_gpu.core.declare.pointwise import Family
from autograd_gpu.core.dispatch import pointwise
from autograd_gpu.errors import OpDeclarationError
from autograd_gpu.ops.nn.activation import silu_grad

POINTS = [-6.0, -1.5, -0.1, 0.0, 0.3, 2.0, 8.0]


def nested(function, x, order):
    """[f, f', f'', ...] by reverse mode above reverse mode."""
    results = [function(x)]
    for _ in range(order):
        results += ag.autograd.grad(results[-1].sum(), x, create_graph=True)
    return [r.detach().cpu().numpy() for r in results]


def test_derivatives_of_four_orders(device):
    x = ag.tensor(POINTS, dtype=ag.float64, device=device, requires_grad=True)
    formula = ag.silu.family.formula
    for order, result in enumerate(nested(ag.silu, x, 4)):
        expected = [float(exact(formula.derived((order,)), {"x": mpmath.mpf(p)})) for p in POINTS]
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-16)


def test_tangents_batches_and_recorded_gradients_of_the_second_order(device):
    x = ag.tensor(POINTS, dtype=ag.float64, device=device, requires_grad=True)
    by_reverse = nested(ag.silu, x, 2)[2]
    slope = ag.func.grad(ag.silu)
    np.testing.assert_allclose(ag.func.vmap(ag.func.grad(slope))(x.detach()).cpu().numpy(), by_reverse, rtol=1e-13)
    by_forward = ag.func.jvp(ag.func.vmap(slope), (x.detach(),), (ag.ones_like(x),))[1]
    np.testing.assert_allclose(by_forward.cpu().numpy(), by_reverse, rtol=1e-13)
    assert ag.autograd.gradcheck(lambda h, x: ag.autograd.grad((ag.silu(x) * h).sum(), x, create_graph=True)[0].sin(),
                                 (ag.ones_like(x).requires_grad_(), x))


@pytest.mark.parametrize("dtype", [ag.float16, ag.bfloat16])
def test_half_types_are_computed_in_float32(device, dtype):
    x = ag.tensor([-200.0, -3.0, 0.5, 300.0], dtype=dtype, device=device, requires_grad=True)
    wide = x.detach().float().requires_grad_()
    for half, full in zip(nested(ag.silu, x, 3), nested(ag.silu, wide, 3), strict=True):
        np.testing.assert_array_equal(half, full.astype(half.dtype))


def test_both_gradients_of_a_gradient_are_those_of_the_rules(device):
    rng = np.random.default_rng(0)
    h, x, g = [ag.tensor(rng.standard_normal(300), device=device, requires_grad=True) for _ in range(3)]
    out = silu_grad(h, x)
    fused = ag.autograd.grad(out, (h, x), g, retain_graph=True)
    recorded = ag.autograd.grad(out, (h, x), g, create_graph=True)
    for a, b in zip(fused, recorded, strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-5, atol=1e-7)


def test_ops_of_higher_order_are_declared_once_and_not_listed():
    name = ag.silu.family.at(RAW, 2)
    assert ag.silu.family.at(RAW, 2) is name
    assert "silu_derivative_2" not in REGISTRY
    assert REGISTRY["silu_grad"].asked(REGISTRY["silu_grad"].rules["h"]) == [("x", "input", "x")]


def declared(**body):
    return pointwise(type("wrong_formula", (), {"__doc__": "An op for a test.", **body}))


@pytest.mark.parametrize(("body", "message"), [
    ({}, "either formula or derivative_of"),
    ({"formula": lambda x: x, "derivative_of": ag.silu}, "either formula or derivative_of"),
    ({"formula": lambda x: x, "forward": lambda xp, x: x}, "forward follows from the formula"),
    ({"formula": lambda z: z}, "the element of its formula is to be named x"),
    ({"formula": lambda a, b: a + b, "by_result": lambda out: out}, "by_result is for a formula of one element"),
    ({"formula": lambda a, b, *, option=True: a + b}, "a formula of several elements has no options"),
    ({"formula": lambda a, b: a * language.exp(b)}, r"the derivative by a is g \* exp\(b\); only arithmetic"),
    ({"formula": lambda x: x, "by_result": lambda x: x}, "by_result is a formula of the result, out"),
    ({"derivative_of": ag.silu, "check": lambda: None}, "check belongs to the block with the formula"),
])  # fmt: skip
def test_a_block_that_contradicts_itself_is_an_error(body, message):
    with pytest.raises(OpDeclarationError, match=message):
        declared(**body)
    assert "wrong_formula" not in REGISTRY


def scratch_family(name, formula, **words):
    """The family of an op that is not in REGISTRY."""
    family = Family(name, Formula(formula, name), **words)
    Family.declare(family.block(name, 0, {"__doc__": "An op for a test.", "__module__": __name__}))
    return family


def random_family(e):
    """An expression as a formula of x and k = 1.25, and its family."""
    e = substituted(e, {"y": 0.5 * language.element("x") + 1}) + language.element("x")
    assume(derivative(e, "x") is not language.ZERO)
    name = f"random_{len(vars(RAW))}"
    return e, scratch_family(name, lambda x, *, k=1.25: e)


@pytest.mark.cpu
def test_a_derivative_that_is_zero_everywhere_is_to_be_declared():
    family = scratch_family("scratch_constant", lambda x: -x + x)
    x = ag.ones(3, requires_grad=True)
    with pytest.raises(OpDeclarationError, match="op scratch_constant: its derivative is zero everywhere; say grad_x"):
        family.of(RECORD)(x).sum().backward()


@pytest.mark.cpu
@given(EXPRESSIONS)
@settings(max_examples=15, deadline=None)
def test_three_derivatives_of_random_formulas(e):
    """Recorded, against differences in exact arithmetic, which know no rule."""
    e, family = random_family(e)
    points = [-0.8125, 0.375]
    x = ag.tensor(points, dtype=ag.float64, requires_grad=True)
    results = [family.of(RECORD)(x)]
    for _ in range(3):
        y = results[-1]
        results.append(ag.autograd.grad(y.sum(), x, create_graph=True)[0] if y.requires_grad else ag.zeros_like(x))
    with mpmath.workdps(40):
        for order, result in enumerate(results):
            expected = [float(mpmath.diff(lambda t: exact(e, {"x": t, "k": 1.25}), p, order)) for p in points]
            np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.cpu
@given(EXPRESSIONS)
@settings(max_examples=15, deadline=None)
def test_gradients_of_random_formulas_in_both_modes_and_by_batches(e):
    """Of the op, and of its first and second derivative by both inputs, in passes of both gradients and by rules."""
    e, family = random_family(e)
    x, h = [ag.tensor(values, dtype=ag.float64, requires_grad=True) for values in ([-0.8125, 0.375], [1.5, -0.25])]
    assert ag.autograd.gradcheck(family.of(RECORD), x, check_forward_ad=True, check_batched_grad=True)
    assume(derivative(derivative(e, "x"), "x") is not language.ZERO)
    slope = family.at(RECORD, 1)
    assert ag.autograd.gradcheck(slope, (h, x), check_forward_ad=True, check_batched_grad=True)
    assert ag.autograd.gradgradcheck(slope, (h, x))


def test_a_derivative_by_the_result_saves_the_result(device):
    family = scratch_family("square_root", language.sqrt, by_result=lambda out: 0.5 / out)
    x = ag.tensor([4.0, 9.0], dtype=ag.float64, device=device, requires_grad=True)
    results = nested(RECORD.square_root, x, 3)
    a = np.array([4.0, 9.0])
    for result, expected in zip(results, [a**0.5, a**-0.5 / 2, -(a**-1.5) / 4, a**-2.5 * 3 / 8], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-14)
    assert (family.saved, family.bends) == ("out", True)
    assert RECORD.square_root(x).grad_fn._saved_result is not None
    assert not hasattr(RECORD.square_root(x).grad_fn, "_saved_self")


def test_wrong_attributes_are_an_error_at_each_call(device):
    def check(k):
        if k < 0:
            raise RuntimeError("k is negative")

    scratch_family("checked", lambda x, *, k=1.0: x * k, check=check)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="k is negative"):
            RECORD.checked(ag.ones(2, device=device), -1.0)
    assert RECORD.checked(ag.ones(2, device=device), 3).tolist() == [3, 3]


@pytest.mark.cuda
def test_a_program_is_lowered_once(monkeypatch, device):
    lowered, programs = cuda_code.lowered, []
    monkeypatch.setattr(cuda_code, "lowered", lambda *a, **how: programs.append(lowered(*a, **how)) or programs[-1])
    x, counts = ag.ones(3, device=device, requires_grad=True), []
    for _ in range(2):
        y = ag.nn.functional.logsigmoid(x)
        for _ in range(4):  # up to an order that no other test asks for
            (y,) = ag.autograd.grad(y.sum(), x, create_graph=True)
        counts.append(len(programs))
    assert counts[0]
    assert counts[0] == counts[1] == len({program.text for program in programs})
