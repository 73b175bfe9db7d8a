"""Calling hooks: what each kind gets, and what it may return."""

import pytest

import autograd_gpu as ag
from autograd_gpu.core.engine.hook_calls import call_post_hooks, call_pre_hooks, call_tensor_hooks


@pytest.fixture
def result(device):
    return ag.ones(2, device=device, requires_grad=True) * 2


def test_tensor_hooks_run_in_order_each_on_what_the_last_returned(result):
    result.register_hook(lambda g: g + 1)
    result.register_hook(lambda g: None)
    result.register_hook(lambda g: g * 10)
    result.retain_grad()
    actual = call_tensor_hooks(result.grad_fn, 0, ag.ones(2, device=result.device))
    assert actual.tolist() == result.grad.tolist() == [20, 20]


def test_without_a_gradient_tensor_hooks_do_not_run(result):
    result.register_hook(lambda g: pytest.fail("called"))
    assert call_tensor_hooks(result.grad_fn, 0, None) is None


@pytest.mark.parametrize(("replacement", "kind", "text"), [
    (lambda g: 3, TypeError, "expected Variable, but hook returned 'int': '<lambda>' must return a Tensor or None"),
    (lambda g: g.to(ag.float64), RuntimeError, "has changed the type of value"),
    (lambda g: g[:1], RuntimeError, r"has changed the size of value \(was \[2\] got \[1\]\)"),
])
def test_a_tensor_hook_returns_a_gradient_of_the_same_kind(result, replacement, kind, text):
    result.register_hook(replacement)
    with pytest.raises(kind, match=text):
        call_tensor_hooks(result.grad_fn, 0, ag.ones(2, device=result.device))


def test_node_hooks_replace_all_gradients_at_once(result):
    node, g = result.grad_fn, ag.ones(2, device=result.device)
    node.register_prehook(lambda gs: (gs[0] * 2,))
    node.register_hook(lambda grads, gs: (gs[0] + grads[0],))
    gs = call_pre_hooks(node, (g,))
    assert gs[0].tolist() == [2, 2]
    assert call_post_hooks(node, (g,), gs)[0].tolist() == [3, 3]


@pytest.mark.parametrize(("answer", "kind", "text"), [
    ([1], TypeError, "expected tuple, but hook returned 'list'"),
    ((None, None), RuntimeError, r"incorrect number of values \(got 2, but expected 1\)"),
])
def test_a_node_hook_returns_one_value_per_gradient(result, answer, kind, text):
    result.grad_fn.register_prehook(lambda gs: answer)
    with pytest.raises(kind, match=text):
        call_pre_hooks(result.grad_fn, (ag.ones(2, device=result.device),))
