"""Functions and leaves below a backward that answered None, and behind derivatives that are zero, as with PyTorch."""

import pytest
from against_torch import ag, both, leaf


class Functions:
    """Scale: y = 2 x, which counts its backward calls. Half: two results, of which only the first has a gradient."""

    def __init__(self, m):
        outer = self
        self.calls = []

        class Scale(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                outer.calls.append(g.tolist())
                return g * 2

        class Half(m.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a * 1, b * 1

            @staticmethod
            def backward(ctx, g, h):
                return g, None

        self.scale, self.half = Scale.apply, Half.apply


def compared(program):
    """program(m, functions, w, x) with both libraries: its result, the leaves' gradients, Scale's calls."""

    def run(m):
        functions, w, x = Functions(m), leaf(m), leaf(m)
        result = program(m, functions, w, x)
        return result, w.grad, x.grad, functions.calls

    return both(run)


ZEROS = [0.0, 0.0]


class TestBelowNone:
    def test_a_function_runs_on_zeros(self):
        def program(m, f, w, x):
            f.half(w, f.scale(x))[1].sum().backward()

        assert compared(program) == [None, ZEROS, ZEROS, [ZEROS]]

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_for_grad(self, create_graph):
        def program(m, f, w, x):
            return m.autograd.grad(f.half(w, f.scale(x))[1].sum(), x, create_graph=create_graph)

        assert compared(program) == [[ZEROS], None, None, [ZEROS]]

    def test_behind_ops(self):
        def program(m, f, w, x):
            f.half(w, f.scale(x).exp().sum())[1].backward()

        assert compared(program)[2:] == [ZEROS, [ZEROS]]

    def test_above_ops(self):
        def program(m, f, w, x):
            f.half(w, f.scale(x * 3))[1].sum().backward()

        assert compared(program)[2:] == [ZEROS, [ZEROS]]

    def test_ops_and_leaves_get_nothing(self):
        def program(m, f, w, x):
            f.half(w, x * 2)[1].sum().backward()
            f.half(w, x)[1].sum().backward()
            return m.autograd.grad(f.half(w, x * 2)[1].sum(), x, allow_unused=True)

        assert compared(program) == [[None], ZEROS, None, []]

    def test_what_is_not_asked_for_does_not_run(self):
        def program(m, f, w, x):
            y = f.scale(x)
            return m.autograd.grad(f.half(w, y)[1].sum(), y, allow_unused=True)

        assert compared(program) == [[None], None, None, []]

    def test_several_results(self):
        def program(m, f, w, x):
            seen = []

            class Two(m.autograd.Function):
                @staticmethod
                def forward(ctx, a, b):
                    return a * 1, b * 1

                @staticmethod
                def backward(ctx, g, h):
                    seen.append([g, h])
                    return g, h

            v = leaf(m)
            f.half(w, Two.apply(v, x)[1])[1].sum().backward()
            return seen, v.grad

        assert compared(program) == [[[[ZEROS, ZEROS]], ZEROS], ZEROS, ZEROS, []]

    @pytest.mark.parametrize("taken", [False, True], ids=["answered", "taken by a pre-hook"])
    def test_without_materialized_gradients(self, taken):
        def program(m, f, w, x):
            seen = []

            class Bare(m.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.set_materialize_grads(False)
                    return x * 2

                @staticmethod
                def backward(ctx, g):
                    seen.append(g)
                    return g

            y = Bare.apply(x)
            if taken:
                y.grad_fn.register_prehook(lambda gs: (None,))
                y.sum().backward()
            else:
                f.half(w, y)[1].sum().backward()
            return seen

        assert compared(program)[0] == [None]

    def test_a_prehook_took_the_gradient(self):
        def program(m, f, w, x):
            y = f.scale(x)
            y.grad_fn.register_prehook(lambda gs: (None,))
            y.sum().backward()

        assert compared(program)[2:] == [ZEROS, [ZEROS]]

    def test_reentrant_checkpoint(self):
        def program(m, f, w, x):
            y = checkpoint_of(m)(lambda x: x.exp(), x, use_reentrant=True)
            f.half(w, y)[1].sum().backward()

        assert compared(program)[2] == ZEROS


def checkpoint_of(m):
    if m is ag:
        return ag.utils.checkpoint.checkpoint
    from torch.utils.checkpoint import checkpoint

    return checkpoint


class TestZeroAndNone:
    """A tensor that a zero derivative reaches, while the other path to it answered None, has zeros."""

    def test_leaf(self):
        def program(m, f, w, x):
            y = x * 1
            f.half(y.floor(), y)[0].sum().backward()

        assert compared(program)[2] == ZEROS

    def test_leaf_for_grad(self):
        def program(m, f, w, x):
            y = x * 1
            return m.autograd.grad(f.half(y.floor(), y)[0].sum(), [y, x])

        assert compared(program)[0] == [ZEROS, ZEROS]

    @pytest.mark.parametrize("inner", [False, True])
    def test_leaf_for_backward_with_inputs(self, inner):
        def program(m, f, w, x):
            y = x * 1
            f.half(y.floor(), y)[0].sum().backward(inputs=[y if inner else x])
            return y.grad if inner else None

        assert compared(program)[0 if inner else 2] == ZEROS

    def test_directly(self):
        def program(m, f, w, x):
            f.half(x.floor(), x)[0].sum().backward()
            return m.autograd.grad(f.half(x.floor(), x)[0].sum(), x)

        assert compared(program) == [[ZEROS], None, ZEROS, []]

    def test_hooks_see_zeros(self):
        def program(m, f, w, x):
            seen, y = [], x * 1
            for t in (x, y):
                t.register_hook(lambda g: seen.append(g.tolist()))
            x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
            f.half(y.floor(), y)[0].sum().backward()
            return seen

        assert compared(program)[0] == [ZEROS] * 3

    def test_functions_run(self):
        def program(m, f, w, x):
            y = f.scale(x)
            f.half(y.exp().floor(), y)[0].sum().backward()

        assert compared(program)[2:] == [ZEROS, [ZEROS]]

    def test_one_of_several_outputs(self):
        def program(m, f, w, x):
            a, b = (x * 1).unbind()
            return m.autograd.grad(f.half(a.floor(), b)[0], [a, b], allow_unused=True)

        assert compared(program)[0] == [0.0, None]

    def test_gradient_that_is_there_stays(self):
        def program(m, f, w, x):
            seen = []
            x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
            (x.floor().sum() + (x * 2).sum()).backward()
            return seen

        assert compared(program) == [[[2.0, 2.0]], None, [2.0, 2.0], []]

    def test_create_graph(self):
        def program(m, f, w, x):
            y = x * w
            (g,) = m.autograd.grad(f.half(y.floor(), y)[0].sum(), x, create_graph=True)
            return g, m.autograd.grad(g.sum(), w)

        assert compared(program)[0] == [ZEROS, [ZEROS]]

    def test_none_above_a_zero_derivative_is_zeros_here(self):
        """Declared: nothing below a derivative that is zero is run, so nothing there knows of the None."""
        f, w, x = Functions(ag), leaf(ag), leaf(ag)
        f.half(w, (x * 1).floor())[1].sum().backward()
        assert x.grad.tolist() == ZEROS


class TestOwnOutput:
    """A Function that is asked for the gradient at its own result does not run."""

    @pytest.mark.parametrize("live", [False, True])
    def test_behind_a_zero_derivative(self, live):
        def program(m, f, w, x):
            y = f.scale(x)
            z = y.sign().sum() + y.sum() if live else y.sign().sum()
            return m.autograd.grad(z, y)

        expected = [1.0, 1.0] if live else ZEROS
        assert compared(program) == [[expected], None, None, []]

    def test_one_above_the_other(self):
        def program(m, f, w, x):
            y = f.scale(x)
            z = f.scale(y)
            return m.autograd.grad(z.sign().sum(), [y, z])

        assert compared(program) == [[ZEROS, ZEROS], None, None, [ZEROS]]

    def test_reentrant_checkpoint(self):
        def program(m, f, w, x):
            y = checkpoint_of(m)(lambda x: x.exp(), x, use_reentrant=True)
            return m.autograd.grad(y.sign().sum(), y)

        assert compared(program)[0] == [ZEROS]

    @pytest.mark.parametrize("own", [False, True], ids=["op", "Function"])
    def test_node_hooks_are_not_called_either(self, own):
        def program(m, f, w, x):
            seen, y = [], f.scale(x) if own else x * 2
            y.register_hook(lambda g: seen.append("tensor"))
            y.grad_fn.register_prehook(lambda gs: seen.append("before"))
            y.grad_fn.register_hook(lambda gs, _: seen.append("after"))
            return m.autograd.grad(y.sign().sum(), y), seen

        assert compared(program)[0] == [[ZEROS], ["tensor"]]


def test_zeros_for_an_output_lie_on_its_device():
    class Two(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.device = x.device
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            assert g.device == h.device == ctx.device
            return g + h

    x = leaf(ag)
    Two.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


