"""Products behind a run by blocks of rows: what they read is there, with the bits and counts of eager code."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from compiled_groups import programs_of
from row_run_cases import MATRIX, ROWS, STREAM, WIDTH, arrays, gradients, jet, leaves, network, numbers, same, second

import autograd_gpu as ag
from autograd_gpu import func, optim
from autograd_gpu.backend.cpu import large_products, rows
from autograd_gpu.compilation import behind, program
from autograd_gpu.nn.functional import linear

pytestmark = [pytest.mark.cpu, pytest.mark.usefixtures("written")]
ARRIVING, SQUARE = (2, ROWS, WIDTH), (WIDTH, WIDTH)
SMALL = 1 << 16  # bytes of multiply-adds: each product of the cases is less than two blocks, and all of them are more


def layer(weight, other):
    """The gradients of a layer, and a group."""

    def f(x, stream, g):
        x, stream, w = values = leaves(x, stream, weight)
        return *gradients(jet(x, stream, w), values, g), (linear(x, other) * 2 + 1).tanh()

    return f


def together(monkeypatch, cores=2):
    """The products of each call that are computed at once."""
    seen, at_once = [], behind._at_once
    monkeypatch.setattr(large_products, "PER_BLOCK", SMALL)
    monkeypatch.setattr(rows, "cores", lambda: cores)
    monkeypatch.setattr(behind, "_at_once", lambda *calls: (seen.append(len(calls)), at_once(*calls))[1])
    return seen


def losses_of(net):
    def loss(x):
        laplacian, value = second(lambda row: (net(row), net(row)), func.laplacian, has_aux=True)(x)
        return (laplacian**2).mean() + (value**2).mean()

    return loss


def test_a_product_of_a_product_comes_behind_it(written, monkeypatch):
    """The gradient of a weight, multiplied by itself transposed. Alone both are small, but not together."""
    monkeypatch.setattr(large_products, "PER_BLOCK", 50_000)
    first, second = numbers(SQUARE, SQUARE)

    def f(x, stream, g, h):
        x, weight, other = leaves(x, first, second)
        dx, dw = gradients(jet(x, stream, weight), (x, weight), g)
        (product,) = gradients(linear(dw, other), (other,), h)
        return dx, dw, product, (linear(dx, second) * 2 + 1).tanh()

    same(f, *numbers(MATRIX, STREAM, ARRIVING, SQUARE))
    assert sum(run.layers for run in written) == 2


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_small_products_run_at_once(written, monkeypatch, cores):
    """As many as stand behind a run; each has the bits that it has alone."""
    seen, weights = together(monkeypatch, cores), numbers(SQUARE, SQUARE)

    def f(x, y, stream, g, h):
        x, y, first, second = values = leaves(x, y, *weights)
        results = jet(x, stream, first), jet(y, stream, second)
        return *gradients(results, values, g, h), (linear(x, weights[0]) * 2 + 1).tanh()

    same(f, *numbers(MATRIX, MATRIX, STREAM, ARRIVING, ARRIVING))
    assert set(seen) == {2}
    assert sum(len(run.products_behind) for run in written) == 2


def test_few_multiply_adds_are_not_worth_a_second_core(written, monkeypatch):
    seen, weights = together(monkeypatch), numbers(SQUARE, SQUARE)
    monkeypatch.setattr(large_products, "PER_BLOCK", 1 << 25)

    def f(x, y, stream, g, h):
        x, y, first, second = values = leaves(x, y, *weights)
        results = jet(x, stream, first), jet(y, stream, second)
        return *gradients(results, values, g, h), (linear(x, weights[0]) * 2 + 1).tanh()

    same(f, *numbers(MATRIX, MATRIX, STREAM, ARRIVING, ARRIVING))
    assert not seen


def test_a_product_of_the_program_joins_those_behind(written, monkeypatch):
    """Its result lies in memory of the program, which the instructions of the run may need until then."""
    seen, (weight, other) = together(monkeypatch), numbers(SQUARE, SQUARE)

    def f(x, stream, g, y, z):
        x, w, o = leaves(x, weight, other)
        dx, dw = gradients(jet(x, stream, w), (x, w), g)
        (of_linear,) = gradients(linear(y, o), (o,), z)
        return dx, dw, (of_linear * 2 + 1).tanh(), (linear(dx, other) * 2 + 1).tanh()

    same(f, *numbers(MATRIX, STREAM, ARRIVING, MATRIX, MATRIX))
    assert set(seen) <= {2}
    assert sum(run.layers for run in written) == 2


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "silu"])
def test_counts_are_those_of_lines(written, monkeypatch, activation, small, outside):
    if small:
        together(monkeypatch)
    x, counts = ag.randn(ROWS, 2, device="cpu"), []
    for by_rows in (True, False):
        loss = losses_of(network((2, WIDTH, WIDTH, 1), activation))

        def step(x, loss=loss):
            result = loss(x)
            if not outside:
                result.backward()
            return result

        with monkeypatch.context() as patch:
            if not by_rows:
                patch.setattr(program, "row_run_at", lambda *given: None)
            compiled = ag.compile(step)
            for _ in range(6):
                with ag.profiler.count() as counted:
                    result = compiled(x)
                    if outside:
                        result.backward()
                counts.append((counted.matmuls, counted.launches))
    assert counts[:6] == counts[6:]
    assert outside or any(run.late for run in written)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_call_behind_one_that_failed_has_its_bits(written, monkeypatch, error):
    """Though the failed one gave no memory back."""
    seen, weights = together(monkeypatch), numbers(SQUARE, SQUARE)

    def f(x, y, stream, g, h):
        x, y, first, second = values = leaves(x, y, *weights)
        results = jet(x, stream, first), jet(y, stream, second)
        return *gradients(results, values, g, h), (linear(x, weights[0]) * 2 + 1).tanh()

    given = numbers(MATRIX, MATRIX, STREAM, ARRIVING, ARRIVING)
    compiled = same(f, *given)
    assert seen
    scope = programs_of(compiled)[0]._scope
    (name,) = [name for name in scope if name.startswith("at_once")]
    function = scope[name]

    def failing(*calls):
        function(*calls)
        raise error

    scope[name] = failing
    with pytest.raises(error):
        compiled(*given)
    scope[name] = function
    for mine, other in zip(arrays(compiled(*given)), arrays(f(*given)), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_threads_have_gradients_of_their_own(written, monkeypatch):
    together(monkeypatch)
    f = layer(*numbers(SQUARE, SQUARE))
    given = [numbers(MATRIX, STREAM, ARRIVING) for _ in range(4)]
    compiled = same(f, *given[0])
    (replayed,) = programs_of(compiled)
    count = 3  # the results of the gradients
    expected = [arrays(f(*each))[:count] for each in given]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for results, others in zip(pool.map(lambda each: replayed(*each), given), expected, strict=True):
                for mine, other in zip(results, others, strict=False):
                    np.testing.assert_array_equal(mine, other)


def test_memory_of_a_run_is_given_back_behind_it(written):
    """That of the gradients of a stream which is the same in all rows, and of their sums."""
    compiled = same(layer(*numbers(SQUARE, SQUARE)), *numbers(MATRIX, (1, 1, WIDTH), ARRIVING))
    text = programs_of(compiled)[0].text
    assert [len(run.temporaries) for run in written] == [2]
    assert f"del {', '.join(written[0].temporaries)}" in text


# ---- steps of training ---------------------------------------------------------------------------------


def steps(compiles, step_of, **options):
    """What a function of a new network gives in some calls, and the parameters and gradients behind each."""
    net, seen = network((2, WIDTH, WIDTH, WIDTH, 1)), []
    step = step_of(net)
    call = ag.compile(step, **options) if compiles else step
    for k in range(6):
        x = ag.randn(ROWS, 2, device="cpu", generator=ag.Generator().manual_seed(k))
        results = arrays(call(x))
        tensors = [*net.parameters(), *[p.grad for p in net.parameters() if p.grad is not None]]
        seen.append([a.tobytes() for a in (*results, *[t.detach().numpy() for t in tensors])])
    return seen


def accumulating(net):
    loss = losses_of(net)

    def step(x):
        result = loss(x)
        result.backward()
        return result.detach()

    return step


def twice(net):
    loss, update = losses_of(net), optim.Adam(net.parameters(), lr=1e-2)

    def step(x):
        update.zero_grad()
        first = loss(x)
        first.backward()
        second = loss(x * 0.5)
        second.backward()
        update.step()
        return first.detach(), second.detach()

    return step


def zeroed(net):
    loss, update = losses_of(net), optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)

    def step(x):
        loss(x).backward()
        update.step()
        update.zero_grad()
        result = loss(x)
        result.backward()
        return result.detach()

    return step


def clipped(net):
    loss, update = losses_of(net), optim.SGD(net.parameters(), lr=1e-2)

    def step(x):
        update.zero_grad()
        result = loss(x)
        result.backward()
        norm = ag.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        update.step()
        return result.detach(), norm

    return step


def shared(net):
    """A weight of two layers."""
    net[4].weight = net[2].weight
    return twice(net)


def frozen(of):
    def step_of(net):
        for k, parameter in enumerate(net.parameters()):
            parameter.requires_grad_(of(k, parameter))
        return accumulating(net)

    return step_of


@pytest.mark.parametrize(
    "step_of",
    [accumulating, twice, zeroed, clipped, shared,
     pytest.param(frozen(lambda k, p: p.ndim == 1), id="biases"),
     pytest.param(frozen(lambda k, p: p.ndim == 2), id="weights"),
     pytest.param(frozen(lambda k, p: k < 2), id="first layer"),
     pytest.param(frozen(lambda k, p: k >= 2), id="all but the first"),
     pytest.param(frozen(lambda k, p: k == 4), id="one weight"),
     pytest.param(frozen(lambda k, p: k in (1, 4)), id="a weight and a bias")],
)  # fmt: skip
@pytest.mark.parametrize("small", [False, True])
def test_steps(written, monkeypatch, step_of, small):
    if small:
        together(monkeypatch)
    assert steps(True, step_of) == steps(False, step_of)
    assert written


@pytest.mark.parametrize("options", [{"mode": "reduce-overhead"}, {"dynamic": True}], ids=str)
def test_other_ways_to_compile(written, options):
    assert steps(True, twice, **options) == steps(False, twice)
