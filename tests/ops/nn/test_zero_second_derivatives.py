"""Piecewise linear activations: the second derivative is zero by declaration, so backward does not compute it."""

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd.backward import grad
from autograd_gpu.core.interpret.interpreters import Interpreter, entered, lower

PIECEWISE = {
    "relu": ag.relu,
    "leaky_relu": ag.leaky_relu,
    "hardtanh": ag.nn.functional.hardtanh,
    "relu6": ag.nn.functional.relu6,
    "hardsigmoid": ag.nn.functional.hardsigmoid,
    "hardshrink": ag.nn.functional.hardshrink,
    "softshrink": ag.nn.functional.softshrink,
    "threshold": lambda x: ag.nn.functional.threshold(x, 0.5, 2.0),
    "rrelu": lambda x: ag.nn.functional.rrelu(x, training=True),
    "linear_activation": lambda x: ag.nn.functional.linear_activation(x, ag.eye(3), ag.zeros(3), "leaky_relu"),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_only_zero_edges_lead_to_the_input(name, device):
    x = ag.randn(2, 3, device=device, requires_grad=True)
    if name == "linear_activation" and device == "cuda":
        pytest.skip("the weights are on the CPU")
    [slope] = grad([PIECEWISE[name](x).sum()], [x], create_graph=True)
    nodes, rules = [slope.grad_fn], 0
    while nodes:
        node = nodes.pop()
        if getattr(node, "edges", None) is not None:
            assert node.zero_edges or any(node.edges)
            rules += sum(child is not None and "Accumulate" in child.name() for child in node.edges)
            nodes += [child for child in node.edges if child is not None]
    assert not rules
    [second] = grad([slope.sum()], [x])
    assert not second.numpy(force=True).any()


class Counting(Interpreter):
    """Notes the names of the ops that run."""

    def __init__(self):
        self.names = []

    def run(self, op, args, attributes):
        self.names.append(op.name)
        return lower(op, args, attributes)


@pytest.mark.cpu
@pytest.mark.parametrize("name", PIECEWISE)
def test_the_second_backward_under_a_transform_runs_no_op_of_the_activation(name):
    def slope(x):
        return ag.func.grad(lambda x: PIECEWISE[name](x).sum())(x).sum()

    with entered(Counting()) as counting:
        _, pull = ag.func.vjp(slope, ag.randn(2, 3))
        before = len(counting.names)
        [second] = pull(ag.tensor(1.0))
    assert not second.numpy().any()
    assert set(counting.names[before:]) <= {"expand", "expand_grad", "reshape"}
