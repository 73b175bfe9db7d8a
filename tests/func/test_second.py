"""Faces of second derivatives: shapes, counts of products, fall-backs, errors, nesting, memory."""

import gc
import itertools
import logging
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.autograd import Function
from autograd_gpu.core.declare.op import REGISTRY
from benchmarks.counting import count_ours, hidden_products

pytestmark = pytest.mark.cpu

BATCH, HIDDEN, LAYERS = 48, 16, 6
FACES = (func.hessian, func.hessian_diagonal, func.laplacian, func.value_and_derivatives)


def network(activations, inputs=2, outputs=3):
    sizes = [inputs, *[HIDDEN] * LAYERS, outputs]
    layers = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        layers += [nn.Linear(a, b), *([activations[i]()] if i < LAYERS else [])]
    return nn.Sequential(*layers)


def products(call):
    return hidden_products(count_ours(ag, call)[0], BATCH, HIDDEN)


def rows(inputs=2, dtype=ag.float32):
    return ag.randn(BATCH, inputs, dtype=dtype)


def normal(*shape, seed=0):
    return ag.tensor(np.random.default_rng(seed).normal(size=shape))


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=tolerance, atol=tolerance)


class TestProducts:
    """Products of a batch and a hidden layer, in units of the forward's; the first and the last layer do not count."""

    @pytest.mark.parametrize(("activation", "count"), [
        (nn.Tanh, 30), (nn.SiLU, 30), (nn.GELU, 30), (nn.ReLU, 5), (nn.LeakyReLU, 5), (nn.Hardtanh, 5),
    ])
    def test_activations(self, activation, count):
        net, x = network([activation] * LAYERS), rows()
        assert products(lambda: func.vmap(func.hessian(net))(x)) == count

    @pytest.mark.parametrize("method", ["push", "pull"])
    @pytest.mark.parametrize("k", range(1, LAYERS + 1))
    def test_one_tanh_among_relus(self, k, method):
        net = network([nn.Tanh if i == k - 1 else nn.ReLU for i in range(LAYERS)])
        assert products(lambda: func.vmap(func.hessian(net, method=method))(rows())) == 21 - k

    @pytest.mark.parametrize(("inputs", "count"), [(2, 20), (10, 60)])
    def test_one_output_is_pulled(self, inputs, count):
        net, x = network([nn.Tanh] * LAYERS, inputs, 1), rows(inputs)
        assert products(lambda: func.vmap(func.hessian(net, method="pull"))(x)) == count

    @pytest.mark.parametrize(("face", "count"), [(func.laplacian, 20), (func.hessian_diagonal, 25)])
    def test_less_than_the_hessian(self, face, count):
        net, x = network([nn.Tanh] * LAYERS), rows()
        assert products(lambda: func.vmap(face(net))(x)) == count

    def test_hvp(self):
        net, x = network([nn.Tanh] * LAYERS, 2, 1), rows()
        product = func.vmap(lambda x, v: func.hvp(lambda x: net(x)[0], (x,), (v,)))
        assert products(lambda: product(x, x)) == 20

    @pytest.mark.parametrize(("face", "count"), [(func.hessian, 90), (func.laplacian, 60)])
    def test_with_backward(self, face, count):
        net, x = network([nn.Tanh] * LAYERS), rows()

        def step():
            second, prediction = func.vmap(face(lambda row: (net(row),) * 2, has_aux=True))(x)
            ((second**2).mean() + (prediction**2).mean()).backward()

        assert products(step) == count


class TestShapes:
    def test_several_arguments_are_one_x_cut_into_blocks(self):
        def f(x, scale, y):
            return {"a": (x * y[0, :2]).sin() * scale, "b": [y.exp().sum() * x[1]]}

        args = normal(2), 2.0, normal(2, 3, seed=1)
        hessians = func.hessian(f, argnums=(0, 2))(*args)
        expected = func.jacfwd(func.jacrev(f, (0, 2)), (0, 2))(*args)
        for mine, other in zip((hessians["a"], hessians["b"][0]), (expected["a"], expected["b"][0]), strict=True):
            for i in range(2):
                for j in range(2):
                    assert mine[i][j].shape == other[i][j].shape
                    close(mine[i][j], other[i][j])

    @pytest.mark.parametrize("method", ["push", "pull", "nested"])
    def test_pytrees_as_arguments(self, method):
        def f(p):
            return (p["w"] * p["x"]).tanh().sum(), p["x"] ** 3

        p = {"w": normal(2, 3), "x": normal(3, seed=1)}
        scalar, cubes = func.hessian(f, method=method)(p)
        other, _ = func.jacfwd(func.jacrev(f))(p)
        close(scalar["w"]["x"], other["w"]["x"])
        close(cubes["x"]["x"], func.jacfwd(func.jacrev(lambda x: x**3))(p["x"]))
        assert not cubes["w"]["x"].any()
        close(func.hessian_diagonal(f, method=method)(p)[1]["x"], func.jacrev(lambda x: 3 * x**2)(p["x"]))
        close(func.laplacian(f, method=method)(p)[1], 6 * p["x"])

    @pytest.mark.parametrize("method", ["auto", "push", "pull", "nested"])
    def test_value_and_derivatives_is_one_pass(self, method):
        x, runs = normal(3), []

        def f(x):
            runs.append(1)
            return x[:2] ** 3 * x[2], x.sum()

        value, jacobian, second, aux = func.value_and_derivatives(f, has_aux=True, method=method)(x)
        assert len(runs) == 1
        close(value, x[:2] ** 3 * x[2])
        close(jacobian, func.jacrev(lambda x: f(x)[0])(x))
        close(second, func.jacfwd(func.jacrev(lambda x: f(x)[0]))(x))
        close(aux, x.sum())

    def test_the_first_order_alone(self):
        x = normal(3)
        value, jacobian = func.value_and_derivatives(ag.sin, order=1)(x)
        close(value, x.sin())
        close(jacobian, x.cos().diag())
        assert len(func.value_and_derivatives(lambda x: (x, {"n": x}), order=1, has_aux=True)(x)) == 3

    @pytest.mark.parametrize("face", FACES)
    def test_outputs_that_do_not_depend_on_the_input(self, face):
        result = face(lambda x: {"free": ag.ones(2), "linear": 2 * x})(normal(3))
        second = result[-1] if isinstance(result, tuple) else result
        assert not second["free"].any()
        assert not second["linear"].any()

    def test_no_dimensions(self):
        assert func.hessian(ag.exp)(ag.tensor(0.0)).item() == 1.0
        assert func.laplacian(ag.exp)(ag.tensor(0.0)).shape == ()

    @pytest.mark.parametrize("method", ["auto", "push", "pull", "nested"])
    @pytest.mark.parametrize(("f", "size"), [
        (lambda x: (x**2).sum() + 1, 0), (lambda x: (x**2)[:0], 3), (lambda x: x * x, 0), (lambda x: x, 3),
        (lambda x: (x.sin(),) * 2, 3),
    ])
    def test_no_elements_and_outputs_as_inputs(self, f, size, method):
        x = normal(size)
        for face in FACES[:3]:
            result, expected = face(f, method=method)(x), face(f, method="nested")(x)
            for mine, other in zip(*[out if isinstance(out, tuple) else (out,) for out in (result, expected)],
                                   strict=True):
                assert mine.shape == other.shape
                close(mine, other)

    def test_half_precision(self):
        x = ag.tensor([0.5, 1.0], dtype=ag.float16)
        hessians = func.hessian(lambda x: (x**3).sum())(x)
        assert hessians.dtype == ag.float16
        assert hessians.tolist() == [[3.0, 0.0], [0.0, 6.0]]

    def test_keyword_arguments_pass(self):
        assert func.hessian(lambda x, scale: scale * x**2)(ag.tensor(1.0), scale=3.0).item() == 6.0


class TestSymmetryAndZeros:
    @pytest.mark.parametrize("method", ["push", "pull"])
    def test_float32_is_exactly_symmetric(self, method):
        hessians = func.vmap(func.hessian(network([nn.GELU] * LAYERS), method=method))(rows())
        assert bool((hessians == hessians.mT).all())

    def test_a_zero_by_structure_has_no_graph(self):
        hessians = func.vmap(func.hessian(network([nn.ReLU] * LAYERS)))(rows())
        assert not hessians.any()
        assert not hessians.requires_grad

    def test_kinks_have_no_curvature(self):
        assert not func.hessian(lambda x: ag.relu(x).abs().sum())(ag.zeros(2)).any()


def run_nested(face, f, x, caplog):
    """Runs a face that falls back; returns (result, what it logged)."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "autograd_gpu.func"):
        result = face(f)(x)
    (record,) = caplog.records
    assert record.name == "autograd_gpu.func"
    return result, record.getMessage()


class Cube(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx, t):
        return t * 3 * ctx.saved_tensors[0] ** 2

    generate_vmap_rule = True


def overwriting(x):
    factor = ag.ones(2, dtype=ag.float64)
    y = (x + factor) ** 2
    factor.mul_(2)
    return y.sum()


class TestFallBack:
    def test_a_custom_function(self, caplog):
        def uses_a_function(x):
            return Cube.apply(x).sum()

        result, text = run_nested(func.hessian, uses_a_function, normal(2), caplog)
        close(result, (6 * normal(2)).diag())
        assert text == ("hessian(uses_a_function) is computed by forward over reverse mode: hessian cannot keep a call "
                        'of the custom Function Cube for later; use method="nested"')
        for method in ("push", "pull"):
            with pytest.raises(RuntimeError, match="hessian cannot keep a call of the custom Function Cube"):
                func.hessian(uses_a_function, method=method)(normal(2))

    @pytest.mark.parametrize("face", FACES[:3])
    def test_every_face_falls_back(self, face, caplog):
        result, text = run_nested(face, overwriting, normal(2), caplog)
        close(result, face(lambda x: ((x + 1) ** 2).sum())(normal(2)))
        assert "has been modified by an inplace operation since; clone it first" in text

    def test_a_write_to_what_a_call_used(self):
        with pytest.raises(RuntimeError, match="a tensor that add used has been modified"):
            func.laplacian(overwriting, method="push")(normal(2))

    def test_more_inputs_than_values(self, caplog):
        w = normal(1, 5)
        result, text = run_nested(func.hessian, lambda x: (w @ x).sin(), normal(5), caplog)
        close(result, -(w @ normal(5)).sin().reshape(1, 1, 1) * w.mT @ w)
        assert "5 inputs are more than twice the widest value (1)" in text
        with pytest.raises(RuntimeError, match="more than twice the widest value"):
            func.hessian(lambda x: (w @ x).sin(), method="pull")(normal(5))

    def test_an_op_without_a_jvp(self, monkeypatch):
        monkeypatch.setattr(REGISTRY["square"], "jvp", None)
        with pytest.raises(RuntimeError, match="hessian: square has no jvp"):
            func.hessian(lambda x: ag.square(x).sum(), method="push")(normal(2))
        with pytest.raises(NotImplementedError, match="forward AD with square"):
            func.hessian(lambda x: ag.square(x).sum(), method="nested")(normal(2))
        close(func.hessian(lambda x: ag.square(x).sum())(normal(2)), 2 * ag.eye(2, dtype=ag.float64))

    def test_a_reason_is_a_warning_once(self, caplog):
        def once(x):
            return Cube.apply(x).sum()

        for level in (logging.WARNING, logging.DEBUG):
            caplog.clear()
            with caplog.at_level(logging.DEBUG, "autograd_gpu.func"):
                func.hessian(once)(normal(2))
            assert [record.levelno for record in caplog.records] == [level]

    def test_no_warning_otherwise(self, caplog):
        with caplog.at_level(logging.INFO, "autograd_gpu.func"):
            func.hessian(lambda x: x.sin().sum())(normal(2))
            func.vmap(func.hessian(lambda x: x.sin().sum()))(normal(3, 2))
        assert not caplog.records


class TestErrors:
    @pytest.mark.parametrize("face", FACES)
    def test_an_unknown_method(self, face):
        with pytest.raises(ValueError, match=r"method is one of 'auto', 'push', 'pull', 'nested'; got 'fast'"):
            face(ag.sin, method="fast")

    @pytest.mark.parametrize("method", ["auto", "nested"])
    @pytest.mark.parametrize("face", FACES)
    def test_integers(self, face, method):
        with pytest.raises(ValueError, match=f"^{face.__name__} needs a floating input; got int64$"):
            face(ag.sin, method=method)(ag.tensor([1]))

    def test_what_is_no_tensor(self):
        with pytest.raises(ValueError, match=r"hessian: expected the arguments to contain only tensors, got .*float"):
            func.hessian(ag.sin)(1.0)
        with pytest.raises(ValueError, match="there is no tensor in the arguments"):
            func.hessian(lambda x: ag.ones(1))([])

    def test_an_integer_output(self):
        with pytest.raises(RuntimeError, match="outputs of f must be floating-point"):
            func.hessian(lambda x: x.argmax())(normal(2))

    def test_an_unknown_order(self):
        with pytest.raises(ValueError, match="order is 1 or 2, got 3; for higher derivatives nest the transforms"):
            func.value_and_derivatives(ag.sin, order=3)

    def test_aux_is_a_pair(self):
        with pytest.raises(RuntimeError, match="should be a tuple"):
            func.hessian(ag.sin, has_aux=True)(normal(2))


def energy(x):
    return (x.sin() * x.roll(1)).sum() * x.norm()


class TestNesting:
    @pytest.mark.parametrize("method", ["push", "pull"])
    def test_third_and_fourth_derivatives(self, method):
        x, hessian = normal(3), func.hessian(energy, method=method)
        nested = func.jacfwd(func.jacrev(energy))
        for outer in (func.jacrev, func.jacfwd, func.hessian):
            close(outer(hessian)(x), outer(nested)(x), 1e-10)
        v = normal(3, seed=1)
        close(func.jvp(hessian, (x,), (v,))[1], func.jvp(nested, (x,), (v,))[1])
        close(func.linearize(hessian, x)[1](v), func.jvp(nested, (x,), (v,))[1])
        close(func.hessian(func.grad(energy), method=method)(x), func.jacrev(nested)(x), 1e-10)
        close(func.hessian(lambda x: func.laplacian(energy)(x), method=method)(x),
              func.jacfwd(func.jacrev(lambda x: nested(x).trace()))(x), 1e-10)

    def test_inside_of_vmap_over_other_arguments(self):
        w, x = normal(4, 3), normal(3, seed=1)
        f = lambda w, x: func.hessian(lambda x: energy(w * x))(x)  # noqa: E731
        close(func.vmap(f, (0, None))(w, x), ag.stack([f(row, x) for row in w]))
        close(func.vmap(f, (0, None), chunk_size=2)(w, x), ag.stack([f(row, x) for row in w]))

    def test_dropout_draws_once(self):
        def f(x):
            return nn.functional.dropout(x.exp(), 0.5) ** 2

        x = normal(50, 2)
        with pytest.raises(RuntimeError, match="randomness"):
            func.vmap(func.hessian(f))(x)
        ag.manual_seed(3)
        same = func.vmap(func.hessian(f), randomness="same")(x)
        assert len({tuple(h.ne(0).any(-1).any(-1).tolist()) for h in same}) == 1
        different = func.vmap(func.hessian(f), randomness="different")(x)
        assert len({tuple(h.ne(0).any(-1).any(-1).tolist()) for h in different}) > 1

    def test_grad_modes(self):
        x, w = normal(3), normal(3, seed=1).requires_grad_()

        def f(x):
            return (x.sin() * x * w).sum()

        expected = func.jacfwd(func.jacrev(f))(x)
        assert func.hessian(f)(x).requires_grad
        for mode in (ag.no_grad, ag.inference_mode):
            with mode():
                hessians = func.hessian(f)(x)
                again = func.hessian(f)(x * 1)
            assert not hessians.requires_grad
            close(hessians, expected)
            close(again, expected)

    def test_no_grad_inside(self, caplog):
        def f(x):
            with ag.no_grad():
                hidden = x * 2
            return (x.sin() * hidden).sum()

        x = normal(3)
        result, text = run_nested(func.hessian, f, x, caplog)
        close(result, (2 * x.cos() - 2 * x * x.sin()).diag())
        assert "mul uses a value that was computed in a no_grad block" in text
        close(func.hessian(lambda x: (x.sin() * (2 * x).detach()).sum(), method="push")(x), (-2 * x * x.sin()).diag())

    def test_a_tensor_that_requires_grad(self):
        x = normal(3).requires_grad_()
        (gradient,) = ag.autograd.grad(func.laplacian(energy)(x), x)
        close(gradient, func.grad(func.laplacian(energy))(x.detach()))


class TestThirdDerivatives:
    """Differences decide: PyTorch's third derivatives of layer_norm and det are wrong."""

    @pytest.mark.parametrize("f", [
        lambda x: nn.functional.layer_norm(x.sin(), (4,))[:2],
        lambda x: ag.linalg.det(ag.outer(x[:3], x[1:]) + ag.eye(3, dtype=ag.float64)),
    ])
    def test_a_gradient_of_the_hessian(self, f):
        x, v = normal(4), normal(4, seed=1)
        for method in ("push", "pull"):
            hessian = func.hessian(f, method=method)
            difference = (hessian(x + 1e-5 * v) - hessian(x - 1e-5 * v)) / 2e-5
            close(func.jvp(hessian, (x,), (v,))[1], difference, 1e-6)
            w = normal(*difference.shape, seed=2)
            left = (func.grad(lambda x: (hessian(x) * w).sum())(x) * v).sum()  # noqa: B023
            close(left, (w * difference).sum(), 1e-6)


def test_nothing_is_kept_alive():
    net, x, kept = network([nn.Tanh] * LAYERS), rows(), []

    def f(row):
        hidden = net[0](row)
        kept.append(weakref.ref(hidden))
        return net[2:](hidden.tanh())

    gc.disable()
    try:
        func.vmap(func.hessian(f))(x).detach()
        assert kept[0]() is None
    finally:
        gc.enable()
