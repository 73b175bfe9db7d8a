"""no_grad, enable_grad and set_grad_enabled: as contexts, decorators and calls, in generators and threads."""

from __future__ import annotations

import threading

import pytest

import autograd_gpu as ag


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


class TestModes:
    def test_context_managers(self):
        x = leaf(1.0)
        with ag.no_grad():
            assert not ag.is_grad_enabled()
            assert not (x * 2).requires_grad
            with ag.enable_grad():
                assert (x * 2).requires_grad
            assert not ag.is_grad_enabled()
        assert ag.is_grad_enabled()

    def test_set_grad_enabled_acts_at_once(self):
        try:
            ag.set_grad_enabled(False)
            assert not ag.is_grad_enabled()
        finally:
            ag.set_grad_enabled(True)
        with ag.set_grad_enabled(False):
            assert not ag.is_grad_enabled()
        assert ag.is_grad_enabled()

    def test_decorators(self):
        @ag.no_grad()
        def f():
            return ag.is_grad_enabled()

        @ag.set_grad_enabled(False)
        def h():
            return ag.is_grad_enabled()

        assert f() is False
        assert h() is False
        assert ag.is_grad_enabled()

    def test_generators(self):
        @ag.no_grad()
        def numbers():
            got = yield ag.is_grad_enabled()
            try:
                yield (got, ag.is_grad_enabled())
            except KeyError:
                yield ("caught", ag.is_grad_enabled())
            return "end"

        g = numbers()
        assert next(g) is False
        assert ag.is_grad_enabled()
        assert g.send(5) == (5, False)
        assert ag.is_grad_enabled()
        assert g.throw(KeyError()) == ("caught", False)
        assert ag.is_grad_enabled()
        with pytest.raises(StopIteration) as stop:
            next(g)
        assert stop.value.value == "end"

    def test_exception_restores(self):
        with pytest.raises(KeyError), ag.no_grad():
            raise KeyError
        assert ag.is_grad_enabled()

    def test_thread_local(self):
        seen = []
        with ag.no_grad():
            t = threading.Thread(target=lambda: seen.append(ag.is_grad_enabled()))
            t.start()
            t.join()
        assert seen == [True]


def test_a_mode_entered_twice():
    mode = ag.no_grad()
    with mode, mode:
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()
