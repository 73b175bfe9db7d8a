"""How far tangents, second tangents and adjoints are needed."""

import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.tape import Taping
from autograd_gpu.func.local.plan import Plan, form_of

pytestmark = pytest.mark.cpu


def plan_of(f, jacobian=False):
    x = ag.tensor([1.0, 2.0, 3.0])
    with entered(Taping("test", "another", reverse=True)) as tape:
        tape.add(x)
        out = f(x)
        return Plan(tape, [tape.place_of(out)], jacobian)


def names(plan, places):
    return [step.call.op.name for step in plan.steps if not places.isdisjoint(step.outputs)]


def chain(x):
    return nn.functional.leaky_relu(ag.abs(ag.tanh(ag.relu(-x)) * 2)).sum()


def test_only_between_the_call_with_a_second_derivative_and_the_ends():
    plan = plan_of(chain)
    assert [step.call.op.name for step in plan.steps if step.has_second_derivative] == ["tanh"]
    assert names(plan, plan.firsts) == ["neg", "relu"]
    assert names(plan, plan.seconds) == ["tanh", "mul", "abs", "leaky_relu", "sum"]


def test_a_jacobian_needs_tangents_to_the_end():
    plan = plan_of(chain, jacobian=True)
    assert len(names(plan, plan.firsts)) == len(plan.steps) == 7


def test_calls_that_do_not_lead_to_the_outputs_do_not_count():
    def f(x):
        ag.exp(x).sum()
        return ag.relu(x)

    plan = plan_of(f)
    assert [step.call.op.name for step in plan.steps] == ["relu"]
    assert not plan.has_second_derivative
    assert plan.firsts == set()
    assert plan.widest == 3


def test_the_input_as_output():
    plan = plan_of(lambda x: x, jacobian=True)
    assert (plan.steps, plan.firsts, plan.has_second_derivative, plan.widest) == ([], {0}, False, 0)


def test_the_facts_of_one_structure_are_known():
    """Other inputs are another structure: x * 2 has no second derivative; so are other numbers."""
    square, again, double, triple = [plan_of(f) for f in (lambda x: x * x, lambda x: x * x, lambda x: x * 2.0,
                                                          lambda x: x * 3.0)]
    assert square.last is again.last
    assert len({id(plan.last) for plan in (square, double, triple)}) == 3
    assert square.steps[0].call is not again.steps[0].call
    assert (square.has_second_derivative, double.has_second_derivative) == (True, False)


def test_a_write_is_noticed_where_the_structure_is_known():
    """A later call with the same structure reads its own tensors, and refuses those that were written to."""
    scale = ag.tensor(3.0)

    def f(x, writes):
        y = ag.tanh(x * scale)
        if writes:
            scale.add_(0.0)
        return y

    hessian = func.hessian(lambda x: f(x, False), method="push")
    x = ag.tensor(0.5)
    before = hessian(x)
    scale.mul_(2.0)
    assert hessian(x) != before
    with pytest.raises(RuntimeError, match="has been modified"):
        func.hessian(lambda x: f(x, True), method="push")(x)


def test_forms():
    assert form_of("hessian", 2).groups == (((0, 0),), ((0, 1),), ((1, 1),))
    assert form_of("diagonal", 2).groups == (((0, 0),), ((1, 1),))
    assert form_of("laplacian", 2).groups == (((0, 0), (1, 1)),)
    assert form_of("laplacian", 2).pairs == [(0, 0), (1, 1)]
