"""Calls where a tape lies below one level of vmap: what takes one step, and that the general path agrees with it."""

import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.core.interpret.batched import Batching

pytestmark = pytest.mark.cpu
X = ag.tensor([[0.3, -0.5], [0.8, 0.1], [-0.7, 0.4]], dtype=ag.float64)
ROW = ag.tensor([[0.5, 2.0], [1.5, -1.0]], dtype=ag.float64)


def _single(row):
    return (row.to(ag.float32) * 2.0).tanh() * row  # a cast: the product promotes


def _hidden(row):
    with ag.no_grad():
        scale = row.detach() * 3.0
    return (row * scale).sin() * row


FUNCTIONS = {
    "alike": lambda row: (row * row.exp() + ROW[0]).tanh(),
    "ranks": lambda row: (row * ROW).sin(),  # a constant with more dimensions than an example
    "number": lambda row: (2.0 * row + 1.0).tanh() / 3.0,
    "integer": lambda row: (row * 2 + 1).sin(),
    "constant": lambda row: (ROW * ROW).sum() * row.sin(),  # calls without examples
    "weights": lambda row: ag.linear(row, row.outer(row), row).sin(),  # of each example
    "dtypes": _single,
    "hidden": _hidden,
    "array": lambda row: (row * ROW[0].numpy()).cos(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_each_row(name):
    f = FUNCTIONS[name]
    for method in ("push", "pull"):
        whole = func.vmap(func.hessian(f, method=method))(X)
        for row, one in zip(X, whole, strict=True):
            expected = func.hessian(f, method="nested")(row)
            assert ag.allclose(one, expected, rtol=1e-5 if name == "dtypes" else 1e-10), (name, method)


def test_a_network_takes_one_step_for_each_call(monkeypatch):
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 1)).to(ag.float64)
    expected = func.vmap(func.hessian(net))(X)

    def run(self, op, args, attributes):
        raise AssertionError(f"{op.name} takes the general path")

    monkeypatch.setattr(Batching, "run", run)
    assert ag.allclose(func.vmap(func.hessian(net, method="push"))(X), expected)


def test_a_write_to_an_operand_is_noticed():
    weight = ag.ones(2, 2, dtype=ag.float64)

    def f(row):
        out = ag.linear(row, weight).tanh()
        weight.mul_(2.0)
        return out

    with pytest.raises(RuntimeError, match="linear used has been modified by an inplace"):
        func.vmap(func.hessian(f, method="push"))(X)


def test_a_weight_from_inference_mode_is_a_constant():
    """It has no versions to keep, and the rules do not save it."""
    with ag.inference_mode():
        frozen = ag.tensor([[0.5, 2.0], [1.5, -1.0]], dtype=ag.float64)
    whole = func.vmap(func.hessian(lambda row: ag.linear(row, frozen).tanh(), method="push"))(X)
    assert ag.equal(whole, func.vmap(func.hessian(lambda row: ag.linear(row, ROW).tanh(), method="push"))(X))


def test_a_call_of_constants_is_not_kept():
    """detach() makes a constant that differs between the examples."""
    y = ag.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=ag.float64)

    def f(row):
        constant = (row.detach() * 2.0).exp()
        return (row * constant).sin()

    for row, one in zip(y, func.vmap(func.hessian(f, method="push"))(y), strict=True):
        scale = (row * 2.0).exp()
        assert ag.allclose(one, func.hessian(lambda x, scale=scale: (x * scale).sin())(row))


def test_errors_name_the_op():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        func.vmap(func.hessian(lambda row: ag.linear(row, ag.ones(3, 3, dtype=ag.float64)).tanh()))(X)
    with pytest.raises(RuntimeError, match="must match the size"):
        func.vmap(func.hessian(lambda row: row * ag.ones(3, dtype=ag.float64)))(X)


def test_hooks_of_saved_tensors_see_each_call():
    weight, seen = ag.ones(2, 2, dtype=ag.float64, requires_grad=True), []

    def pack(x):
        seen.append(x.shape)
        return x

    with ag.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        func.vmap(func.hessian(lambda row: ag.linear(row, weight).tanh(), method="push"))(X)
    assert (3, 2) in seen
