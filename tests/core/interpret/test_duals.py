"""Forward mode's interpreter: where tangents lie, who gets them, and when they go."""

import gc
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.batched import Batched, Batching, batched
from autograd_gpu.core.interpret.duals import Forward, attach, home_of, tangent_of
from autograd_gpu.core.interpret.interpreters import below, entered


@pytest.fixture
def level():
    with entered(Forward(is_transform=False)) as level:
        yield level


def dual(level, values, tangent, **kwargs):
    x = ag.tensor(values, **kwargs)
    attach(x, level, ag.tensor(tangent))
    return x


def test_a_result_has_the_tangent_of_the_jvp_rule(level):
    x = dual(level, [1.0, 2.0], [1.0, 10.0])
    y = x * x
    assert (type(y), y.tolist(), tangent_of(y, level).tolist()) == (ag.Tensor, [1.0, 4.0], [2.0, 40.0])
    assert tangent_of(ag.ones(2) * 2, level) is None
    assert tangent_of(x.detach(), level) is None
    assert tangent_of(x.floor(), level) is None


def test_levels_do_not_see_each_other(level):
    x = dual(level, [2.0], [1.0])
    with entered(Forward()) as inner:
        attach(x, inner, ag.tensor([1.0]))
        y = x * x * x
        t = tangent_of(y, inner)
        assert (t.tolist(), tangent_of(t, level).tolist(), tangent_of(t, inner)) == ([12.0], [12.0], None)
        with below(inner):
            assert tangent_of(x * x, inner) is None


def test_the_end_of_a_level_empties_its_duals():
    with entered(Forward()) as level:
        x = dual(level, [1.0], [1.0])
        t = weakref.ref(tangent_of(x, level))
    assert x._tangents == {}
    gc.collect()
    assert t() is None


def test_saved_tensors_carry_tangents(level):
    """Forward over reverse: the derivative of exp reads its output, that of a product its inputs."""
    x = dual(level, [1.0, 2.0], [1.0, 1.0], requires_grad=True)
    for function, first, second in ((ag.exp, np.exp, np.exp), (lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x)):
        (g,) = ag.autograd.grad(function(x).sum(), x)
        np.testing.assert_allclose(g.numpy(force=True), first(np.array([1.0, 2.0])), rtol=1e-6)
        np.testing.assert_allclose(tangent_of(g, level).numpy(force=True), second(np.array([1.0, 2.0])), rtol=1e-6)


def test_saved_tensors_carry_tangents_through_hooks(level):
    x = dual(level, [1.0, 2.0], [1.0, 1.0], requires_grad=True)
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), ag.as_tensor):
        y = (x.exp() * x).sum()
    (g,) = ag.autograd.grad(y, x)
    np.testing.assert_allclose(tangent_of(g, level).numpy(force=True), np.exp([1.0, 2.0]) * [3.0, 4.0], rtol=1e-6)


def test_a_view_made_before_its_base_was_dual(level):
    base = ag.zeros(2, 3)
    view = base[:, 1]
    base.copy_(dual(level, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert tangent_of(view, level).tolist() == [2.0, 5.0]
    view.mul_(10.0)
    assert tangent_of(base, level).tolist() == [[1.0, 20.0, 3.0], [4.0, 50.0, 6.0]]


def test_a_batched_view_made_before_its_base_was_dual():
    with entered(Batching(2)) as batching, entered(Forward()) as level:
        base = batched(batching, ag.zeros(2, 3))
        view = base[1:]
        assert home_of(view) is base
        value = batched(batching, ag.ones(2, 3))
        attach(value, level, batched(batching, ag.arange(6.0).reshape(2, 3)))
        base.copy_(value)
        result = tangent_of(view, level)
        assert (type(result), result._value.tolist()) == (Batched, [[1.0, 2.0], [4.0, 5.0]])



def test_a_level_forgets_the_duals_that_are_gone():
    with entered(Forward()) as level:
        x = dual(level, [1.0], [1.0])
        for _ in range(3000):
            x * x
        assert len(level.duals) < 1100
        assert tangent_of(x, level).tolist() == [1.0]
