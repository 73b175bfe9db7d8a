"""Layers that eager code has put off, by native code: the bits of NumPy code, when it runs, and when it does not."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd_gpu as ag
from autograd_gpu import func, nn, profiler
from autograd_gpu.backend.cpu import chains, large_products, rows
from autograd_gpu.backend.formulas.native import eager_layers, layers, runs, switch
from autograd_gpu.ops import layer_jets

pytestmark = pytest.mark.cpu
ACTIVATIONS = {"tanh": nn.Tanh, "silu": nn.SiLU, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


@pytest.fixture(autouse=True)
def calls():
    """Native code at once, blocks of 12 rows on two cores; the numbers of layers of the calls of native code."""
    pytest.importorskip("llvmlite", reason="needs the extra [native]")
    if not switch.is_on() or not runs.are_there():
        pytest.skip("native code is off")
    counts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(switch, "LOADS", 1)
        patch.setattr(switch, "COMPILES", 1)
        patch.setattr(layer_jets, "LEAST_BYTES", 0)
        patch.setattr(layer_jets, "FEWEST", 12)
        patch.setattr(layers, "BLOCK_BYTES", 1 << 12)
        patch.setattr(rows, "cores", lambda: 2)
        patch.setattr(eager_layers, "_RUNS", {})
        run = eager_layers._Run.__call__

        def counted(self, parts):
            counts.append(len(parts))
            run(self, parts)

        patch.setattr(eager_layers._Run, "__call__", counted)
        yield counts


def network(activation="tanh", width=16, depth=3, dtype=ag.float32, bias=True):
    sizes = [2, *[width] * depth]
    hidden = [layer for k, h in itertools.pairwise(sizes)
              for layer in (nn.Linear(k, h, bias=bias), ACTIVATIONS[activation]())]
    return nn.Sequential(*hidden, nn.Linear(width, 1)).to(dtype)


def compiled_network(method="push"):
    """A network whose formulas have native code."""
    net = network()
    second(net, ag.randn(37, 2), method)
    return net


def second(net, x, method="push"):
    """The Hessian of each row, and the gradients of a sum of it."""
    hessian = func.vmap(func.hessian(net, method=method))(x)
    grads = ag.autograd.grad((hessian**2).sum(), list(net.parameters()), allow_unused=True, materialize_grads=True)
    return [t.detach().numpy() for t in (hessian, *grads)]


def without_native_code(call, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "compute", lambda layers, step: False)
        return call(*arguments)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([*ACTIVATIONS]), st.sampled_from([5, 16, 33]), st.integers(1, 4), st.integers(13, 100),
       st.booleans(), st.sampled_from([ag.float32, ag.float64]), st.sampled_from([1, 2, 3]),
       st.sampled_from(["push", "pull"]))  # fmt: skip
def test_bits_of_numpy_code(activation, width, depth, height, bias, dtype, cores, method):
    ag.manual_seed(height)
    net, x = network(activation, width, depth, dtype, bias), ag.randn(height, 2, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "cores", lambda: cores)
        expected = without_native_code(second, net, x, method)
        for _ in range(eager_layers.FREQUENT + 1):
            for mine, other in zip(second(net, x, method), expected, strict=True):
                assert np.array_equal(mine, other)


def test_it_runs_after_three_calls_of_these_shapes(calls):
    net, x = compiled_network(), ag.randn(50, 2)
    for _ in range(5):
        second(net, x)
    assert calls == [3, 3]
    second(net, ag.randn(51, 2))
    assert calls == [3, 3]
    assert {type(run) for run in eager_layers._RUNS.values()} == {list, int}


def test_adjoints_run_so_too(calls):
    """Tangents through two layers and the product of a third, and adjoints through three and the activations."""
    net, x = compiled_network("pull"), ag.randn(50, 2)
    for _ in range(3):
        second(net, x, "pull")
    assert not calls
    second(net, x, "pull")
    assert calls == [6]


def test_adjoints_whose_sums_have_other_bits_run_in_numpy_code(calls, monkeypatch):
    monkeypatch.setattr(layers, "sums_are_equal", lambda *arguments: False)
    net, x = compiled_network("pull"), ag.randn(50, 2)
    expected = without_native_code(second, net, x, "pull")
    for _ in range(5):
        for mine, other in zip(second(net, x, "pull"), expected, strict=True):
            assert np.array_equal(mine, other)
    assert not calls


def test_layers_with_blocks_of_other_sizes_run_in_one_call(calls, monkeypatch):
    """In NumPy code the small ones have one block. Where some have no native code, the others have calls of theirs."""
    net, x = compiled_network("pull"), ag.randn(50, 2)
    monkeypatch.setattr(layer_jets, "LEAST_BYTES", 50 * 16 * 4 * 4)
    monkeypatch.setattr(large_products, "are_shared", lambda: True)  # not so on a machine of one core
    expected, equal = without_native_code(second, net, x, "pull"), layers.are_equal
    for steps, count, numbers in (({24, 50}, 5, [6, 6]), ({50}, 8, [1, 1] * 2)):
        monkeypatch.setattr(eager_layers, "_RUNS", {})
        monkeypatch.setattr(layers, "packed_ends", lambda *arguments: None)
        monkeypatch.setattr(layers, "are_equal", lambda height, k, h, turned, step, *rest, steps=steps:
                            step in steps and equal(height, k, h, turned, step, *rest))  # fmt: skip
        for _ in range(count):
            for mine, other in zip(second(net, x, "pull"), expected, strict=True):
                assert np.array_equal(mine, other)
        assert calls == numbers
        calls.clear()


@pytest.mark.parametrize(("least", "limited", "count"), [(0, False, 3), (0, True, 1), (1 << 22, False, 1)])
def test_cores_share_many_small_layers(calls, monkeypatch, least, limited, count):
    """Each of which has one block in NumPy code; not where BLAS is limited to one thread."""
    net, x, counts = compiled_network("pull"), ag.randn(50, 2), []
    monkeypatch.setattr(layer_jets, "LEAST_BYTES", 1 << 20)
    monkeypatch.setattr(eager_layers, "SHARED_BYTES", least)
    monkeypatch.setattr(large_products, "are_shared", lambda: not limited)
    monkeypatch.setattr(eager_layers, "by_tasks",
                        lambda first, tasks: counts.append(len(tasks)) or layers.by_tasks(first, tasks))  # fmt: skip
    expected = without_native_code(second, net, x, "pull")
    for _ in range(4):
        for mine, other in zip(second(net, x, "pull"), expected, strict=True):
            assert np.array_equal(mine, other)
    assert calls == [6]
    assert counts == [count]


def test_products_are_counted_as_in_numpy_code(calls):
    net, x = compiled_network("pull"), ag.randn(50, 2)
    for _ in range(5):
        with profiler.count() as counted:
            func.vmap(func.hessian(net, method="pull"))(x)
        assert counted.matmuls[100, 16, 16] == 2  # the tangents through two layers
    assert calls == [6, 6]


def test_deep_networks_take_several_calls(calls):
    compiled_network()
    net, x = network(depth=14, width=8), ag.randn(40, 2)
    expected = without_native_code(second, net, x)
    for _ in range(4):
        results = second(net, x)
    assert calls == [13, 1]
    for mine, other in zip(results, expected, strict=True):
        assert np.array_equal(mine, other)


def test_new_weights_are_read(calls):
    net, x = compiled_network(), ag.randn(50, 2)
    for _ in range(5):
        with ag.no_grad():
            for p in net.parameters():
                p.mul_(0.9)
        results, expected = second(net, x), without_native_code(second, net, x)
        for mine, other in zip(results, expected, strict=True):
            assert np.array_equal(mine, other)
    assert len(calls) == 2


@pytest.mark.parametrize("reason", ["bits", "strides", "no code", "another BLAS", "off"])
def test_numpy_code_runs_otherwise(calls, monkeypatch, reason):
    net, x = network("silu"), ag.randn(50, 2)
    if reason == "bits":
        monkeypatch.setattr(layers, "are_equal", lambda *arguments: False)
        monkeypatch.setattr(layers, "packed_ends", lambda *arguments: None)
    if reason == "strides":
        net[2].bias = nn.Parameter(ag.randn(32)[::2])
    if reason == "no code":
        monkeypatch.setattr(switch.Switch, "is_ready", lambda self, dtype: False)
    if reason == "another BLAS":
        monkeypatch.setattr(runs, "are_there", lambda: False)
    if reason == "off":
        monkeypatch.setattr(switch.SETTING, "on", False)
    expected = without_native_code(second, net, x)
    for _ in range(4):
        for mine, other in zip(second(net, x), expected, strict=True):
            assert np.array_equal(mine, other)
    assert not calls


def test_threads_share_the_code_and_not_the_memory(calls):
    net, x = network("silu", depth=4), [ag.randn(300, 2) for _ in range(4)]
    expected = [without_native_code(second, net, each) for each in x]
    for _ in range(eager_layers.FREQUENT):
        second(net, x[0])
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for results, others in zip(pool.map(lambda each: second(net, each), x), expected, strict=True):
                for mine, other in zip(results, others, strict=True):
                    assert np.array_equal(mine, other)
    assert len(calls) >= 40


def test_the_number_of_known_shapes_is_limited(monkeypatch):
    monkeypatch.setattr(eager_layers, "_MOST_RUNS", 3)
    net = network()
    for height in range(20, 30):
        second(net, ag.randn(height, 2))
    assert len(eager_layers._RUNS) <= 3
