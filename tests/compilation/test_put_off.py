"""Layers of second derivatives that are put off: blocks of rows go through all of them, with the bits of eager code."""

import itertools

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.backend.cpu import chains, large_products, rows
from autograd_gpu.compilation.program import Program
from autograd_gpu.ops import layer_jets

pytestmark = pytest.mark.cpu
ROWS, WIDTH = 96, 16


@pytest.fixture
def blocks(monkeypatch):
    """The blocks of rows that one core works on, for arrays of any size."""
    monkeypatch.setattr(layer_jets, "LEAST_BYTES", 0)
    monkeypatch.setattr(layer_jets, "FEWEST", 12)
    monkeypatch.setattr(large_products, "are_shared", lambda: True)
    monkeypatch.setattr(rows, "cores", lambda: 2)
    calls = []

    def in_blocks(count, step, work):
        starts = range(0, count, step)
        calls.append(len(starts))
        for start in starts:
            work(start, min(start + step, count))

    monkeypatch.setattr(rows, "in_blocks", in_blocks)
    yield calls
    assert not chains._OPEN


def network(layers=3):
    ag.manual_seed(0)
    sizes = [2, *[WIDTH] * layers]
    hidden = [layer for k, h in itertools.pairwise(sizes) for layer in (nn.Linear(k, h), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, 1))


@pytest.mark.parametrize("method", ["push", "pull"])
@pytest.mark.parametrize("backward", [False, True])
def test_blocks_go_through_all_layers(blocks, method, backward):
    net, x = network(), ag.randn(ROWS, 2)

    def second(x):
        net.zero_grad()
        hessian = func.vmap(func.hessian(lambda row: net(row)[0], method=method))(x)
        if backward:
            (hessian**2).sum().backward()
        return hessian.detach(), [p.grad.clone() for p in net.parameters() if backward and p.grad is not None]

    eager, grads = second(x)
    compiled = ag.compile(second)
    for _ in range(2):
        compiled(x)
    blocks.clear()
    result, compiled_grads = compiled(x)
    assert compiled.counts.compiled == 1
    assert max(blocks) > 1
    text = compiled.print_readable(print_output=False)
    ops = text.count("f_layer_jet") + text.count("f_layer_terms")
    assert ops > text.count("with chained(True):") >= 1
    assert backward or len(blocks) < ops
    assert np.array_equal(result.numpy(), eager.numpy())
    for a, b in zip(compiled_grads, grads, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_error_of_a_block_leaves_nothing_behind(blocks, monkeypatch):
    net, x = network(), ag.randn(ROWS, 2)
    compiled = ag.compile(func.vmap(func.hessian(lambda row: net(row)[0], method="push")))
    expected = [compiled(x) for _ in range(3)][-1]
    compute = layer_jets.Product.compute

    def fails(self, i, j):
        raise MemoryError("no memory for a block")

    monkeypatch.setattr(layer_jets.Product, "compute", fails)
    with pytest.raises(MemoryError, match="for a block"):
        compiled(x)
    assert not chains._OPEN
    monkeypatch.setattr(layer_jets.Product, "compute", compute)
    assert np.array_equal(compiled(x).detach().numpy(), expected.detach().numpy())


def test_memory_of_what_is_put_off_is_left_alone(monkeypatch):
    """An instruction between two layers that writes over what the first one reads ends the chain."""
    bounds = []

    def between(x, write):
        saved = x.tanh()
        weight = ag.eye(WIDTH, device="cpu")
        options = {"activation": "tanh", "d": 1, "groups": (((0, 0),),)}
        _, stream = layer_jets.layer_jet(saved, ag.ones(1, *x.shape, device="cpu"), weight, None, **options)
        if write:
            saved.mul_(2)
        other = x.cumsum(0)
        _, after = layer_jets.layer_jet(other, stream, weight, None, **options)
        return after, other

    original = Program._write

    def noted(self, *args):
        run = original(self, *args)
        bounds.append(self.text.count("with chained(True):"))
        return run

    monkeypatch.setattr(Program, "_write", noted)
    x = ag.randn(ROWS, WIDTH, device="cpu")
    for write in (False, True):
        compiled = ag.compile(between)
        eager = between(x, write)
        for _ in range(3):
            results = compiled(x, write)
        for a, b in zip(results, eager, strict=True):
            assert np.array_equal(a.numpy(), b.numpy())
    assert bounds == [1, 0]
