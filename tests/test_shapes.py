"""The shape functions that are made of ops, and the methods with their ways to write a shape, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.views import bump_version

torch = pytest.importorskip("torch")

# (what is called, the shape it is called on): the same lambda runs on both libraries, named m.
CASES = [
    (lambda m, x: x.reshape(3, 2), (2, 3)), (lambda m, x: x.reshape((3, -1)), (2, 3)),
    (lambda m, x: x.view(6), (2, 3)), (lambda m, x: x.view(-1, 2), (2, 3)), (lambda m, x: x.view((1, 6)), (2, 3)),
    (lambda m, x: x.permute(1, 0), (2, 3)), (lambda m, x: x.permute((2, 0, 1)), (2, 3, 4)),
    (lambda m, x: x.expand(4, 2, 3), (2, 3)), (lambda m, x: x.expand((-1, 3)), (2, 1)),
    (lambda m, x: x.mT.expand(4, 3, 2), (2, 3)), (lambda m, x: x.repeat(2, 1), (2, 3)),
    (lambda m, x: x.tile(2), (2, 3)), (lambda m, x: m.tile(x, (2, 1, 3)), (2, 3)),
    (lambda m, x: x.flip(0, 1), (2, 3)), (lambda m, x: x.flip((1,)), (2, 3)), (lambda m, x: m.ravel(x), ()),
    (lambda m, x: m.ravel(x.mT), (2, 3)), (lambda m, x: m.flatten(x), ()), (lambda m, x: m.flatten(x, 1), (2, 3, 4)),
    (lambda m, x: m.flatten(x, 0, -2), (2, 3, 4)), (lambda m, x: m.flatten(x, 1, 1), (2, 3, 4)),
    (lambda m, x: m.unflatten(x, 0, (2, -1)), (6, 2)), (lambda m, x: m.unflatten(x, -1, (2, 1)), (3, 2)),
    (lambda m, x: m.unflatten(x, 0, (0, 3)), (0,)), (lambda m, x: x.T, (2, 3)), (lambda m, x: m.t(x), (3,)),
    (lambda m, x: m.t(x), ()), (lambda m, x: m.t(x), (2, 3)), (lambda m, x: m.movedim(x, 0, -1), (2, 3, 4)),
    (lambda m, x: m.movedim(x, (0, 2), (1, 0)), (2, 3, 4)), (lambda m, x: m.movedim(x, 0, 0), ()),
    (lambda m, x: m.broadcast_to(x, (2, 3)), (3,)), (lambda m, x: x.expand_as(x.repeat(2, 1)), (3,)),
    (lambda m, x: m.narrow(x, 0, 1, 2), (3, 2)), (lambda m, x: m.narrow(x, -1, -2, 1), (3, 2)),
    (lambda m, x: m.narrow(x, 0, 3, 0), (3,)), (lambda m, x: m.select(x, 1, 0), (3, 2)),
    (lambda m, x: m.select(x, -2, -1), (3, 2)), (lambda m, x: m.cat([x, x * 2, x]), (2, 3)),
    (lambda m, x: m.cat([x[:0, 0], x]), (2, 3)), (lambda m, x: m.stack((x, x.detach()), -1), (2, 3)),
    (lambda m, x: m.hstack([x, x]), (2, 3)), (lambda m, x: m.hstack([x, x]), (3,)),
    (lambda m, x: m.hstack([x, x]), ()), (lambda m, x: m.vstack([x, x]), (3,)),
    (lambda m, x: m.vstack([x, x]), (2, 3)), (lambda m, x: m.vstack([x, x]), ()),
    (lambda m, x: m.split(x, 2), (5, 2)), (lambda m, x: m.split(x, 2)[1:2], (5, 2)),
    (lambda m, x: m.split(x, 2)[::2], (5, 2)), (lambda m, x: m.split(x, 9), (5, 2)),
    (lambda m, x: m.split(x, [1, 0, 4], 1), (2, 5)), (lambda m, x: m.split(x, 0), (0, 2)),
    (lambda m, x: m.chunk(x, 3), (5,)), (lambda m, x: m.chunk(x, 2, 1), (2, 3)), (lambda m, x: m.chunk(x, 7), (3,)),
    (lambda m, x: m.chunk(x, 2), (0,)), (lambda m, x: m.unbind(x), (3, 2)),
    (lambda m, x: m.unbind(x, -1)[1:], (3, 2)), (lambda m, x: m.unbind(x), (1, 2)), (lambda m, x: list(x), (3,)),
]  # fmt: skip
BAD = [
    (lambda m, x: x.mT.view(6), (2, 3)), (lambda m, x: x.view(5), (2, 3)), (lambda m, x: m.flatten(x, 1, 0), (2, 3)),
    (lambda m, x: m.flatten(x, 2), (2, 3)), (lambda m, x: m.unflatten(x, 0, (4, 2)), (6,)),
    (lambda m, x: m.t(x), (2, 3, 4)), (lambda m, x: m.movedim(x, (0,), (0, 1)), (2, 3)),
    (lambda m, x: m.movedim(x, (0, 0), (0, 1)), (2, 3)), (lambda m, x: m.movedim(x, 5, 0), (2, 3)),
    (lambda m, x: m.narrow(x, 0, 2, 2), (3,)), (lambda m, x: m.narrow(x, 0, 5, 1), (3,)),
    (lambda m, x: m.narrow(x, 0, 0, -1), (3,)), (lambda m, x: m.narrow(x, 0, 0, 1), ()),
    (lambda m, x: m.select(x, 0, 3), (3,)), (lambda m, x: m.select(x, 0, 0), ()), (lambda m, x: m.split(x, -1), (3,)),
    (lambda m, x: m.split(x, 0), (3,)), (lambda m, x: m.split(x, 1), ()), (lambda m, x: m.chunk(x, 0), (3,)),
    (lambda m, x: m.chunk(x, 2), ()), (lambda m, x: list(x), ()),
]  # fmt: skip


def as_list(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize(("call", "shape"), CASES, ids=range(len(CASES)))
def test_values_and_derivatives(call, shape, device):
    rng = np.random.default_rng(0)
    values = np.asarray(rng.normal(size=shape))
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    ours, theirs = as_list(call(ag, x)), as_list(call(torch, y))
    assert [out.shape for out in ours] == [tuple(out.shape) for out in theirs]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
    weights = [rng.normal(size=a.shape) for a in ours]
    ga, gb = [ag.tensor(np.asarray(w), device=device) for w in weights], [torch.tensor(w) for w in weights]
    (plain,) = ag.autograd.grad([a * a for a in ours], x, ga, retain_graph=True)
    (first,) = ag.autograd.grad([a * a for a in ours], x, ga, create_graph=True)
    (expected,) = torch.autograd.grad([b * b for b in theirs], y, gb, create_graph=True)
    np.testing.assert_allclose(plain.numpy(force=True), expected.numpy(force=True), atol=1e-12)
    np.testing.assert_allclose(first.numpy(force=True), expected.numpy(force=True), atol=1e-12)
    (second,) = ag.autograd.grad(first, x, ag.tensor(np.ones(shape), device=device))
    (expected,) = torch.autograd.grad(expected, y, torch.ones_like(y))
    np.testing.assert_allclose(second.numpy(force=True), expected.numpy(force=True), atol=1e-12)


@pytest.mark.parametrize(("call", "shape"), BAD, ids=range(len(BAD)))
def test_errors(call, shape):
    with pytest.raises((RuntimeError, IndexError, TypeError)) as theirs:
        call(torch, torch.ones(shape))
    with pytest.raises(theirs.type):
        call(ag, ag.ones(shape))


VIEWS = {
    "expand": lambda x: x.expand(2, 3, 4), "expand of a transpose": lambda x: x.mT.expand(2, 4, 3),
    "expand to itself": lambda x: x.expand(3, 4), "reshape": lambda x: x.reshape(4, 3),
    "reshape to itself": lambda x: x.reshape(3, 4), "permute": lambda x: x.permute(1, 0), "mT": lambda x: x.mT,
    "squeeze": lambda x: x.squeeze(), "unsqueeze": lambda x: x.unsqueeze(0), "diagonal": lambda x: x.diagonal(),
    "narrow": lambda x: x.narrow(0, 1, 1), "select": lambda x: x.select(0, 0), "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind()[1], "unbind to 0-d": lambda x: x[0].unbind()[1],
}  # fmt: skip
COPIES = {
    "flip": lambda x: x.flip(()), "repeat": lambda x: x.repeat(1, 1), "cat": lambda x: ag.cat([x]),
    "stack": lambda x: ag.stack([x]), "tril": lambda x: x.tril(), "pad": lambda x: ag.pad(x, (0, 0)),
    "roll": lambda x: x.roll(0), "sort": lambda x: x.sort()[0],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_and_version(name, device):
    x = ag.ones(3, 4, device=device)
    bump_version(VIEWS[name](x))
    assert x._version == 1


@pytest.mark.parametrize("name", COPIES)
def test_copies_share_nothing(name, device):
    x = ag.ones(3, 4, device=device)
    COPIES[name](x)._array[...] = 5.0
    assert x._version == 0
    np.testing.assert_array_equal(x.numpy(force=True), np.ones((3, 4)))


def test_diagonal_can_be_written_to(device):
    x = ag.zeros(2, 2, device=device)
    x.diagonal().fill_(1.0)
    np.testing.assert_array_equal(x.numpy(force=True), np.eye(2))
