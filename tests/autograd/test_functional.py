"""autograd.functional: closed forms, structures, graphs kept and cut, strict mode, matrix products counted."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, profiler
from autograd_gpu.autograd import functional
from autograd_gpu.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp


def double(values, requires_grad=False):
    return ag.tensor(values, dtype=ag.float64, requires_grad=requires_grad)


def close(ours, expected):
    np.testing.assert_allclose(ours.numpy(force=True), expected, rtol=1e-12, atol=1e-14)


# ---- by hand ----------------------------------------------------------------------------------------------------


class TestValues:
    def test_jacobian(self, device):
        jacobians = jacobian(lambda x: ag.stack([x[0] * x[1], x[1] ** 2, x[0]]), double([2.0, 3.0]))
        assert jacobians.device.type == device
        close(jacobians, [[3, 2], [0, 6], [1, 0]])

    def test_shape_is_that_of_the_output_then_of_the_input(self):
        x = double(np.arange(6.0).reshape(2, 3))
        jacobians = jacobian(lambda x: x.mT.exp(), x)
        assert jacobians.shape == (3, 2, 2, 3)
        close(jacobians, np.einsum("ik,jl,ij->jikl", np.eye(2), np.eye(3), np.exp(x.numpy(force=True))))

    def test_hessian_of_a_form(self):
        a = np.random.normal(size=(3, 3))
        close(hessian(lambda x: x @ double(a) @ x, double([1.0, 2.0, 3.0])), a + a.T)

    def test_products(self):
        def f(x):
            return ag.stack([x[0] * x[1], x[1] ** 2])

        x, v = double([2.0, 3.0]), double([10.0, 100.0])
        output, product = vjp(f, x, v)
        close(output, [6, 9])
        close(product, np.array([10, 100]) @ [[3, 2], [0, 6]])
        close(jvp(f, x, v)[1], np.array([[3, 2], [0, 6]]) @ [10, 100])

    @pytest.mark.parametrize("product", [vhp, hvp])
    def test_products_with_the_hessian(self, product):
        output, result = product(lambda x: x[0] ** 2 * x[1], double([2.0, 3.0]), double([10.0, 100.0]))
        assert output.item() == 12
        close(result, np.array([[6, 4], [4, 0]]) @ [10, 100])

    @pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
    def test_v_may_be_left_out_for_one_element(self, name):
        _, result = getattr(functional, name)(lambda x: x**3, double([2.0]))
        close(result, [12.0])

    def test_hvp_and_vhp_differ_where_the_hessian_is_not_symmetric(self):
        class Skew(ag.autograd.Function):
            """x[0] * x[1], with the second gradient doubled."""

            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x[0] * x[1]

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * ag.stack([x[1], 2 * x[0]])

        x, v = double([2.0, 3.0]), double([1.0, 10.0])
        close(hessian(Skew.apply, x), [[0, 1], [2, 0]])
        close(vhp(Skew.apply, x, v)[1], [20, 1])
        close(hvp(Skew.apply, x, v)[1], [10, 2])

    def test_an_output_without_elements_has_an_empty_jacobian(self):
        assert jacobian(lambda x: x[:0] * 2, double([1.0, 2.0])).shape == (0, 2)

    def test_integer_and_constant_outputs_have_zeros(self):
        x = double([1.0, 5.0])
        jacobians = jacobian(lambda x: (x.argmax(), x.sum(), ag.ones(3)), (x,))
        assert [j.tolist() for (j,) in jacobians] == [[0.0, 0.0], [1.0, 1.0], [[0.0, 0.0]] * 3]
        assert all(j.dtype == ag.float64 for (j,) in jacobians)

    def test_a_constant_output_runs_no_backward(self, monkeypatch):
        monkeypatch.setattr(functional, "grad", None)
        assert jacobian(lambda x: (ag.ones(3), x.argmax()), ag.ones(2))[0].shape == (3, 2)


class TestStructure:
    def test_jacobian(self):
        x, y = double([1.0, 2.0]), double(3.0)
        one, several = (lambda x, y: x * y), (lambda x, y: (x * y, y))
        assert [j.shape for j in jacobian(one, (x, y))] == [(2, 2), (2,)]
        assert [[j.shape for j in row] for row in jacobian(several, (x, y))] == [[(2, 2), (2,)], [(2,), ()]]
        assert [j.shape for j in jacobian(lambda x: (x, x.sum()), x)] == [(2, 2), (2,)]
        assert isinstance(jacobian(several, (x, y))[0], tuple)
        assert isinstance(jacobian(lambda x: (x,), (x,))[0][0], ag.Tensor)

    def test_hessian(self):
        x, y = double([1.0, 2.0]), double(3.0)
        hessians = hessian(lambda x, y: (x * y).sum() + y**3, (x, y))
        assert isinstance(hessians, tuple)
        assert isinstance(hessians[0], tuple)
        assert [[h.tolist() for h in row] for row in hessians] == [[[[0, 0], [0, 0]], [1, 1]], [[1, 1], 18]]
        assert isinstance(hessian(lambda x: x.sum(), (x,))[0][0], ag.Tensor)

    def test_products(self):
        x, y, w = double([1.0, 2.0]), double(3.0), double([1.0, 1.0])
        outputs, product = vjp(lambda x, y: (x * y, y), (x, y), (w, y))
        assert [t.shape for t in outputs] == [(2,), ()]
        assert [t.tolist() for t in product] == [[3, 3], 6]
        output, product = jvp(lambda x, y: x * y, (x, y), (w, y))
        assert [t.tolist() for t in (output, product)] == [[3, 6], [6, 9]]
        for by in (vhp, hvp):
            output, product = by(lambda x, y: (x * y).sum(), (x, y), (w, y))
            assert output.tolist() == 9
            assert [t.tolist() for t in product] == [[3, 3], 2]

    def test_each_block_has_the_dtype_of_its_input(self):
        x, y = ag.tensor([1.0, 2.0]), double([3.0, 4.0])
        assert [j.dtype for j in jacobian(lambda x, y: x * y, (x, y))] == [ag.float32, ag.float64]
        assert [t.dtype for t in vjp(lambda x, y: (x * y).sum(), (x, y))[1]] == [ag.float32, ag.float64]
        assert jvp(lambda x, y: x * y, (x, y), (x, y))[1].dtype == ag.float64


class TestGraph:
    def test_results_and_outputs_are_cut_off(self):
        x, w = double([1.0, 2.0], True), double([3.0, 4.0], True)

        def f(x):
            return (w * x * x * x).sum()

        results = [jacobian(f, x), hessian(f, x), *vjp(f, x), *jvp(f, x, w), *vhp(f, x, w), *hvp(f, x, w)]
        results += [*vjp(lambda x: x, x, w), *jvp(lambda x: x, x, w)]  # v itself
        assert not any(t.requires_grad for t in results)
        assert x.grad is None
        assert w.grad is None

    @pytest.mark.parametrize("product", [jacobian, hessian])
    def test_inputs_are_left_as_they_were(self, product):
        x = double([1.0, 2.0])
        product(lambda x: (x**3).sum(), x)
        assert not x.requires_grad

    def test_what_the_function_reads_without_being_passed_it_is_constant(self):
        x = double([2.0, 3.0], True)
        close(jacobian(lambda y: x * y, x), np.diag([2, 3]))
        close(jacobian(lambda y: x * y, x, create_graph=True), np.diag([2, 3]))
        assert not hessian(lambda y: (x * x * y).sum(), x, create_graph=True).numpy(force=True).any()

    def test_create_graph_reaches_inputs_weights_and_v(self):
        x, w, v = double([2.0, 3.0], True), double([5.0, 7.0], True), double([1.0, 10.0], True)
        _, product = vjp(lambda x: w * x**2, x, v, create_graph=True)
        grads = ag.autograd.grad(product.sum(), (x, w, v))  # of the sum of 2 v w x
        for g, expected in zip(grads, ([10, 140], [4, 60], [20, 42]), strict=True):
            close(g, expected)

    def test_create_graph_with_inputs_that_need_no_gradient_reaches_weights_only(self):
        x, w = double([2.0, 3.0]), double([5.0, 7.0], True)
        close(ag.autograd.grad(hessian(lambda x: (w * x**3).sum(), x, create_graph=True).sum(), w)[0], [12, 18])
        assert not x.requires_grad

    def test_create_graph_keeps_the_graph_before_the_input(self):
        a = double([1.0, 2.0], True)
        x = a**2
        third = jacobian(lambda x: hessian(lambda y: (y**4).sum(), x, create_graph=True), x, create_graph=True)
        close(third[0, 0], [24, 0])
        close(ag.autograd.grad(third.sum(), a)[0], [48, 96])  # of 24 x

    def test_create_graph_lets_outputs_be_differentiated(self):
        x = double([2.0, 3.0], True)
        for product in (vjp, jvp, vhp, hvp):
            v = None if product is vjp else double([1.0, 1.0])
            output, _ = product(lambda x: (x**2).sum(), x, v, create_graph=True)
            close(ag.autograd.grad(output, x)[0], [4, 6])

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_works_where_recording_is_off(self, create_graph):
        x = double([2.0, 3.0], True)
        with ag.no_grad():
            jacobians = jacobian(lambda x: x**2, x, create_graph)
            output, product = hvp(lambda x: (x**3).sum(), x, double([1.0, 1.0]), create_graph)
            close(jvp(lambda x: x**2, x, double([1.0, 1.0]), create_graph)[1], [4, 6])
            close(vhp(lambda x: (x**3).sum(), x, double([1.0, 1.0]), create_graph)[1], [12, 18])
            assert not ag.is_grad_enabled()
        close(jacobians, np.diag([4, 6]))
        close(product, [12, 18])
        assert jacobians.requires_grad == output.requires_grad == product.requires_grad == create_graph

    def test_the_functions_own_graph_is_left_usable(self):
        x, w, kept = double([2.0, 3.0]), double([5.0, 7.0], True), []

        def f(x):
            kept.append((w * x).exp())
            return kept[-1] * 2

        jacobian(f, x)
        ag.autograd.grad(kept[0].sum(), w)

    def test_nothing_is_held(self):
        held = []

        def f(x):
            out = x.exp()
            held.append(weakref.ref(out.grad_fn))
            return (out * x).sum()

        gc.collect()
        gc.disable()
        try:
            hessian(f, double([1.0, 2.0]))
            hvp(f, double([1.0, 2.0]), double([1.0, 2.0]))
            assert [ref() for ref in held] == [None, None]
        finally:
            gc.enable()


class TestStrict:
    def test_constant_output(self):
        with pytest.raises(RuntimeError, match=r"Output 0 of the user-provided function does not require gradients"):
            jacobian(lambda x: ag.ones(2), double([1.0]), strict=True)

    def test_what_depends_passes(self):
        x = double([1.0, 2.0])
        for create_graph in (False, True):
            close(jacobian(lambda x: x**3, x, create_graph, strict=True), np.diag([3, 12]))
            close(hessian(lambda x: (x**4).sum(), x, create_graph, strict=True), np.diag([12, 48]))
            for name, product in (("vjp", [3, 24]), ("jvp", [3, 24])):
                close(getattr(functional, name)(lambda x: x**3, x, x, create_graph, strict=True)[1], product)
            for product in (vhp, hvp):
                close(product(lambda x: (x**4).sum(), x, x, create_graph, strict=True)[1], [12, 96])

    def test_names_the_input_that_is_not_used(self):
        x = double([1.0, 2.0])
        with pytest.raises(RuntimeError, match=r"Output 1 of .* independent of input 0\. .* in strict mode\."):
            jacobian(lambda x, y: (x * y, y * 2), (x, x), strict=True)
        with pytest.raises(RuntimeError, match=r"independent of input 1\. This is not allowed in strict mode when"):
            jacobian(lambda x, y: x**2 + y, (x, x), create_graph=True, strict=True)
        with pytest.raises(RuntimeError, match=r"output of the user-provided function is independent of input 1\."):
            vjp(lambda x, y: x.sum(), (x, x), strict=True)

    def test_a_product_that_cannot_be_differentiated_by_the_input(self):
        x, v = double([1.0, 2.0], True), double([1.0, 1.0])
        for call in (vjp, jvp):
            with pytest.raises(RuntimeError, match=r"jacobian of .* independent of input 0\. .* when create_graph"):
                call(lambda x: 2 * x, x, v, True, True)
        for call in (vhp, hvp):
            with pytest.raises(RuntimeError, match=r"hessian of .* independent of input 0\. .* when create_graph"):
                call(lambda x: (x**2).sum(), x, v, True, True)

    def test_a_linear_function_has_no_hessian(self):
        x = double([1.0, 2.0])
        for call in (lambda f: hessian(f, x, strict=True), lambda f: vhp(f, x, x, strict=True),
                     lambda f: hvp(f, x, x, strict=True)):  # fmt: skip
            with pytest.raises(RuntimeError, match="violated by a linear function for example"):
                call(lambda x: (3 * x).sum())


    def test_a_structural_zero_depends_on_nothing(self):
        """The Hessian of a ReLU network: zeros without a graph, and strict about it where one is wanted."""
        x = double([[1.0, -2.0]], True)
        for call in (hessian, lambda *args: vhp(args[0], x, x, *args[2:])[1]):
            result = call(lambda x: (2 * x).relu().sum(), x, True)
            assert not result.numpy(force=True).any()
            assert not result.requires_grad
            call(lambda x: (2 * x).relu().sum(), x, False, True)
            with pytest.raises(RuntimeError, match=r"independent of input 0\. .* strict mode when create_graph=True"):
                call(lambda x: (2 * x).relu().sum(), x, True, True)


class TestArguments:
    def test_structure_of_v(self):
        x, f = double([1.0, 2.0]), (lambda x: (x**2).sum())
        with pytest.raises(RuntimeError, match=r"v has invalid size: should be torch.Size\(\[2\]\) but got torch"):
            vhp(f, x, ag.ones(3))
        with pytest.raises(RuntimeError, match=r"Entry 1 in v has invalid size"):
            hvp(lambda x, y: (x * y).sum(), (x, x), (x, ag.ones(3)))
        with pytest.raises(RuntimeError, match=r"v is a tuple of invalid length: should be 1 but got 2\."):
            jvp(f, (x,), (x, x))
        with pytest.raises(RuntimeError, match=r"The given v should contain a single Tensor\."):
            vjp(f, x, (x, x))
        with pytest.raises(RuntimeError, match="v can only be None if the input to the user-provided function is"):
            vhp(f, x)
        with pytest.raises(RuntimeError, match="v can only be None if the user-provided function returns"):
            vjp(lambda x: x * 2, x)

    @pytest.mark.parametrize("product", [hessian, vhp, hvp])
    def test_the_hessian_is_of_one_element(self, product):
        x = double([1.0])
        with pytest.raises(RuntimeError, match="should return a single Tensor"):
            product(lambda x: (x,), x)
        with pytest.raises(RuntimeError, match="should contain a single element"):
            product(lambda x: ag.cat([x, x]), x)

    def test_tensors_are_expected(self):
        with pytest.raises(TypeError, match="inputs given to jacobian must be either a Tensor or a tuple of Tensors"):
            jacobian(ag.exp, np.ones(2))
        with pytest.raises(TypeError, match="the value at index 1 has type <class 'float'>"):
            hessian(ag.mul, (ag.ones(1), 2.0))
        with pytest.raises(TypeError, match="outputs of the user-provided function given to vjp"):
            vjp(lambda x: [x], ag.ones(1))

    def test_vectorize_changes_no_number(self):
        x = double([1.0, 2.0])
        close(jacobian(lambda x: x**2, x, vectorize=True), np.diag([2, 4]))
        close(hessian(lambda x: (x**3).sum(), x, vectorize=True), np.diag([6, 12]))
        close(jacobian(lambda x: x**2, x, vectorize=True, strategy="forward-mode"), np.diag([2, 4]))
        f = lambda x: (x**3).sum()  # noqa: E731
        close(hessian(f, x, vectorize=True, outer_jacobian_strategy="forward-mode"), np.diag([6, 12]))

    def test_vectorize_runs_once(self):
        calls = []

        class Cube(ag.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                return x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, g):
                calls.append("backward")
                return 3 * ctx.saved_tensors[0] ** 2 * g

            @staticmethod
            def jvp(ctx, t):
                calls.append("jvp")
                return 3 * ctx.saved_tensors[0] ** 2 * t

        x = double([1.0, 2.0, 3.0])
        close(jacobian(Cube.apply, x, vectorize=True), np.diag([3, 12, 27]))
        close(jacobian(Cube.apply, x, vectorize=True, strategy="forward-mode"), np.diag([3, 12, 27]))
        assert calls == ["backward", "jvp"]

    def test_forward_mode_inside_of_a_transform(self):
        x = double([[1.0, 2.0], [3.0, 4.0]])
        jacobians = ag.func.vmap(lambda x: jacobian(lambda x: x**2, x, vectorize=True, strategy="forward-mode"))(x)
        close(jacobians, 2 * np.stack([np.diag([1, 2]), np.diag([3, 4])]))

    def test_vectorized_is_differentiable(self):
        x = double([1.0, 2.0]).requires_grad_()
        jacobians = jacobian(lambda x: x**3, x, create_graph=True, vectorize=True)
        close(ag.autograd.grad(jacobians.sum(), x)[0], [6, 12])

    def test_vectorized_of_nothing_and_of_constants(self):
        x, empty = double([1.0, 2.0]), double([])
        for options in ({}, {"strategy": "forward-mode"}):
            f = lambda x, y: (x.sum(), ag.ones(3, dtype=ag.float64))  # noqa: E731
            jacobians = jacobian(f, (x, empty), vectorize=True, **options)
            assert [[part.shape for part in row] for row in jacobians] == [[(2,), (0,)], [(3, 2), (3, 0)]]
            close(jacobians[1][0], np.zeros((3, 2)))
            assert jacobian(lambda x: x * 2, empty, vectorize=True, **options).shape == (0, 0)

    def test_vectorize_is_not_strict(self):
        for call in (lambda: jacobian(ag.exp, ag.ones(2), strict=True, vectorize=True),
                     lambda: hessian(lambda x: (x**3).sum(), ag.ones(2), strict=True, vectorize=True)):  # fmt: skip
            with pytest.raises(RuntimeError, match="`strict=True` and `vectorized=True` are not supported together"):
                call()

    def test_strategies(self):
        x = ag.ones(2)
        for message, kind, options in (
            ("only implemented for `vectorize=True`", NotImplementedError, {}),
            ("`create_graph=True` and `strategy=.forward-mode.`", NotImplementedError, {"create_graph": True}),
            ("`strict=True` and `strategy=.forward-mode.`", RuntimeError, {"strict": True}),
        ):
            with pytest.raises(kind, match=message):
                jacobian(ag.exp, x, strategy="forward-mode", **options)
            with pytest.raises(kind, match=message):
                hessian(ag.sum, x, outer_jacobian_strategy="forward-mode", **options)
        for call in (lambda: jacobian(ag.exp, x, strategy="both"),
                     lambda: hessian(ag.sum, x, outer_jacobian_strategy="both")):  # fmt: skip
            with pytest.raises(AssertionError, match='Expected strategy to be either "forward-mode" or "reverse-mode"'):
                call()


# ---- matrix products --------------------------------------------------------------------------------------------


def network(activation):
    layers = [nn.Linear(3, 8), activation(), nn.Linear(8, 8), activation(), nn.Linear(8, 1)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize(("activation", "per_row"), [(nn.Tanh, 4), (nn.ReLU, 0)])
@pytest.mark.parametrize("create_graph", [False, True])
def test_products_of_a_hessian(activation, per_row, create_graph):
    """3 forward, 3 for the gradient, and per row the two weights that lie between two tanh's, each way.

    Nothing for the weights, which require grad; nothing for the rows of a ReLU network, which are structural zeros.
    """
    model, x = network(activation), ag.randn(2, 3)
    with profiler.count() as counts:
        hessians = hessian(lambda x: model(x).sum(), x, create_graph)
    assert hessians.shape == (2, 3, 2, 3)
    assert sum(counts.matmuls.values()) == 3 + 3 + 6 * per_row


@pytest.mark.parametrize(("product", "products"), [(vjp, 6), (jvp, 9), (vhp, 10), (hvp, 14)])
def test_products_of_one_with_a_vector(product, products):
    model, x = network(nn.Tanh), ag.randn(2, 3)
    v = ag.ones(()) if product is vjp else ag.randn(2, 3)
    with profiler.count() as counts:
        product(lambda x: model(x).sum(), x, v)
    assert sum(counts.matmuls.values()) == products
