"""wide_rules: derivatives of half types in float32."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.declare.wide_rules import in_float32
from autograd_gpu.core.extend import RAW


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_gradient_and_a_tangent_are_rounded_once(dtype, device):
    values = np.array([-8.0, 0.5, 5.75, 300.0])
    x = ag.tensor(values, dtype=dtype, device=device, requires_grad=True)
    exact = ag.tensor(values, device=device, requires_grad=True)
    (expected,) = ag.autograd.grad(ag.nn.functional.mish(exact).sum(), exact)
    for create_graph in (False, True):
        (g,) = ag.autograd.grad(ag.nn.functional.mish(x).sum(), x, create_graph=create_graph)
        assert g.dtype == x.dtype
        assert g.tolist() == expected.to(g.dtype).tolist()
    _, tangent = ag.func.jvp(ag.nn.functional.mish, (x.detach(),), (ag.ones_like(x),))
    assert tangent.tolist() == expected.to(x.dtype).tolist()


@pytest.mark.cpu
def test_what_a_rule_gets_and_what_becomes_of_it():
    seen = []

    def rule(F, g, need, x, n):
        seen.append([getattr(value, "dtype", value) for value in (*g, need, x, n)])
        return g[1] * x, None

    half = np.ones(2, np.float16)
    first, second = in_float32(rule)(RAW, (None, half), (True, False), half, 3)
    assert seen == [[None, np.float32, (True, False), np.float32, 3]]
    assert (first.dtype, second) == (np.float16, None)
    assert in_float32(rule)(RAW, (None, np.ones(2)), (True, False), np.ones(2), 3)[0].dtype == np.float64
