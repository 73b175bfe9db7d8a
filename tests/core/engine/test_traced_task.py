"""A traced task tells of its plan, its run, and of nodes without a gradient, also if tracing stops meanwhile."""

from __future__ import annotations

import pytest

import autograd_gpu as ag
from autograd_gpu.profiler import profile

pytestmark = pytest.mark.cpu


class NoGradient(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return None


def test_a_node_without_a_gradient():
    x = ag.ones(2, requires_grad=True)
    with profile() as prof:
        NoGradient.apply(x.exp()).sum().backward()
    told = [(e.name, e.facts["reason"]) for e in prof.events() if e.kind == "skipped"]
    assert told == [("ExpBackward0", "no gradient arrived: the rules above it gave none")]
    assert [e.name for e in prof.events() if e.kind in ("engine", "backward")] == ["plan", "backward"]


def test_a_profile_that_ends_in_a_hook():
    x, prof = ag.ones(2, requires_grad=True), profile()
    y = x.exp()
    y.register_hook(lambda g: prof.stop())
    with_profile = y.sum()
    prof.start()
    with_profile.backward()
    assert (x.grad == y).all()
    assert [e.name for e in prof.events() if e.kind == "node"] == ["SumBackward0"]
    (run,) = [e for e in prof.events() if e.kind == "backward"]
    assert run.facts == {"create_graph": False, "unfinished": True}
    assert (ag.modes.MODES.bits, ag.modes.MODES.stack) == (0, ())


def test_a_profile_that_ends_in_a_hook_of_a_task_that_fails():
    """The engine puts the modes back that it found, and the next call takes the ended profile off."""
    x, prof = ag.ones(2, requires_grad=True), profile()
    y = x.exp()

    def hook(g):
        prof.stop()
        raise ZeroDivisionError

    y.register_hook(hook)
    z = y.sum()
    prof.start()
    with pytest.raises(ZeroDivisionError):
        z.backward()
    ag.ones(2).exp()
    assert (ag.modes.MODES.bits, ag.modes.MODES.stack) == (0, ())
    assert not [e.name for e in prof.events() if e.kind == "op"]
