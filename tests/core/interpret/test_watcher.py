"""Watchers: every call of an op is seen, whatever its arguments, and forward may be replaced."""

import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.interpreters import entered, replaced
from autograd_gpu.core.interpret.watcher import Watcher


class Log(Watcher):
    def __init__(self, replace=lambda forward: forward):
        self.calls, self.replace = [], replace

    def around(self, op, args, attributes, forward):
        self.calls.append((op.name, len(args), attributes))
        return self.replace(forward), lambda out: self.calls.append(out)


def names(log):
    return [call[0] for call in log.calls if isinstance(call, tuple) and isinstance(call[0], str)]


def test_every_kind_of_call():
    x, log = ag.ones(2, 2, requires_grad=True), Log()
    with entered(log):
        results = [x @ x, x * 2, 2 - x, ag.cat([x, x], 1), x + np.float32(1), x.max(1), x.clamp(0, None), x[0]]
    assert names(log) == ["matmul", "mul", "sub", "cat", "add", "max_dim", "clamp", "basic_index"]
    assert log.calls[::2][3] == ("cat", 2, {"dim": 1})
    assert [a is b for a, b in zip(log.calls[1::2], results, strict=True)] == [True] * 8
    ag.cat([x, x])  # the ordinary way still works
    assert len(log.calls) == 16


def test_replaced_forward():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    double = Log(lambda forward: lambda xp, *args, **named: 2 * forward(xp, *args, **named))
    plus = Log(lambda forward: lambda xp, *args, **named: 1 + forward(xp, *args, **named))
    with entered(double), entered(plus):
        y = x * 3.0
    assert y.tolist() == [7.0, 13.0]  # from the outermost on
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_hidden_and_other_threads():
    x, log = ag.ones(2), Log()
    with entered(log):
        with replaced(()):
            x.exp()
        thread = threading.Thread(target=x.sin)
        thread.start()
        thread.join()
        x.cos()
        with entered(other := Log()):
            x.tan()
    x.tanh()
    assert names(log) == ["cos", "tan"]
    assert names(other) == ["tan"]


def test_errors_leave_no_mode_behind():
    x, log = ag.ones(2, 3), Log()
    with entered(log), pytest.raises(RuntimeError, match="The size of tensor a"):
        x * ag.ones(2)
    assert names(log) == ["mul"]
    with pytest.raises(KeyError), entered(log):
        raise KeyError
    x * 2
    assert names(log) == ["mul"]


def test_a_watchers_own_error_is_not_explained():
    def fail(out):
        raise ValueError("mine")

    class Failing(Watcher):
        def around(self, op, args, attributes, forward):
            return forward, fail

    with entered(Failing()), pytest.raises(ValueError, match=r"^mine$"):
        ag.ones(2).exp()
