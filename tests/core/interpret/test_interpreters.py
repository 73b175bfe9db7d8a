"""The stack of interpreters: who sees a call, what it computes with, and what remains after an error."""

import threading

import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.batched import Batching, batched
from autograd_gpu.core.interpret.interpreters import (
    Interpreter,
    below,
    entered,
    in_transform,
    lower,
    refuse_in_transform,
    replaced,
)
from autograd_gpu.modes import MODES, TRANSFORMED

pytestmark = pytest.mark.cpu


class Logging(Interpreter):
    """Notes the calls it sees and the depth of the rest of the stack, and passes them on."""

    def __init__(self):
        self.seen = []

    def run(self, op, args, attributes):
        self.seen.append((op.name, len(MODES.stack), bool(MODES.bits & TRANSFORMED)))
        return lower(op, args, attributes)


def test_the_innermost_comes_first_with_the_rest_in_place():
    outer, inner = Logging(), Logging()
    with entered(outer), entered(inner):
        y = ag.ones(2) * 2.0
        assert MODES.stack == (outer, inner)
    assert y.tolist() == [2.0, 2.0]
    assert (inner.seen, outer.seen) == ([("mul", 1, True)], [("mul", 0, False)])
    assert (MODES.stack, MODES.bits & TRANSFORMED) == ((), 0)
    assert not inner.alive
    assert not outer.alive


def test_saved_extras_reach_each_interpreter():
    seen = []

    class Taking(Interpreter):
        def run(self, op, args, attributes):
            outs, extras = lower(op, args, attributes)
            seen.append(sorted(extras))
            return outs, extras

    with entered(Taking()), entered(Taking()):
        ag.nanmean(ag.ones(3))
        ag.ones(3).exp()
    assert seen == [["count"], ["count"], [], []]


def test_below_is_what_the_level_does_not_see():
    outer, inner = Logging(), Logging()
    with entered(outer), entered(inner):
        with below(inner):
            assert MODES.stack == (outer,)
            ag.ones(1).sin()
        with below(outer):
            assert (MODES.stack, MODES.bits & TRANSFORMED) == ((), 0)
            ag.ones(1).cos()
        with below(Logging()):  # on no stack
            assert MODES.stack == (outer, inner)
    assert ([call[0] for call in inner.seen], [call[0] for call in outer.seen]) == ([], ["sin"])


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_no_level_behind(error):
    class Failing(Interpreter):
        def run(self, op, args, attributes):
            raise error("mine")

    level = Failing()
    with pytest.raises(error, match="mine"), entered(level):
        ag.ones(2).exp()
    assert (MODES.stack, MODES.bits & TRANSFORMED, level.alive) == ((), 0, False)
    with entered(Logging()) as logging:
        with pytest.raises(RuntimeError, match="The size of tensor a"):
            ag.ones(2) * ag.ones(3)
        assert MODES.stack == (logging,)


def test_a_level_is_on_its_own_thread_only():
    with entered(Logging()) as logging:
        thread = threading.Thread(target=ag.ones(2).exp)
        thread.start()
        thread.join()
    assert logging.seen == []


def test_a_tensor_of_a_level_elsewhere_is_refused():
    level = Batching(2)
    with entered(level):
        x = batched(level, ag.ones(2, 3))
        with below(level), pytest.raises(RuntimeError, match=r"used outside of it: below it, or on another thread"):
            x + 1
    with pytest.raises(RuntimeError, match=r"used after the transform has ended; return it"):
        x.exp()
    with pytest.raises(RuntimeError, match="used after the transform has ended"):
        ag.cat([x, x])


def test_what_transforms_refuse_watchers_allow():
    assert not in_transform()
    with entered(Batching(2)):
        assert in_transform()
        with pytest.raises(RuntimeError, match=r"this inside of a function being transformed .*; do that"):
            refuse_in_transform("this", "do that")
        with replaced(()):
            refuse_in_transform("this", "do that")


def test_a_mode_set_inside_does_not_outlive_the_call():
    class NoGrad(Interpreter):
        def run(self, op, args, attributes):
            ag.set_grad_enabled(False)
            return lower(op, args, attributes)

    x = ag.ones(2, requires_grad=True)
    with entered(NoGrad()):
        assert not x.exp().requires_grad
        assert ag.is_grad_enabled()
