"""gradcheck and gradgradcheck: what they find, what they call and what they refuse."""

from __future__ import annotations

import pytest
from custom_functions import Double

import autograd_gpu as ag
from autograd_gpu.autograd import Function, gradcheck, gradgradcheck


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


class TestGradcheck:
    def test_finds_a_wrong_derivative(self):
        class Wrong(Function):
            @staticmethod
            def forward(ctx, x):
                return x * x

            @staticmethod
            def backward(ctx, g):
                return g

        x = leaf(3.0)
        with pytest.raises(ag.autograd.GradcheckError, match="numerical 6, analytical 1"):
            gradcheck(Wrong.apply, (x,))
        assert gradcheck(Wrong.apply, (x,), raise_exception=False) is False
        with pytest.raises(ag.autograd.GradcheckError, match="1 of 1 entries differ"):
            gradcheck(Wrong.apply, (leaf(3.0, 1.0),), fast_mode=True)

    def test_fast_mode_calls_the_function_twice_per_input(self):
        calls = []

        def f(x, y):
            calls.append(1)
            return (x * y).sin()

        counts = {}
        for fast_mode in (True, False):
            calls.clear()
            assert gradcheck(f, (leaf(1.0, 2.0, 3.0), leaf(0.5, 1.0, 1.5)), fast_mode=fast_mode)
            counts[fast_mode] = len(calls)
        assert counts[False] - counts[True] == 2 * 2 * (3 - 1)
        assert gradgradcheck(f, (leaf(1.0, 2.0), leaf(0.5, 1.0)), fast_mode=True)

    def test_finds_a_wrong_second_derivative(self):
        class Detached(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 3 * x.detach() ** 2

        x = leaf(2.0)
        assert gradcheck(Detached.apply, (x,))
        with pytest.raises(ag.autograd.GradcheckError):
            gradgradcheck(Detached.apply, (x,))

    def test_asks_for_float64_and_grad(self):
        with pytest.warns(UserWarning, match="float64"):
            assert gradcheck(ag.sin, (ag.ones(2, requires_grad=True),), eps=1e-2, atol=1e-2)
        with pytest.raises(ValueError, match="at least one input"):
            gradcheck(ag.sin, (ag.ones(2),))


    def test_puts_inputs_back_after_an_error(self):
        x, calls = leaf(1.0, 2.0), []

        def fails_at_the_third_call(x):
            calls.append(x.tolist())
            if len(calls) == 3:
                raise ArithmeticError
            return x * 2

        with pytest.raises(ArithmeticError):
            gradcheck(fails_at_the_third_call, x)
        assert (calls[0], calls[2], x.tolist(), x._version) == ([1.0, 2.0], [1.0 + 1e-6, 2.0], [1.0, 2.0], 0)

    def test_forward_mode_needs_a_rule(self):
        class Double(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        assert gradcheck(Double.apply, leaf(1.0))
        with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
            gradcheck(Double.apply, leaf(1.0), check_forward_ad=True)

    def test_batches_that_fail(self):
        class Reads(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2 if g.sum().item() else g

        assert gradcheck(Reads.apply, leaf(1.0))
        with pytest.raises(ag.autograd.GradcheckError, match="While computing batched gradients, got: vmap: It looks"):
            gradcheck(Reads.apply, leaf(1.0), check_batched_grad=True)

    def test_a_detached_output_is_not_compared_in_forward_mode(self):
        def both(x):
            return x * 2, x.exp().detach()

        for fast_mode in (False, True):
            assert gradcheck(both, leaf(1.0, 2.0), check_forward_ad=True, fast_mode=fast_mode)

    def test_dtypes_of_tangents(self):
        class Narrow(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def jvp(ctx, t):
                return (t * 2).float()

        options = {"check_forward_ad": True, "check_backward_ad": False}
        assert gradcheck(Narrow.apply, leaf(1.0), **options)
        with pytest.raises(ag.autograd.GradcheckError, match="Forward AD gradient has dtype mismatch"):
            gradcheck(Narrow.apply, leaf(1.0), check_grad_dtypes=True, **options)

    def test_a_tangent_that_is_undefined(self):
        class Wrong(Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.set_materialize_grads(False)
                return x * y

            @staticmethod
            def jvp(ctx, s, t):
                return (s if t is None else 2 * s + t) if s is not None else t

        with pytest.raises(ag.autograd.GradcheckError, match="Mismatch in tangent values for output with index: 0"):
            gradcheck(Wrong.apply, (leaf(2.0), leaf(1.0)), check_forward_ad=True, check_backward_ad=False, atol=100)

    def test_a_batch_of_tangents_that_jvp_writes_to(self):
        options = {"check_forward_ad": True, "check_backward_ad": False, "check_batched_forward_grad": True}
        assert gradcheck(lambda x: Double.apply(x.clone()), leaf(1.0, 2.0), **options)

    def test_hooks_are_not_called_with_none(self):
        """PyTorch's gradcheck calls them; our backward calls hooks only where a gradient arrives."""
        seen = []

        def hooked(x):
            y = x * 2
            y.register_hook(seen.append)
            return y

        assert gradcheck(hooked, leaf(1.0, 2.0))
        assert None not in seen

    def test_forward_over_reverse_runs_the_jvp_of_what_backward_does(self):
        options = {"check_fwd_over_rev": True, "check_rev_over_rev": False, "check_undefined_grad": False}
        assert gradgradcheck(lambda x, y: (x * y).exp(), (leaf(1.0, 2.0), leaf(0.5)), **options)
        assert gradgradcheck(ag.tanh, leaf(1.0, 2.0), check_fwd_over_rev=True, fast_mode=True)

    def test_cotangents_with_gaps(self):
        strides = []

        class Square(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                strides.append(g.stride())
                return g * 2 * ctx.saved_tensors[0]

        assert gradgradcheck(Square.apply, leaf(1.0, 2.0), gen_non_contig_grad_outputs=True, check_undefined_grad=False)
        assert set(strides) == {(2,)}

    def test_batches_of_gradients_that_differ(self):
        calls = []

        class LaterIsWrong(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                calls.append(1)
                return g * (3 if len(calls) > 4 else 2)

        with pytest.raises(ag.autograd.GradcheckError, match=r"(?s)For output 0 and input 0:.*Got:.*Expected:"):
            gradcheck(LaterIsWrong.apply, leaf(1.0), check_batched_grad=True)


def test_a_result_that_does_not_require_grad_has_to_be_constant():
    with pytest.raises(ag.autograd.GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach(), (leaf(1.0, 2.0),))
