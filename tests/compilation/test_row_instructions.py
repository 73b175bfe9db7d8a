"""Single instructions by blocks of rows, and the gradients of layers: the bits of eager code, whatever reads what."""

import numpy as np
import pytest
from row_run_cases import MATRIX, ROWS, WIDTH, gradients, jet, leaves, network, numbers, same, second

import autograd_gpu as ag
from autograd_gpu.compilation import row_runs
from autograd_gpu.nn.functional import linear
from autograd_gpu.ops.nn.linear_activation import all_parameters, smooth_grad

pytestmark = [pytest.mark.cpu, pytest.mark.usefixtures("written")]
SHARED, ARRIVING = (1, 1, WIDTH), (2, ROWS, WIDTH)


# ---- memory that is read more than once ----------------------------------------------------------------


def test_gradients_that_are_the_stream_as_well(written):
    """The gradient of the stream would be put over those that arrive, which a product behind the run reads."""
    first, second = numbers((WIDTH, WIDTH), (WIDTH, WIDTH))

    def f(x, stream):
        stream, y, weight = leaves(jet(x.tanh(), stream, first), (linear(x, second) + 1).tanh(), second)
        return gradients(jet(y, stream, weight), (stream, weight, y), stream.detach())

    same(f, *numbers(MATRIX, ARRIVING))
    assert [run.layers for run in written] == [3]


def test_gradients_that_are_the_stream_before_the_activation(written):
    (second,) = numbers((WIDTH, WIDTH))

    def f(x, stream):
        stream, y, weight = leaves(stream, (linear(x, second) + 1).tanh(), second)
        return gradients(jet(y, stream, weight), (stream, weight, y), linear(stream.detach() * 1, weight.detach()))

    same(f, *numbers(MATRIX, ARRIVING))
    assert sum(run.layers for run in written) > 0


def test_a_bias_that_is_a_row_of_the_gradients(written, monkeypatch):
    """A view of other rows than those of the block."""
    monkeypatch.setattr(row_runs, "most_bytes", lambda program: 1 << 30)
    (weight,), total = numbers((WIDTH, WIDTH)), ag.zeros((), device="cpu")

    def f(x, h):
        h = linear(h, weight)
        bias = h[0]
        total.add_(1)  # another run begins
        gradient = smooth_grad(h, linear(x, weight), bias, activation="silu")
        return linear(gradient.dz, weight), gradient.dbias, (linear(linear(x, weight), weight) * 2 + 1).tanh()

    same(f, *numbers((6000, WIDTH), (6000, WIDTH)))
    assert [(run.first, run.products) for run in written] == [(4, 2)]  # strides of a view are not known


def test_gradients_are_no_memory_of_the_program(written, monkeypatch):
    """Those that arrive are: the gradient of the stream, which stays, is put elsewhere."""
    monkeypatch.setattr(row_runs, "most_bytes", lambda program: 1 << 30)
    (weight,) = numbers((WIDTH, WIDTH))

    def f(x, stream, g):
        values = y, stream, w = leaves((linear(x, weight) + 1).tanh(), stream, weight)
        return gradients(jet(y, stream, w), values, (g * 2 + 1).sin())

    given = numbers(MATRIX, ARRIVING, ARRIVING)
    compiled = same(f, *given)
    assert sum(run.layers for run in written) == 2
    results, expected = compiled(*given), [t.numpy().copy() for t in f(*given)]
    compiled(*[t * 2 for t in given])
    for mine, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), other)


def test_gradients_of_a_stream_stay_until_the_product_behind_the_run(written, monkeypatch):
    """They lie in the memory of the stream, which other layers of the run would take."""
    monkeypatch.setattr(row_runs, "most_bytes", lambda program: 1 << 30)
    weights = numbers((WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))

    def f(x, stream, g):
        values = x, stream, w = leaves((linear(x, weights[1]) + 1).tanh(), stream, weights[0])
        dx, dstream, dw = gradients(jet(x, stream, w), values, g)
        return dx, dw, jet(x, jet(x, dstream, weights[1]), weights[2])

    same(f, *numbers(MATRIX, ARRIVING, ARRIVING))
    assert [run.layers for run in written] == [4]


# ---- results that are made behind a run ----------------------------------------------------------------


def test_two_layers_whose_stream_is_the_same_in_all_rows(written):
    """Behind the run, each has sums over rows of its own."""
    weights = numbers((WIDTH, WIDTH), (WIDTH, WIDTH))

    def f(x, y, stream, other, g, h):
        x, y, stream, other, *ws = values = leaves(x, y, stream, other, *weights)
        results = jet(x, stream, ws[0]), jet(y, other, ws[1])
        return *gradients(results, values, g, h), (linear(y, ws[0]) * 2 + 1).tanh()

    same(f, *numbers(MATRIX, MATRIX, SHARED, SHARED, ARRIVING, ARRIVING))
    assert [run.layers for run in written] == [4]


def test_a_run_ends_before_it_reads_what_is_made_behind_it(written):
    """The gradient of a bias, of a weight, and of a stream that is the same in all rows."""
    (weight,) = numbers((WIDTH, WIDTH))

    def f(x, stream, bias, g):
        x, stream, bias, w = values = leaves(x, stream, bias, weight)
        dx, dstream, db, dw = gradients(jet(x, stream, w, bias, "silu"), values, g)
        return dx, dstream, db, dw, linear(dx, dw), (linear(dx, weight) + db).tanh(), jet(dx, dstream, weight)

    same(f, *numbers(MATRIX, SHARED, (WIDTH,), ARRIVING))
    assert sum(run.layers for run in written) >= 2


@pytest.mark.parametrize("rows", [24, 96, 5000])
@pytest.mark.parametrize("activation", ["tanh", "silu", "softplus", "elu", "celu", "gelu", "sine"])
def test_sums_for_the_bias(written, activation, rows):
    """With few elements they have memory of the program, and eager code has another formula."""
    (weight,) = numbers((WIDTH, WIDTH))

    def f(x, h):
        saved = linear(linear(x, weight) * 2 + 1, weight).tanh()
        gradient = smooth_grad(h, linear(saved, weight), activation=activation,
                               parameters=all_parameters(activation, {}))
        out = (linear(linear(gradient.dz, weight), weight) * 0.1 + 1).tanh()
        return out, (out + gradient.dbias).exp(), gradient.dbias.cumsum(0), linear(out, weight)

    same(f, *numbers((rows, WIDTH), (rows, WIDTH)))


# ---- gradients of layers -------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("height", [1, 2, 12, 13])
def test_few_rows(written, height, outputs):
    """Of a first layer, whose gradients for the input nobody needs. One row has no run."""
    net, x = network((3, WIDTH, outputs), "silu", ag.float64, bias=False), ag.randn(height, 3, dtype=ag.float64)

    def f(x):
        hessian = second(net)(x)
        return hessian.detach(), *gradients((hessian**2).mean(), list(net.parameters())[:-1])

    same(f, x)
    assert any(run.late for run in written) == (height > 1)
