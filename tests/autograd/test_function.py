"""Function: contexts, what is saved, results of every kind, several outputs, errors."""

from __future__ import annotations

import gc
import math

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


@pytest.fixture
def x(device):
    return ag.ones(2, requires_grad=True, device=device)


class TestFunction:
    @pytest.mark.parametrize("shape", [(2, 2), (1,)])
    def test_a_result_that_is_a_view_of_something_else(self, shape):
        """Values do not count: at shape (1,) what the result views equals the argument."""

        class Same(Function):
            @staticmethod
            def forward(ctx, x):
                return (x * 1).view(1, -1)

            @staticmethod
            def backward(ctx, g):
                return g.view(shape) * 3

        x = ag.ones(shape, requires_grad=True)
        y = Same.apply(x)
        assert y._base is not x
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            y.mul_(2)
        y.sum().backward()
        assert x.grad.tolist() == (3 * ag.ones(shape)).tolist()

    def test_setup_context_form(self):
        class Cube(Function):
            @staticmethod
            def forward(x):
                return x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 3 * x * x * g

        x = leaf(2.0, 3.0)
        assert gradcheck(Cube.apply, (x,))
        assert gradgradcheck(Cube.apply, (x,))
        assert Cube.apply(x).grad_fn.name() == "CubeBackward"

    def test_saved_output_and_constants(self):
        class Exp(Function):
            @staticmethod
            def forward(ctx, x, scale):
                out = ag.exp(x * scale)
                ctx.save_for_backward(out)
                ctx.scale = scale
                return out

            @staticmethod
            def backward(ctx, g):
                (out,) = ctx.saved_tensors
                return g * out * ctx.scale, None

        x = leaf(0.5, 1.0)
        assert gradgradcheck(lambda x: Exp.apply(x, 2.0), (x,))

    def test_needs_input_grad_in_forward(self):
        seen = []

        class F(Function):
            @staticmethod
            def forward(ctx, a, b, n):
                seen.append(ctx.needs_input_grad)
                return a + b

            @staticmethod
            def backward(ctx, g):
                return g, g, None

        F.apply(leaf(1.0), ag.ones(1, dtype=ag.float64), 3)
        assert seen == [(True, False, False)]

    def test_several_outputs_and_materialization(self):
        got = []

        class Two(Function):
            @staticmethod
            def forward(ctx, x, materialize):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g1, g2):
                got.append((g1, g2))
                return (0 if g1 is None else g1 * 2) + (0 if g2 is None else g2 * 3), None

        x = leaf(1.0)
        assert grad(Two.apply(x, True)[1], x)[0].item() == 3.0
        assert got[-1][0].tolist() == [0.0]
        assert grad(Two.apply(x, False)[1], x)[0].item() == 3.0
        assert got[-1][0] is None

    def test_mark_non_differentiable(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                a, b = x * 2, x * 3
                ctx.mark_non_differentiable(b)
                return a, b

            @staticmethod
            def backward(ctx, ga, gb):
                return ga * 2

        a, b = F.apply(leaf(1.0))
        assert a.requires_grad
        assert not b.requires_grad

    def test_once_differentiable(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 2 * x

        x = leaf(3.0)
        assert grad(F.apply(x), x)[0].item() == 6.0
        (g,) = grad(F.apply(x), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad(g, x)

    def test_errors(self):
        class WrongCount(Function):
            @staticmethod
            def forward(ctx, a, b):
                return a + b

            @staticmethod
            def backward(ctx, g):
                return g

        class WrongShape(WrongCount):
            @staticmethod
            def backward(ctx, g):
                return ag.ones(5, dtype=ag.float64), g

        class SavesANumber(WrongCount):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(1)

        class NoBackward(Function):
            @staticmethod
            def forward(ctx, a):
                return a * 1

        with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
            WrongCount.apply(leaf(1.0), leaf(1.0)).backward()
        with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
            WrongShape.apply(leaf(1.0, 2.0), leaf(1.0, 2.0)).sum().backward()
        with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
            NoBackward.apply(leaf(1.0)).backward()
        with pytest.raises(TypeError, match="save_for_backward can only save"):
            SavesANumber.apply(leaf(1.0))

    def test_input_handed_through(self):
        class Same(Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 5

        x = leaf(1.0)
        y = Same.apply(x)
        assert y is not x
        assert x.is_leaf
        assert grad(y, x)[0].item() == 5.0

    def test_arrays_become_tensors(self):
        """forward and backward may compute on arrays; NumPy's sums are scalars of its own."""

        class Sums(Function):
            @staticmethod
            def forward(ctx, x):
                return x.array * 2, x.array.sum(), "no array"

            @staticmethod
            def backward(ctx, g, g_sum, _):
                assert isinstance(g_sum, ag.Tensor)
                return g.array * 2 + g_sum.array

        x = leaf(1.0, 2.0)
        double, total, text = Sums.apply(x)
        assert (double.tolist(), total.tolist(), text) == ([2.0, 4.0], 3.0, "no array")
        assert double.grad_fn is total.grad_fn is not None
        assert grad(double.sum() + total, x)[0].tolist() == [3.0, 3.0]
        with ag.no_grad():
            assert isinstance(Sums.apply(x)[0], ag.Tensor)

    def test_setup_context_sees_tensors(self):
        class Exp(Function):
            @staticmethod
            def forward(x):
                return 2 ** x.array

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(output)

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0] * math.log(2)

        assert gradcheck(Exp.apply, (leaf(1.0, 2.0),))

    def test_arrays_of_a_once_differentiable_backward_are_marked(self):
        class Cube(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.array**3

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return g.array * 3 * ctx.saved_tensors[0].array ** 2

        x = leaf(1.0, 2.0)
        (g,) = grad(Cube.apply(x).sum(), x, create_graph=True)
        assert g.tolist() == [3.0, 12.0]
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad((g + x).sum(), x)


class TestContext:
    def test_ctx_attributes_are_the_users(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mask, ctx.shape, ctx.dtype, ctx.extra, ctx.edges = x > 0, "s", "d", "e", "f"
                return x * ctx.mask

            @staticmethod
            def backward(ctx, g):
                assert (ctx.shape, ctx.dtype, ctx.extra, ctx.edges) == ("s", "d", "e", "f")
                return g * ctx.mask

        assert grad(F.apply(leaf(1.0, -1.0, 2.0)).sum(), x := leaf(1.0), allow_unused=True) == (None,)
        x = leaf(1.0, -1.0, 2.0)
        assert grad(F.apply(x).sum(), x)[0].tolist() == [1.0, 0.0, 1.0]

    def test_gradient_comes_in_the_inputs_dtype(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g.double() * 2

        x = ag.ones(2, requires_grad=True)
        assert grad(F.apply(x).sum(), x, create_graph=True)[0].dtype == ag.float32

    def test_saved_non_differentiable_output_does_not_require_grad(self):
        seen = []

        class F(Function):
            @staticmethod
            def forward(ctx, x):
                mask = (x > 0).double()
                ctx.mark_non_differentiable(mask)
                ctx.save_for_backward(mask)
                return x * mask, mask

            @staticmethod
            def backward(ctx, g, _):
                seen.append(ctx.saved_tensors[0].requires_grad)
                return g * ctx.saved_tensors[0]

        x = leaf(1.0, -1.0)
        grad(F.apply(x)[0].sum(), x, create_graph=True)
        assert seen == [False]

    def test_values_that_are_no_tensors_have_a_slot(self):
        got = []

        class F(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, 5, None

            @staticmethod
            def backward(ctx, *gs):
                got.extend(gs)
                return gs[0] * 2

        y, five, none = F.apply(x := leaf(1.0))
        assert (five, none) == (5, None)
        grad(y, x)
        assert len(got) == 3
        assert got[1:] == [None, None]

    def test_keywords_and_defaults_reach_setup_context(self):
        class F(Function):
            @staticmethod
            def forward(x, k=3):
                return x * k

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.k = inputs[1]

            @staticmethod
            def backward(ctx, g):
                return g * ctx.k, None

        x = leaf(1.0)
        assert grad(F.apply(x), x)[0].item() == 3.0
        assert grad(F.apply(x, k=4), x)[0].item() == 4.0

    def test_gradient_for_a_number_is_refused(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x, n):
                return x * n

            @staticmethod
            def backward(ctx, g):
                return g, g

        with pytest.raises(RuntimeError, match="different than None at position 1"):
            F.apply(leaf(1.0), 2).backward()

    @pytest.mark.cpu  # the emulated device keeps a record of every block of memory
    def test_once_differentiable_leaves_nothing_behind(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return g * 2 * ctx.saved_tensors[0]

        x = leaf(3.0)
        grad(F.apply(x), x, create_graph=True)
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            for _ in range(20):
                grad(F.apply(x), x, create_graph=True)
            assert len(gc.get_objects()) - before < 20
        finally:
            gc.enable()


@pytest.mark.parametrize("mode", [ag.no_grad, ag.enable_grad])
def test_a_graph_made_inside_of_a_function_stays_inside(mode, x):
    class Leaks(Function):
        @staticmethod
        def forward(ctx, t):
            with ag.enable_grad():
                return t * x

        @staticmethod
        def backward(ctx, g):
            return g

    with mode():
        assert not Leaks.apply(ag.ones(2, device=x.device)).requires_grad
