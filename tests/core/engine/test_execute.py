"""Backward inside backward: any number of levels, on helper threads from some depth on, and errors from there."""

from __future__ import annotations

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function


class TestReentrant:
    def test_two_thousand_levels(self):
        class Deeper(Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.n = n
                return x * 2

            @staticmethod
            def backward(ctx, g):
                if ctx.n:
                    with ag.enable_grad():
                        x = ag.ones(1, requires_grad=True)
                        Deeper.apply(x, ctx.n - 1).backward()
                return g * 2, None

        x = ag.ones(1, requires_grad=True)
        Deeper.apply(x, 2000).backward()
        assert x.grad.item() == 2.0

    def test_error_comes_back_from_a_helper_thread(self):
        class Deep(Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.n = n
                return x * 2

            @staticmethod
            def backward(ctx, g):
                if not ctx.n:
                    raise ZeroDivisionError("at the bottom")
                with ag.enable_grad():
                    Deep.apply(ag.ones(1, requires_grad=True), ctx.n - 1).backward()
                return g, None

        with pytest.raises(ZeroDivisionError, match="at the bottom"):
            Deep.apply(ag.ones(1, requires_grad=True), 100).backward()
