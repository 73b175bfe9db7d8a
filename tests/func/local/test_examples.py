"""Second derivatives under vmap, where the tape lies below its levels: against a loop over rows by "nested"."""

import functools
import logging

import numpy as np
import pytest
from random_graphs import RandomGraph

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.autograd import Function

pytestmark = pytest.mark.cpu
METHODS = ("auto", "push", "pull")
FACES = (func.hessian, func.hessian_diagonal, func.laplacian)
ROWS = 4


def normal(*shape, seed=0):
    return ag.tensor(np.random.default_rng(seed).normal(size=shape))


def close(actual, expected, tolerance=1e-10):
    assert actual.shape == expected.shape
    scale = 1 + abs(expected.numpy(force=True)).max(initial=0)
    np.testing.assert_allclose(actual.numpy(force=True), expected.numpy(force=True), rtol=0, atol=tolerance * scale)


def looped(face, f, x):
    return ag.stack([face(f, method="nested")(row) for row in x])


@pytest.fixture
def below(caplog):
    """Fails if a tape did not stay below the levels of vmap, which the log would tell."""
    with caplog.at_level(logging.DEBUG, "autograd_gpu.func"):
        yield
    assert not [record for record in caplog.records if "keeps the calls of one example" in record.getMessage()]


FUNCTIONS = {
    "products": lambda x: (x * x.roll(1)).cumsum(0) * x.sum(),
    "no dimensions": lambda x: (x[0] * x[1]).sin() + x.prod(),
    "softmax": lambda x: x.softmax(0) * x.norm(),
    "constants": lambda x: ag.stack([x.sum() ** 2, ag.ones((), dtype=ag.float64)]),
    "an outer product": lambda x: ag.outer(x, x.exp()).tanh(),
    "a write": lambda x: _written(x),
    "indices": lambda x: x[ag.tensor([2, 0])] ** 3,
    "kinks": lambda x: x.relu() * x.abs() * x.max(),
}


def _written(x):
    y = ag.zeros_like(x)
    y[1] = x[0] ** 2
    y.mul_(x + 1)
    return y


@pytest.mark.usefixtures("below")
@pytest.mark.parametrize("method", ["auto", "push"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("face", FACES)
def test_functions_of_a_row(face, name, method):
    x = normal(ROWS, 3)
    close(func.vmap(face(FUNCTIONS[name], method=method))(x), looped(face, FUNCTIONS[name], x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pulled_also_where_a_batch_rule_hides_the_examples(name):
    x = normal(ROWS, 3)
    close(func.vmap(func.hessian(FUNCTIONS[name], method="pull"))(x), looped(func.hessian, FUNCTIONS[name], x))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_random_graphs(seed, method):
    graph = RandomGraph(seed)
    f = graph.function(ag, ag.tensor(np.asarray(graph.w, np.float64)))
    x = ag.tensor(np.asarray(graph.x, np.float64))
    moved = ag.stack([x, 0.9 * x, x + 0.01])
    close(func.vmap(func.hessian(f, method=method))(moved), looped(func.hessian, f, moved), 1e-9)


def network(activation, outputs=1):
    layers = nn.Linear(2, 6), activation(), nn.Linear(6, 6), activation(), nn.Linear(6, outputs)
    return nn.Sequential(*layers).to(ag.float64)


@pytest.mark.usefixtures("below")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("activation", [nn.Tanh, nn.SiLU, nn.GELU])
@pytest.mark.parametrize("face", FACES)
def test_training(face, activation, method):
    """The gradients of a loss on the result for the weights and for x."""
    net, x = network(activation, 2), normal(ROWS, 2).requires_grad_()
    sources = [x, *net.parameters()]
    losses = [(result**2).sum() for result in (func.vmap(face(net, method=method))(x), looped(face, net, x))]
    ours, theirs = (ag.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True) for loss in losses)
    for actual, expected in zip(ours, theirs, strict=True):
        close(actual, expected)


@pytest.mark.usefixtures("below")
@pytest.mark.parametrize("method", METHODS)
class TestNesting:
    def test_two_levels(self, method):
        net, x = network(nn.Tanh), normal(2, ROWS, 2)
        hessian = func.vmap(func.vmap(func.hessian(net, method=method)))
        expected = ag.stack([looped(func.hessian, net, part) for part in x])
        close(hessian(x), expected)
        close(func.vmap(func.vmap(func.hessian(net, method=method)), in_dims=1, out_dims=1)(x), expected)
        columns = func.vmap(func.vmap(func.hessian(net, method=method), in_dims=1), in_dims=2)
        close(columns(x.permute(2, 1, 0)), expected)

    def test_other_arguments(self, method):
        w, x = normal(ROWS, 3), normal(ROWS, 3, seed=1)

        def f(x, w):
            return (x * w).tanh().sum() * x.norm()

        hessian = func.hessian(f, method=method)
        expected = [func.hessian(f, method="nested")(x[i], w[i]) for i in range(ROWS)]
        close(func.vmap(hessian)(x, w), ag.stack(expected))
        shared = [func.hessian(f, method="nested")(x[0], row) for row in w]
        close(func.vmap(hessian, in_dims=(None, 0))(x[0], w), ag.stack(shared))
        inner = func.vmap(func.vmap(hessian, in_dims=(0, None)), in_dims=(None, 0))(x, w)
        close(inner, ag.stack([looped(func.hessian, functools.partial(f, w=row), x) for row in w]))

    def test_several_inputs(self, method):
        a, b = normal(ROWS, 2), normal(ROWS, 3, seed=1)

        def f(a, b):
            return (a.sum() * b).sin()

        actual = func.vmap(func.hessian(f, (0, 1), method=method))(a, b)
        for row in range(ROWS):
            expected = func.hessian(f, (0, 1), method="nested")(a[row], b[row])
            for i in range(2):
                for j in range(2):
                    close(actual[i][j][row], expected[i][j])

    def test_transforms_around_and_inside(self, method):
        net, x, v = network(nn.Tanh), normal(ROWS, 2), normal(ROWS, 2, seed=1)
        laplacian, nested = func.laplacian(net, method=method), func.laplacian(net, method="nested")
        around = func.vmap(func.grad(lambda row: laplacian(row)[0]))(x)
        close(around, ag.stack([func.grad(lambda row: nested(row)[0])(row) for row in x]))
        moved = func.jvp(func.vmap(laplacian), (x,), (v,))[1]
        close(moved, ag.stack([func.jvp(nested, (row,), (d,))[1] for row, d in zip(x, v, strict=True)]))
        close(func.linearize(func.vmap(laplacian), x)[1](v), moved)
        twice = func.vmap(func.hessian(laplacian, method=method))(x)
        close(twice, ag.stack([func.hessian(nested, method="nested")(row) for row in x]), 1e-8)
        inside = func.vmap(func.hessian(func.grad(lambda row: net(row)[0]), method=method))(x)
        close(inside, ag.stack([func.hessian(func.grad(lambda r: net(r)[0]), method="nested")(row) for row in x]))

    def test_chunks_and_modes(self, method):
        net, x = network(nn.Tanh), normal(ROWS, 2)
        hessian, expected = func.hessian(net, method=method), looped(func.hessian, net, x)
        close(func.vmap(hessian, chunk_size=3)(x), expected)
        for mode in (ag.no_grad, ag.inference_mode):
            with mode():
                actual = func.vmap(hessian)(x)
                close(func.vmap(hessian)(x * 1), expected)
            assert not actual.requires_grad
            close(actual, expected)


@pytest.mark.usefixtures("below")
@pytest.mark.parametrize("method", METHODS)
def test_value_and_derivatives(method):
    net, x = network(nn.Tanh, 2), normal(ROWS, 2)

    def f(row):
        return (net(row), row * 2)

    value, jacobian, hessian, aux = func.vmap(func.value_and_derivatives(f, has_aux=True, method=method))(x)
    close(value, net(x))
    close(aux, 2 * x)
    close(jacobian, ag.stack([func.jacrev(net)(row) for row in x]))
    close(hessian, looped(func.hessian, net, x))


@pytest.mark.parametrize("method", ["auto", "push"])
def test_scalars_of_each_example(method):
    """As the coordinates of a differential equation are often written."""
    x, t = normal(ROWS), normal(ROWS, seed=1)

    def u(x, t):
        return x.sin() * t.exp() + t.tanh()

    blocks = func.vmap(func.hessian(u, (0, 1), method=method))(x, t)
    expected = [func.hessian(u, (0, 1), method="nested")(*point) for point in zip(x, t, strict=True)]
    for i in range(2):
        for j in range(2):
            close(blocks[i][j], ag.stack([hessian[i][j] for hessian in expected]))


def test_a_jacobian_shares_no_memory_with_later_ones():
    derivatives = func.value_and_derivatives(lambda row: row.view(2))
    _, jacobian, _ = derivatives(normal(2))
    jacobian.mul_(3)
    close(derivatives(normal(2))[1], ag.eye(2, dtype=ag.float64))


def test_no_rows():
    assert func.vmap(func.hessian(network(nn.Tanh)))(normal(0, 2)).shape == (0, 1, 2, 2)


class Doubled(Function):
    """Its vmap has not the derivative that it has."""

    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return 3 * g

    @staticmethod
    def jvp(ctx, t):
        return 3 * t

    @staticmethod
    def vmap(info, in_dims, x):
        return 2 * x, 0


def test_a_function_with_a_vmap_of_its_own_falls_back(caplog):
    x = normal(ROWS, 2)

    def f(x):
        return Doubled.apply(x * x).sum()

    with caplog.at_level(logging.DEBUG, "autograd_gpu.func"):
        actual = func.vmap(func.hessian(f))(x)
    texts = [record.getMessage() for record in caplog.records]
    assert "keeps the calls of one example" in texts[0]
    assert "is computed by forward over reverse mode: hessian cannot keep a call of the custom Function" in texts[1]
    close(actual, ag.stack([func.jacfwd(func.jacrev(f))(row) for row in x]))


def test_a_reason_is_that_of_one_example(caplog):
    def f(x):
        x.mul_(2)
        return (x**2).sum()

    with caplog.at_level(logging.INFO, "autograd_gpu.func"):
        func.vmap(func.hessian(lambda x: f(x * 1)))(normal(ROWS, 2))
    assert not caplog.records
    with pytest.raises(RuntimeError, match="the function writes to an argument"):
        func.vmap(func.hessian(f, method="push"))(normal(ROWS, 2))
