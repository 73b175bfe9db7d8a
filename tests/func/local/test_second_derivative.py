"""Which calls have a second derivative, and what the second derivative of one call is."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.tape import Taping
from autograd_gpu.func.local import second_derivative as module
from autograd_gpu.func.local.second_derivative import (
    activation_of,
    has_second_derivative,
    push_batched,
    second_derivative,
    slopes,
)

pytestmark = pytest.mark.cpu

W = ag.tensor(np.random.default_rng(0).normal(size=(3, 3)))


def last_call(f, shape=(3,)):
    """The last call of f(x) on a tape, and which of its inputs depend on x."""
    x = ag.tensor(np.random.default_rng(1).normal(size=shape))
    with entered(Taping("test", "another", reverse=True)) as tape:
        tape.add(x)
        f(x)
        taped = tape.calls[-1]
    return taped.call, [i for i, place in enumerate(taped.inputs) if place is not None]


FLAT = {
    "add": lambda x: x + x, "relu": ag.relu, "abs": ag.abs, "where": lambda x: ag.where(x > 0, x, -x), "sum": ag.sum,
    "linear": lambda x: nn.functional.linear(x, W, W[0]), "mul by a constant": lambda x: x * W[0],
    "fused relu": lambda x: nn.functional.linear_activation(x, W, W[0], "relu"), "sort": lambda x: x.sort()[0],
    "leaky_relu": nn.functional.leaky_relu, "hardtanh": nn.functional.hardtanh, "max": lambda x: x.max(),
    "cat": lambda x: ag.cat([x, x]), "getitem": lambda x: x[[2, 0]], "cumsum": lambda x: x.cumsum(0),
    "div by a constant": lambda x: x / W[0], "lerp": lambda x: ag.lerp(x, 2 * x, 0.3),
}  # fmt: skip
CURVED = {
    "mul": lambda x: x * x, "tanh": ag.tanh, "softmax": lambda x: x.softmax(0), "div": lambda x: W[0] / x,
    "square": lambda x: x**2, "logsumexp": lambda x: x.logsumexp(0), "norm": lambda x: x.norm(),
    "linear with a weight that moves": lambda x: nn.functional.linear(x, ag.outer(x, x), x),
    "matmul": lambda x: ag.outer(x, x) @ x, "fused silu": lambda x: nn.functional.linear_activation(x, W, W[0], "silu"),
    "layer_norm": lambda x: nn.functional.layer_norm(x, (3,)), "prod": lambda x: x.prod(), "var": lambda x: x.var(),
}  # fmt: skip


@pytest.mark.parametrize("f", FLAT.values(), ids=FLAT)
def test_flat_calls(f):
    assert not has_second_derivative(*last_call(f))


@pytest.mark.parametrize("f", CURVED.values(), ids=CURVED)
def test_calls_with_a_second_derivative(f):
    assert has_second_derivative(*last_call(f))


def test_the_answer_is_cached_by_what_it_may_depend_on(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "_BY_STRUCTURE", {})
    monkeypatch.setattr(module, "_has_second_derivative_by_rules", lambda call, live: asked.append(call) or True)
    for shape in ((3,), (7,), (1,), (2, 3)):
        for exponent in (2, 3):
            has_second_derivative(*last_call(lambda x, e=exponent: x**e, shape))
    assert [call.inputs[1] for call in asked] == [2, 3] * 3  # 3 and 7 elements are alike
    monkeypatch.setattr(module, "MOST", 3)
    has_second_derivative(*last_call(lambda x: x**4))
    assert len(module._BY_STRUCTURE) == 1


@pytest.mark.parametrize("f", [ag.tanh, ag.sin, lambda x: x**3, nn.functional.silu, nn.functional.mish, ag.exp,
                               lambda x: 1 / x, lambda x: nn.functional.linear_activation(x, W, W[0], "gelu")])
def test_slopes_are_derivatives_of_each_element(f):
    call, live = last_call(f)
    first, second = slopes(call, live)
    ones = ag.ones(1, 3, dtype=ag.float64)
    tangents = [ones if i in live else None for i in range(len(call.inputs))]
    (pushed,) = push_batched(call, tangents, 1)
    np.testing.assert_allclose(first.numpy(), pushed[0].numpy(), rtol=1e-12)
    (own,) = second_derivative(call, tangents, tangents, [pushed], 1)
    np.testing.assert_allclose(second.numpy(), own[0].numpy(), rtol=1e-12)


def test_slopes_of_a_piecewise_linear_activation():
    assert slopes(*last_call(ag.relu))[1] is None


def test_activations_are_found_with_their_parameters():
    call, live = last_call(lambda x: nn.functional.elu(x, 0.5))
    result = activation_of(call, live)
    assert (result.name, result.parameters, result.bias) == ("elu", (0.5,), None)
    assert result.saved is call.inputs[0]
    call, live = last_call(lambda x: nn.functional.linear_activation(x, W, W[0], "softplus", beta=2.0))
    result = activation_of(call, live)
    assert (result.name, result.parameters) == ("softplus", (2.0, 20.0))
    assert result.bias is call.inputs[1]
    call, live = last_call(lambda x: nn.functional.linear_activation(x, W, x, "tanh"))
    assert activation_of(call, live) is None
    assert activation_of(*last_call(ag.sin)) is None
