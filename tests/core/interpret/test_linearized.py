"""The calls that `linearize` notes, and the tangents pushed through them."""

import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.linearized import Linearizing

pytestmark = pytest.mark.cpu


def test_only_calls_that_depend_on_the_inputs_are_noted():
    x, w = ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0])
    with entered(Linearizing()) as level:
        place = level.add(x)
        y = (x * w.exp()).sum() + w.sum()
        wanted = [level.place_of(y), level.place_of(w), place]
    assert [noted.call.op.name for noted in level.noted] == ["mul", "sum", "add"]
    t = ag.tensor([1.0, 10.0])
    with ag.profiler.count() as counted:
        found = level.push({place: t}, wanted)
    assert (found[0].item(), found[1], found[2] is t) == (pytest.approx(20.0855 + 545.9815, rel=1e-5), None, True)
    assert not counted.rules


def test_a_write_to_what_was_used_is_noticed():
    x, w = ag.tensor([1.0]), ag.tensor([3.0])
    with entered(Linearizing()) as level:
        place = level.add(x)
        wanted = [level.place_of(x * w)]
    w.add_(1.0)
    with pytest.raises(RuntimeError, match="a tensor that mul used has been modified by an inplace operation"):
        level.push({place: ag.ones(1)}, wanted)


def test_writes_inside_are_refused():
    x = ag.tensor([1.0])
    with entered(Linearizing()) as level:
        level.add(x)
        y = x * 2
        with pytest.raises(RuntimeError, match="linearize does not support in-place operations on tensors that depend"):
            y.add_(1.0)
        ag.ones(1).add_(1.0)
