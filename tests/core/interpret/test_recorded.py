"""A level of reverse mode above other interpreters."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.engine.execute import execute
from autograd_gpu.core.interpret.batched import Batching, batched
from autograd_gpu.core.interpret.interpreters import below, entered
from autograd_gpu.core.interpret.recorded import Recorded, Recording, holds_recorded
from autograd_gpu.modes import GRAD_OFF, MODES


def gradient(level, out, x, keep=False):
    """d out / d x at a level, as a tensor of what lies below it."""
    with below(level):
        root = (out._fn, out._nr, ag.ones(*out.shape, dtype=out.dtype))
        return execute([root], [(x._fn, x._nr, x._array)], False, keep, False, on_tensors=True)[0]


def point(level, values):
    with below(level):
        return level.lift(ag.tensor(values))


@pytest.fixture
def level():
    with entered(Batching(2)), entered(Recording()) as level:
        yield level


def test_a_node_holds_what_its_needed_rules_read(level):
    x = point(level, [1.0, 2.0])
    y = x * ag.tensor([3.0, 4.0])
    node = y._fn
    assert (type(y), node.name(), node.rules(1)) == (Recorded, "MulBackward0", ["mul.grad_a"])
    assert (node._saved_other.tolist(), node._saved_self) == ([3.0, 4.0], None)
    assert gradient(level, y.sum(), x).tolist() == [3.0, 4.0]


def test_buffers_are_freed_unless_kept(level):
    x = point(level, [1.0, 2.0])
    y = (x * x).sum()
    assert gradient(level, y, x, keep=True).tolist() == gradient(level, y, x).tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        gradient(level, y, x)


def test_a_write_to_what_is_saved_is_noticed(level):
    w = ag.tensor([3.0, 4.0])
    x = point(level, [1.0, 2.0])
    y = (x * w).sum()
    w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradient(level, y, x)


def test_no_grad_inside_concerns_all_levels():
    w = ag.tensor([3.0, 4.0], requires_grad=True)
    with entered(Batching(2)), entered(Recording()) as level, ag.no_grad():
        y = point(level, [1.0, 2.0]) * w
    assert (type(y), y.requires_grad, y._value.requires_grad) == (Recorded, False, False)
    assert not MODES.bits & GRAD_OFF


def test_below_records_as_where_the_level_was_made():
    w = ag.tensor([3.0, 4.0], requires_grad=True)
    with ag.no_grad(), entered(Batching(2)), entered(Recording()) as level, ag.enable_grad():
        y = point(level, [1.0, 2.0]) * w
        assert (y.requires_grad, y._value.requires_grad) == (True, False)


def test_several_outputs_and_those_without_a_derivative(level):
    x = point(level, [[1.0, 5.0, 2.0]])
    values, indices = x.max(1)
    assert (type(values), type(indices), indices.tolist()) == (Recorded, ag.Tensor, [1])
    assert gradient(level, values.sum(), x).tolist() == [[0.0, 1.0, 0.0]]
    a, b, c = point(level, [1.0, 2.0, 3.0]).unbind(0)
    assert [t._nr for t in (a, b, c)] == [1, 2, 3]


def test_zero_derivatives_lead_nowhere_but_count_as_used(level):
    x = point(level, [1.5, 2.5])
    y = x.floor()
    assert y.requires_grad
    assert gradient(level, y.sum(), x).tolist() == [0.0, 0.0]


def test_values_are_those_of_below():
    with entered(Batching(2)) as outer, entered(Recording()) as level:
        x = point(level, [1.0, 2.0])
        assert (x.sum().item(), bool((x > 0).all()), x.numpy(force=True).tolist()) == (3.0, True, [1.0, 2.0])
        with pytest.raises(RuntimeError, match="requires grad"):
            x.numpy()
        with below(level):
            inner = level.lift(batched(outer, ag.ones(2, 2)))
        with pytest.raises(RuntimeError, match="vmap: It looks like you're"):
            inner.sum().item()
        assert holds_recorded(inner)
        assert not holds_recorded(inner._value)


def test_detached_at_all_levels(level):
    x = point(level, [1.0, 2.0])
    assert (x.detach().requires_grad, type(x.detach()._value)) == (False, ag.Tensor)
    np.testing.assert_array_equal(gradient(level, (x * x.detach()).sum(), x).numpy(force=True), [1.0, 2.0])


def test_a_write_gives_all_views_a_new_history(level):
    x = point(level, [1.0, 2.0, 3.0]) * 1.0
    view, other = x[:2], x[1:]
    view.mul_(4.0)
    assert [t._fn.name() for t in (x, view, other)] == ["CopySlices", *["AsStridedBackward0"] * 2]
    x.add_(1.0)
    assert [t._fn.name() for t in (x, other)] == ["AddBackward0", "AsStridedBackward0"]
    del other
    view.zero_()
    assert len(x._views) == 1
