"""grad, backward, Function, modes, edges, logging, profiler: as a user calls them."""

from __future__ import annotations

import logging
import math
import threading

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable
from autograd_gpu.autograd.graph import GradientEdge, Node, get_gradient_edge


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


class TestGrad:
    def test_arguments(self):
        x = leaf(1.0, 2.0)
        y = x * x
        with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
            grad(y, x)
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            grad(y, x, ag.ones(3, dtype=ag.float64))
        with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
            grad(y, x, [ag.ones(2), ag.ones(2)])
        with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
            grad(ag.ones(1), x)
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
            grad(y.sum(), ag.ones(2))
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
            grad(y.sum(), [])

    def test_dtype_of_grad_outputs_is_cast(self):
        x = leaf(1.0, 2.0)
        (g,) = grad(x * x, x, ag.ones(2, dtype=ag.float32))
        assert g.dtype == ag.float64

    def test_leaves_grad_alone(self):
        x = leaf(1.0)
        grad(x * x, x)
        assert x.grad is None

    def test_retain_graph(self):
        x = leaf(3.0)
        y = x * x
        grad(y, x, retain_graph=True)
        grad(y, x)
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            grad(y, x)
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            _ = y.grad_fn._saved_a

    def test_nothing_saved_may_run_twice(self):
        x = leaf(3.0)
        y = x + 1
        grad(y, x)
        grad(y, x)

    def test_unused(self):
        x, z = leaf(1.0), leaf(1.0)
        y = x * 2
        with pytest.raises(RuntimeError, match="allow_unused=True"):
            grad(y, [x, z], retain_graph=True)
        assert grad(y, [x, z], retain_graph=True, allow_unused=True)[1] is None
        assert grad(y, [x, z], materialize_grads=True)[1].tolist() == [0.0]
        with pytest.raises(ValueError, match="materialize_grads"):
            grad(y, [x, z], allow_unused=False, materialize_grads=True)

    def test_intermediate_and_itself(self):
        x = leaf(2.0)
        y = x * x
        z = y * 3
        assert [g.item() for g in grad(z, [y, x, z])] == [3.0, 12.0, 1.0]

    def test_same_input_twice(self):
        x = leaf(2.0)
        assert [g.item() for g in grad(x * x, [x, x])] == [4.0, 4.0]

    def test_several_outputs(self):
        x = leaf(2.0)
        assert grad([x * x, x * 3], x, [leaf(1.0), leaf(10.0)])[0].item() == 34.0

    def test_third_derivative(self):
        x = leaf(2.0)
        g = x**4
        for expected in (32.0, 48.0, 48.0, 24.0):
            (g,) = grad(g, x, create_graph=True)
            assert g.item() == expected

    def test_batched(self):
        x = leaf(1.0, 2.0)
        (g,) = grad(x * x, x, ag.eye(2, dtype=ag.float64), is_grads_batched=True)
        assert g.tolist() == [[2.0, 0.0], [0.0, 4.0]]

    def test_batch_of_no_cotangents(self):
        x = leaf(1.0, 2.0)
        with pytest.raises(IndexError, match="index 0 is out of bounds for dimension 0 with size 0"):
            grad(x * x, x, ag.ones(0, 2, dtype=ag.float64), is_grads_batched=True)

    def test_batch_of_which_some_reach_the_input(self):
        class Some(ag.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2 if g[1].item() else None

        x = leaf(1.0, 2.0)
        (g,) = grad(Some.apply(x), x, ag.eye(2, dtype=ag.float64), is_grads_batched=True, allow_unused=True)
        assert g.tolist() == [[0.0, 0.0], [0.0, 2.0]]
        assert ag.autograd.functional.jacobian(Some.apply, x).tolist() == [[0.0, 0.0], [0.0, 2.0]]

    def test_multi_output_op(self):
        x = leaf(1.0, 2.0, 3.0)
        a, b, _c = x.unbind()
        assert grad(a * b, x)[0].tolist() == [2.0, 1.0, 0.0]
        values, indices = leaf(1.0, 5.0, 2.0).max(dim=0)
        assert values.requires_grad
        assert not indices.requires_grad

    def test_broadcast_gradients_are_summed(self):
        a, b = ag.ones(3, 1, dtype=ag.float64, requires_grad=True), ag.ones(4, dtype=ag.float64, requires_grad=True)
        ga, gb = grad((a * b).sum(), [a, b])
        assert ga.tolist() == [[4.0]] * 3
        assert gb.tolist() == [3.0] * 4


class TestBackward:
    def test_create_graph(self):
        x = leaf(2.0)
        (x**3).backward(create_graph=True)
        assert x.grad.requires_grad
        (g2,) = grad(x.grad, x)
        assert g2.item() == 12.0

    def test_on_a_leaf(self):
        x = leaf(2.0)
        x.backward()
        assert x.grad.item() == 1.0

    def test_accumulates(self):
        x = leaf(2.0)
        for _ in range(3):
            (x * 2).backward()
        assert x.grad.item() == 6.0


class TestEdges:
    def test_as_input_and_output(self):
        x = leaf(1.0, 2.0)
        y = x * x
        edge = get_gradient_edge(y)
        assert isinstance(edge, GradientEdge)
        assert isinstance(edge.node, Node)
        assert edge.output_nr == 0
        assert grad((y * 3).sum(), edge)[0].tolist() == [3.0, 3.0]
        assert grad(edge, x, ag.ones(2, dtype=ag.float64))[0].tolist() == [2.0, 4.0]

    def test_of_one_output_of_several(self):
        x = leaf(1.0, 2.0)
        a, b = x.unbind()
        edge = get_gradient_edge(b)
        assert edge.output_nr == 1
        assert grad(a * b * 5, edge)[0].item() == 5.0

    def test_needs_grad(self):
        with pytest.raises(RuntimeError, match="does not require"):
            get_gradient_edge(ag.ones(1))


class TestNodes:
    def test_introspection(self):
        x = leaf(1.0)
        y = x * 2 + 1
        node = y.grad_fn
        assert node.name() == "AddBackward0"
        (mul, nr), _ = node.next_functions
        assert mul.name() == "MulBackward0"
        assert nr == 0
        acc = mul.next_functions[0][0]
        assert acc.name() == "AccumulateGrad"
        assert acc.variable is x
        assert mul._saved_b == 2
        node.metadata["note"] = 1
        assert node.metadata == {"note": 1}

    def test_hooks(self):
        x = leaf(1.0)
        y = x * 2
        y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
        y.grad_fn.register_hook(lambda grads, gs: (grads[0] + gs[0], None))
        assert grad(y, x)[0].item() == 30.0


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

    def test_no_forward_mode(self):
        with pytest.raises(NotImplementedError, match="check_forward_ad=True: there is no forward mode"):
            gradcheck(ag.sin, leaf(1.0), check_forward_ad=True)
        with pytest.raises(NotImplementedError, match="check_fwd_over_rev=True: there is no forward mode"):
            gradgradcheck(ag.sin, leaf(1.0), check_fwd_over_rev=True)

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

        with pytest.raises(ag.autograd.GradcheckError, match="a batch of gradients gives another gradient of input 0"):
            gradcheck(LaterIsWrong.apply, leaf(1.0), check_batched_grad=True)


class TestLogging:
    @pytest.mark.cpu
    def test_one_record_per_node(self, caplog):
        x, w, b = (ag.ones(*s, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
        y = ag.nn.functional.linear(x, w, b).exp().sum()
        with caplog.at_level(logging.DEBUG, logger="autograd_gpu.autograd.graph"):
            grad(y, x)
        first, second, third = (r.getMessage() for r in caplog.records)
        assert first.startswith("Executing: <SumBackward0 object at 0x")
        assert first.endswith("with grad_outputs: [f32[]]")
        assert "<ExpBackward0 object at 0x" in second
        assert second.endswith("with grad_outputs: [f32[2, 4]]")
        assert third.endswith("with grad_outputs: [f32[2, 4]] skipped: weight, bias")
        assert all(r.levelno == logging.DEBUG for r in caplog.records)

    def test_off_formats_nothing(self, monkeypatch):
        monkeypatch.setattr(ag.core.engine.observers, "describe", lambda g: pytest.fail("formatted"))
        x = leaf(1.0)
        grad(x.exp(), x)

    def test_environment(self):
        import os
        import subprocess
        import sys

        code = "import autograd_gpu as ag; x = ag.ones(10, requires_grad=True); x.exp().sum().backward()"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "AUTOGRAD_GPU_LOGS": "+autograd"},
                              capture_output=True, text=True, check=True)
        lines = done.stderr.splitlines()
        assert len(lines) == 3
        assert "[DEBUG] Executing: <ExpBackward0 object at 0x" in lines[1]
        assert lines[1].endswith("with grad_outputs: [f32[10]]")
        assert lines[1][:2] == "20"

    def test_unknown_name(self, monkeypatch):
        monkeypatch.setenv("AUTOGRAD_GPU_LOGS", "+nothing")
        with pytest.raises(ValueError, match="unknown log"):
            ag.logging.configure_from_environment()


class TestProfiler:
    def test_counts(self):
        a, b = ag.ones(4, 3, requires_grad=True), ag.ones(3, 2, requires_grad=True)
        with ag.profiler.count() as c:
            y = a @ b
            ag.bmm(ag.ones(5, 2, 3), ag.ones(5, 3, 4))
            y.sum().backward()
        assert dict(c.matmuls) == {(4, 3, 2): 1, (5, 2, 3, 4): 1, (4, 2, 3): 1, (3, 4, 2): 1}
        before = dict(c.matmuls)
        _ = a @ b
        assert dict(c.matmuls) == before


@pytest.mark.cuda
def test_mixed_devices_say_what_to_call():
    with pytest.raises(RuntimeError, match=r"same device, but found cpu and cuda:0; move one with \.to\('cpu'\)"):
        ag.ones(2, device="cpu") * ag.ones(2, device="cuda")
