"""What user code sets during a backward ends with it: saved-tensor hooks and modes, as with PyTorch."""

from __future__ import annotations

import pytest
from against_torch import both, hooks_of, leaf, torch

import autograd_gpu as ag

CALLBACK = {torch: torch.autograd.Variable._execution_engine.queue_callback, ag: ag.autograd.graph.queue_callback}


# Where user code runs in a backward through y = Double.apply(x): register(m, x, y, enter).
PLACES = {
    "tensor hook": lambda m, x, y, enter: y.register_hook(lambda g: enter()),
    "pre-hook": lambda m, x, y, enter: y.grad_fn.register_prehook(lambda gs: enter()),
    "node hook": lambda m, x, y, enter: y.grad_fn.register_hook(lambda grads, gs: enter()),
    "leaf hook": lambda m, x, y, enter: x.register_hook(lambda g: enter()),
    "post-accumulate hook": lambda m, x, y, enter: x.register_post_accumulate_grad_hook(lambda t: enter()),
    "backward": lambda m, x, y, enter: y.todo.append(enter),
    "callback": lambda m, x, y, enter: y.todo.append(lambda: CALLBACK[m](enter)),
}


def doubled(m, x, todo):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            for task in todo:
                task()
            return g * 2

    return Double.apply(x)


class Result:
    """A result with a list of what its Function's backward has to do: tensors here have no attributes of a user's."""

    def __init__(self, y, todo):
        self.y, self.todo = y, todo

    def __getattr__(self, name):
        return getattr(self.y, name)


def packed_after(m, place, log, leave=lambda y: y.sum().backward()):
    x, todo = leaf(m), []
    y = doubled(m, x, todo)

    def enter():
        hooks_of(m)(lambda t: log.append("pack") or t, lambda t: t).__enter__()

    PLACES[place](m, x, Result(y, todo), enter)
    leave(y)
    log.append("returned")
    a = leaf(m)
    _ = a * a
    return log


class TestSavedTensorHooks:
    @pytest.mark.parametrize("place", PLACES)
    def test_end_with_the_code_that_set_them(self, place):
        assert both(lambda m: packed_after(m, place, [])) == ["returned"]

    def test_of_an_unpack_hook(self):
        def program(m):
            log, x = [], leaf(m)
            y = x.exp()

            def unpack(t):
                hooks_of(m)(lambda t: log.append("pack") or t, lambda t: t).__enter__()
                return t

            y.grad_fn._raw_saved_result.register_hooks(lambda t: t, unpack)
            y.sum().backward()
            a = leaf(m)
            _ = a * a
            return log, x.grad

        assert both(program)[0] == []

    def test_are_not_those_of_the_next_node(self):
        def program(m):
            log, x = [], leaf(m)

            def save_something():
                with m.enable_grad():
                    a = leaf(m)
                    _ = a * a

            y = doubled(m, doubled(m, x, [save_something]), [])

            def enter(g):
                hooks_of(m)(lambda t: log.append("pack") or t, lambda t: t).__enter__()

            y.register_hook(enter)
            y.sum().backward()
            return log

        assert both(program) == []

    def test_taken_off_by_a_hook_they_are_back(self):
        def program(m):
            log, x = [], leaf(m)
            pair = hooks_of(m)(lambda t: log.append("pack") or t, lambda t: t)
            y = x * 1
            y.register_hook(lambda g: pair.__exit__(None, None, None))
            with pair:
                y.sum().backward()
                a = leaf(m)
                _ = a * a
            _ = a * a
            return log

        assert both(program) == ["pack", "pack"]

    def test_that_are_refused_by_a_hook_are_allowed_again(self):
        def program(m):
            y = leaf(m) * 1
            y.register_hook(lambda g: m.autograd.graph.disable_saved_tensors_hooks("refused").__enter__())
            y.sum().backward()
            with hooks_of(m)(lambda t: t, lambda t: t):
                return "allowed"

        assert both(program) == "allowed"

    def test_end_also_where_the_hook_fails(self):
        def program(m):
            log, y = [], leaf(m) * 1

            def fail(g):
                hooks_of(m)(lambda t: log.append("pack") or t, lambda t: t).__enter__()
                raise ValueError("on purpose")

            y.register_hook(fail)
            with pytest.raises(ValueError, match="on purpose"):
                y.sum().backward()
            a = leaf(m)
            _ = a * a
            return log

        assert both(program) == []

    def test_on_a_helper_thread_too(self):
        log = []

        def nested(depth):
            x = leaf(ag)
            y = x * 2

            def hook(g):
                hooks_of(ag)(lambda t: log.append(depth) or t, lambda t: t).__enter__()
                with ag.enable_grad():
                    if depth:
                        nested(depth - 1)

            y.register_hook(hook)
            y.sum().backward()

        nested(40)
        log.clear()
        a = leaf(ag)
        _ = a * a
        assert log == []


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad", "inference_mode"])
@pytest.mark.parametrize("place", ["tensor hook", "leaf hook", "backward"])
def test_modes_end_with_the_code_that_entered_them(place, mode):
    def program(m):
        x, todo = leaf(m), []
        y = doubled(m, x, todo)
        PLACES[place](m, x, Result(y, todo), lambda: getattr(m, mode)().__enter__())
        y.sum().backward()
        return m.is_grad_enabled(), m.is_inference_mode_enabled(), (x * 1).requires_grad

    assert both(program) == [True, False, True]


def test_anomaly_mode_stays_on():
    def program(m):
        y = leaf(m) * 1
        y.register_hook(lambda g: m.autograd.set_detect_anomaly(True) and None)
        try:
            y.sum().backward()
            return m.is_anomaly_enabled()
        finally:
            m.autograd.set_detect_anomaly(False)

    assert both(program) is True
