"""Ops from formulas: derivatives of every order, what they save, and what a block cannot say."""

import mpmath
import numpy as np
import pytest
from scalar_formulas import exact

import autograd_gpu as ag
from autograd_gpu.backend.formulas import cuda_code
from autograd_gpu.core.declare.op import RAW, REGISTRY
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
    ({"formula": lambda a, b: a + b}, "formulas of one element, x"),
])  # fmt: skip
def test_a_block_that_contradicts_itself_is_an_error(body, message):
    with pytest.raises(OpDeclarationError, match=message):
        declared(**body)
    assert "wrong_formula" not in REGISTRY


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
