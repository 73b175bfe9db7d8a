"""Layers of second derivatives that are put off: blocks of rows go through all of them, with the bits of eager code."""

import itertools

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.backend.cpu import chains, large_products, rows
from autograd_gpu.compilation import program
from autograd_gpu.ops import layer_jets

pytestmark = pytest.mark.cpu
ROWS, WIDTH, LARGE = 96, 16, 2100  # rows and columns; so many rows are in no memory of the program


@pytest.fixture(autouse=True)
def _lines(monkeypatch):
    """Without the runs that would take the place of the lines, where other tests have left native code on disk."""
    monkeypatch.setattr(program, "row_run_at", lambda *given: None)


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
    monkeypatch.setattr(chains, "compute", lambda layers, step: False)  # no native code
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


def placed(x):
    """A product whose place in the program's memory is that of the first argument, which is put off."""
    stream = through(x * 0.5, x.reshape(1, *x.shape))
    return through(x @ ag.eye(WIDTH, device="cpu"), stream)


def over(x):
    """With native code a group of large arrays is written over the first argument."""
    saved = x @ ag.eye(WIDTH, device="cpu")
    stream = through(saved, x.reshape(1, *x.shape))
    return through((saved * 3).tanh() * 0.5, stream)


def read(x):
    return through(x.cumsum(0), through(x.tanh(), x.reshape(1, *x.shape)).cumsum(1))


def written(x):
    saved = x.tanh()
    stream = through(saved, x.reshape(1, *x.shape))
    saved.mul_(2)
    return through(x.cumsum(0), stream)


def apart(x):
    return through(x.cumsum(0), through(x.tanh(), x.reshape(1, *x.shape)))


def through(saved, stream):
    weight = ag.eye(WIDTH, device="cpu")
    return layer_jets.layer_jet(saved, stream, weight, None, activation="tanh", d=1, groups=(((0, 0),),)).after


@pytest.mark.parametrize(("f", "chains"), [(apart, 1), (placed, 0), (over, None), (read, 0), (written, 0)])
def test_memory_of_what_is_put_off_is_left_alone(f, chains, monkeypatch):
    """What stands between two layers runs at once, unless it reads or writes what the first one writes or reads."""
    texts, write = [], program.Program._write

    def noted(self, *args):
        run = write(self, *args)
        texts.append(self.text)
        return run

    monkeypatch.setattr(program.Program, "_write", noted)
    x, compiled = ag.randn(LARGE if f is over else ROWS, WIDTH, device="cpu"), ag.compile(f)
    expected = f(x)
    for _ in range(3):
        assert np.array_equal(compiled(x).numpy(), expected.numpy())
    assert chains in (None, texts[-1].count("with chained(True):"))
