"""Layers by blocks of rows: the same results and gradients as by two ops, on several cores, after errors, compiled."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import autograd_gpu as ag
from autograd_gpu import backend, func, nn, profiler
from autograd_gpu.backend.cpu import rows
from autograd_gpu.backend.formulas.native import switch
from autograd_gpu.core.declare.op import RAW, RECORD
from autograd_gpu.ops import layer_jets
from autograd_gpu.ops._support.terms_gradients import pulled, pulled_on_arrays
from autograd_gpu.ops.jets import activation_jet, local_terms
from autograd_gpu.ops.layer_jets import layer_jet, layer_linear, layer_terms
from autograd_gpu.ops.nn.linear_activation import ACTIVATIONS, by_result

pytestmark = pytest.mark.cpu
GROUPS = {
    "none": lambda d: (), "full": lambda d: tuple(((i, j),) for i in range(d) for j in range(i, d)),
    "Laplacian": lambda d: (tuple((i, i) for i in range(d)),),
}  # fmt: skip
SMOOTH = {name: tuple(family.attributes.values()) for name, family in ACTIVATIONS.items() if family.bends}


@pytest.fixture(scope="module", autouse=True)
def _by_blocks():
    """Two helpers, and blocks of 12 rows from 13 rows on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_jets, "LEAST_BYTES", 0)
        patch.setattr(rows, "cores", lambda: 3)
        yield


def numbers(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [ag.tensor(rng.uniform(0.1, 0.9, shape), requires_grad=True) for shape in shapes]


def same(results, expected, inputs, tolerance=1e-12):
    """Equal results, and equal gradients of the sum of their squares, of first and second order."""
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)
    grads = []
    for values in (results, expected):
        first = ag.autograd.grad(sum((x * x).sum() for x in values), inputs, create_graph=True)
        second = ag.autograd.grad(sum((x * x).sum() for x in first), inputs)
        grads.append([*first, *second])
    for mine, other in zip(*grads, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-9)


def inputs_of(seed, activation, height, h, with_bias):
    saved, bias = numbers(seed, (height, h), (h,))
    return saved, bias if with_bias and not by_result(activation) else None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.sampled_from(sorted(SMOOTH)), st.sampled_from(sorted(GROUPS)), st.integers(1, 3),
       st.sampled_from([1, 11, 40]), st.booleans(), st.booleans(), st.booleans())
def test_a_layer_is_two_ops(seed, activation, form, d, height, with_bias, seconds, shared):
    groups = GROUPS[form](d)
    how = {"activation": activation, "parameters": SMOOTH[activation], "d": d, "groups": groups}
    saved, bias = inputs_of(seed, activation, height, 3, with_bias)
    stream, weight = numbers(seed + 100, (d + len(groups) * seconds, 1 if shared else height, 2), (3, 2))
    before = ag.linear(stream, weight)
    after = activation_jet(saved, before.permute(1, 0, 2), bias, **how).permute(1, 0, 2)
    inputs = [x for x in (saved, stream, weight, bias) if x is not None]
    same(layer_jet(saved, stream, weight, bias, **how), (before, after), inputs)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.sampled_from(sorted(SMOOTH)), st.integers(1, 2), st.sampled_from([1, 2, 7]),
       st.sampled_from([1, 11, 40]), st.booleans(), st.booleans())
def test_adjoints_and_terms_are_several_ops(seed, activation, o, d, height, with_bias, shared):
    saved, bias = inputs_of(seed, activation, height, 3, with_bias)
    adjoint, weight, tangents = numbers(seed + 100, (o, 1 if shared else height, 2), (2, 3), (d, height, 3))
    family, parameters, at = ACTIVATIONS[activation], SMOOTH[activation], saved if bias is None else saved + bias
    ones = ag.ones_like(at)
    f1, f2 = [family.at(RECORD, n)(ones, at, *parameters) for n in (1, 2)]
    arrived = adjoint @ weight
    whole = arrived.expand(o, height, 3)
    f2 = f2 * f1 if by_result(activation) else f2
    terms = local_terms(whole.permute(1, 0, 2), f2, tangents.permute(1, 0, 2))
    inputs = [x for x in (adjoint, weight, saved, tangents, bias) if x is not None]
    results = layer_terms(adjoint, weight, saved, tangents, bias, activation=activation, parameters=parameters)
    same(results, (arrived, whole * f1, terms), inputs)


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("needed", [*itertools.product([False, True], repeat=3)][1:], ids=str)
@pytest.mark.parametrize("activation", sorted(SMOOTH))
def test_gradients_of_terms_are_one_program(activation, needed, arrives):
    """Those that are needed, also of adjoints and tangents that are the same in all rows."""
    parameters = SMOOTH[activation]
    saved, bias = inputs_of(0, activation, 50, 3, True)
    arrays = [t.detach().numpy() for t in numbers(1, (2, 50, 3), (2, 1, 3), (2, 50, 3), (50, 2, 2, 2))]
    left, *stacks, terms = arrays
    saved, bias = (None if t is None else t.detach().numpy() for t in (saved, bias))
    for arrived, tangents in (stacks, stacks[::-1]):
        case = RAW, (left if arrives else None, terms), needed, saved, tangents, bias, arrived, activation, parameters
        for mine, other, need in zip(pulled_on_arrays(*case), pulled(*case), needed, strict=True):
            assert (mine is not None) == need
            if need:
                np.testing.assert_allclose(backend.sum_to(mine, other.shape), other, 1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", sorted(SMOOTH))
def test_gradients_of_terms_have_the_same_bits_without_native_code(monkeypatch, activation, dtype):
    monkeypatch.setattr(switch, "LOADS", 1)
    monkeypatch.setattr(switch, "COMPILES", 1)
    saved, bias = inputs_of(0, activation, 500, 3, True)
    values = [None if t is None else t.detach().numpy().astype(dtype) for t in
              (*numbers(1, (1, 500, 3), (500, 1, 2, 2), (2, 1, 3), (1, 500, 3)), saved, bias)]
    left, terms, tangents, arrived, saved, bias = values
    case = RAW, (left, terms), (True,) * 3, saved, tangents, bias, arrived, activation, SMOOTH[activation]
    natively = pulled_on_arrays(*case)
    with switch.numpy_code_alone():
        for mine, other in zip(natively, pulled_on_arrays(*case), strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99), st.integers(1, 3), st.sampled_from([1, 11, 40]))
def test_a_linear_function_of_a_stream(seed, rows, height):
    stream, weight = numbers(seed, (rows, height, 2), (3, 2))
    same([layer_linear(stream, weight)], [ag.linear(stream, weight)], [stream, weight])


# ---- in second derivatives -----------------------------------------------------------------------------


class Network(nn.Module):
    """Layers, one of which has a second reader, and one an activation that is no layer's."""

    def __init__(self, activation, outputs=1):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(2, 5), nn.Linear(5, 5), nn.Linear(5, outputs)
        self.activation = activation

    def forward(self, x):
        h = self.activation(self.first(x))
        z = self.second(h)
        return self.third(self.activation(z) + h * z).exp()


@pytest.fixture(params=[False, True], ids=["blocks", "at once"])
def _products(request, monkeypatch):
    """Products by blocks, or at once as those of large arrays."""
    if request.param:
        monkeypatch.setattr(layer_jets, "LARGE_BYTES", 0)


@pytest.mark.usefixtures("_products")
@pytest.mark.parametrize("method", ["push", "pull"])
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.SiLU(), nn.ReLU()], ids=lambda a: type(a).__name__)
def test_hessian_and_its_gradients(activation, method):
    ag.manual_seed(0)
    net, chain = Network(activation).double(), nn.Sequential(nn.Linear(2, 6), activation, nn.Linear(6, 6), activation,
                                                             nn.Linear(6, 6), activation, nn.Linear(6, 1)).double()
    x = ag.randn(40, 2, dtype=ag.float64)
    for model in (net, chain):
        results = []
        for way in (method, "nested"):
            hessian = func.vmap(func.hessian(model, method=way))(x)
            laplacian = func.vmap(func.laplacian(model, method=way))(x)
            loss = (hessian**2).sum() + (laplacian * model(x)).sum()
            grads = ag.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)
            results.append([t.detach().numpy() for t in (hessian, laplacian, *grads)])
        for mine, other in zip(*results, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("method", "counts"), [
    ("push", {"layer_jet": 3, "layer_linear": 0}), ("pull", {"layer_jet": 2, "layer_linear": 1, "layer_terms": 3}),
])
def test_a_network_is_layers(method, counts):
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(),
                        nn.Linear(6, 1))
    with profiler.profile() as prof:
        func.vmap(func.hessian(net, method=method))(ag.randn(40, 2))
    names = [event.name for event in prof.events()]
    assert {name: names.count(name) for name in counts} == counts
    assert "activation_jet" not in names
    assert "local_terms" not in names


@pytest.mark.usefixtures("_products")
@pytest.mark.parametrize("method", ["push", "pull"])
def test_compiled_calls_have_the_same_bits(method):
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    x, call = ag.randn(500, 2), func.vmap(func.hessian(net, method=method))
    eager, compiled = call(x), ag.compile(call)
    for _ in range(4):
        assert np.array_equal(compiled(x).detach().numpy(), eager.detach().numpy())


@pytest.mark.parametrize("method", ["push", "pull"])
def test_saved_tensor_hooks_see_values(method):
    """What a hook copies when a call is recorded has been computed by then; gradients are those without hooks."""
    ag.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), ag.randn(40, 2)
    grads = []
    copies = ag.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)
    for hooks in (contextlib.nullcontext(), copies):
        with hooks:
            loss = (func.vmap(func.hessian(net, method=method))(x) ** 2).sum()
        grads.append(ag.autograd.grad(loss, list(net.parameters()), allow_unused=True, materialize_grads=True))
    for mine, other in zip(*grads, strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.parametrize("method", ["push", "pull"])
def test_an_error_in_a_block_is_raised_and_forgotten(method, monkeypatch):
    net, x = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), ag.randn(40, 2)
    call = func.vmap(func.hessian(net, method=method))
    expected = call(x).detach().numpy()

    def failing(i, j, *rest):
        raise ZeroDivisionError("in a block")

    with monkeypatch.context() as patch:
        patch.setattr(layer_jets.Product, "compute", failing)
        with pytest.raises(ZeroDivisionError, match="in a block"):
            call(x)
    np.testing.assert_array_equal(call(x).detach().numpy(), expected)


def test_a_limited_blas_computes_in_one_block(monkeypatch):
    """As large products do: a process that limits BLAS to one thread gets no blocks."""
    blocks = []
    monkeypatch.setattr(layer_jets.chains, "run", lambda height, step, *rest: blocks.append((height, step)))
    with threadpool_limits(2):
        layer_jets.by_blocks(40, 1, print)
    with threadpool_limits(1):
        layer_jets.by_blocks(40, 1, print)
    assert blocks == [(40, 24), (40, 40)]


@pytest.mark.parametrize("method", ["push", "pull"])
def test_without_a_graph_they_stay_two_ops(method):
    """Which take less memory."""
    net, x = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), ag.randn(40, 2)
    expected = func.vmap(func.hessian(net, method=method))(x)
    with profiler.profile() as prof, ag.no_grad():
        result = func.vmap(func.hessian(net, method=method))(x)
    assert not {"layer_jet", "layer_linear", "layer_terms"} & {event.name for event in prof.events()}
    np.testing.assert_allclose(result.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("shape", "copied"), [((128, 128), True), ((129, 128), False), ((3, 2), True)])
def test_a_small_weight_is_turned_once(shape, copied):
    """A transposed view of up to MOST_TURNED elements becomes row-major; what is row-major is read where it lies."""
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((2, 30, shape[1])), rng.standard_normal(shape)
    product = layer_jets.Product(a, w.T, 30)
    assert product.b.flags.c_contiguous == copied
    assert np.shares_memory(product.b, w) != copied
    np.testing.assert_array_equal(product.b, w.T)
    for i in range(0, 30, 12):
        product.compute(i, min(i + 12, 30))
    np.testing.assert_allclose(product.out, a @ w.T, rtol=1e-12, atol=1e-12)
    assert np.shares_memory(layer_jets.Product(a, (right := w.T.copy()), 30).b, right)


def test_a_product_that_is_computed_at_once_turns_no_weight(monkeypatch):
    """That of a stream which is the same in all rows, and that of a large one."""
    a, w = np.ones((2, 30, 3)), np.ones((4, 3))
    assert np.shares_memory(layer_jets.Product(a[:, :1], w.T, 30).b, w)
    monkeypatch.setattr(layer_jets, "LARGE_BYTES", a.nbytes)
    assert np.shares_memory(layer_jets.Product(a, w.T, 30).b, w)
