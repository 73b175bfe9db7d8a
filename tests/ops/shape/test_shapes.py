"""The shape functions that are made of ops, and the methods with their ways to write a shape, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.graph.storage import bump_version

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
    # permute
    (lambda m, x: x.adjoint(), (2, 3)), (lambda m, x: x.mH, (4, 2, 3)),
    (lambda m, x: x.H, (2, 3)), (lambda m, x: m.moveaxis(x, 0, -1), (2, 3, 4)),
    (lambda m, x: m.swapaxes(x, 0, -1), (2, 3, 4)), (lambda m, x: m.swapaxes(x, axis0=0, axis1=1), (2, 3)),
    (lambda m, x: m.swapdims(x, 0, 1), (2, 3)), (lambda m, x: m.movedim(x, -1, 0), (2, 3, 4)),
    # views and shapes
    (lambda m, x: x.view_as(m.ones(3, 2)), (2, 3)), (lambda m, x: x.mT.reshape_as(m.ones(6)), (2, 3)),
    (lambda m, x: x.unfold(0, 2, 1), (5,)), (lambda m, x: x.mT.unfold(1, 2, 2), (5, 3)),
    (lambda m, x: x.unfold(0, 1, 1), ()), (lambda m, x: x[::2].unfold(0, 2, 1), (8, 2)),
    (lambda m, x: x.as_strided((2, 2), (1, 2)), (6,)), (lambda m, x: x[1].as_strided((2,), (1,)), (2, 3)),
    (lambda m, x: x[1].as_strided((2, 2), (1, 1), 3), (2, 3)), (lambda m, x: x.mT.as_strided((3,), (1,), 1), (2, 3)),
    (lambda m, x: m.as_strided(x[:, 1], (2,), (1,), 0), (2, 3)), (lambda m, x: x.as_strided((), (), 2), (4,)),
    (lambda m, x: m.squeeze(x, (0, 2)), (1, 2, 1)), (lambda m, x: x.squeeze(0, ) if x.ndim else x, (1, 2)),
    (lambda m, x: x.sum_to_size(1, 3), (2, 3)), (lambda m, x: x.sum_to_size((3,)), (2, 3)),
    (lambda m, x: m.atleast_1d(x), ()), (lambda m, x: m.atleast_2d(x, x[0]), (3,)),
    (lambda m, x: m.atleast_2d((x, x)), (2, 3)), (lambda m, x: m.atleast_3d(x), (3,)),
    (lambda m, x: m.atleast_3d(x), (2, 3)), (lambda m, x: m.atleast_3d(x), ()),
    (lambda m, x: m.broadcast_tensors(x, x[0]), (2, 3)), (lambda m, x: m.broadcast_tensors(x[:, :1], x), (2, 3)),
    (lambda m, x: m.flatten(x), (0, 3)), (lambda m, x: m.unflatten(x, 0, (-1, 3)), (0,)),
    # rearrange
    (lambda m, x: m.fliplr(x), (2, 3)), (lambda m, x: m.flipud(x), (3,)), (lambda m, x: m.rot90(x), (2, 3)),
    (lambda m, x: m.rot90(x, 2), (2, 3)), (lambda m, x: m.rot90(x, -1, (1, 2)), (2, 3, 4)),
    (lambda m, x: m.rot90(x, 4), (2, 3)), (lambda m, x: m.roll(x, (1, 2), (0, 1)), (2, 3)),
    (lambda m, x: m.roll(x, 4), (2, 3)), (lambda m, x: m.repeat_interleave(x, 2), (2, 3)),
    (lambda m, x: m.repeat_interleave(x, 3, 1), (2, 3)), (lambda m, x: m.repeat_interleave(x, 3), ()),
    (lambda m, x: m.repeat_interleave(x, m.tensor([1, 0, 2]), dim=1), (2, 3)),
    (lambda m, x: x.repeat_interleave(m.tensor([2]), 0), (2, 3)),
    (lambda m, x: x.repeat_interleave(m.tensor([2, 1]), 0, output_size=3), (2, 3)),
    # diagonals
    (lambda m, x: m.diag(x), (3,)), (lambda m, x: m.diag(x, -2), (3,)), (lambda m, x: m.diag(x, 1), (3, 4)),
    (lambda m, x: m.diag_embed(x), (2, 3)), (lambda m, x: m.diag_embed(x, 1, 0, 2), (2, 3)),
    (lambda m, x: m.diag_embed(x, -1, -2, 0), (2, 3)), (lambda m, x: m.diagflat(x, 1), (2, 2)),
    (lambda m, x: m.diagflat(x), ()), (lambda m, x: m.diagonal_scatter(x, x[0, :2] * 2), (2, 3)),
    (lambda m, x: x.diagonal_scatter(x[0, :, :2] * 2, 1, 0, -1), (2, 2, 3)),
    (lambda m, x: x.tril(-1), (5, 2)), (lambda m, x: x.triu(-1), (5, 2)), (lambda m, x: x.tril(3), (2, 3)),
    (lambda m, x: x.triu(-3), (2, 3)), (lambda m, x: x.triu(9), (2, 3)), (lambda m, x: x.tril(-9), (3, 2)),
    # join and split
    (lambda m, x: m.concat((x, x)), (2, 3)), (lambda m, x: m.concatenate([x, x], 1), (2, 3)),
    (lambda m, x: m.dstack([x, x]), ()), (lambda m, x: m.dstack([x, x]), (2, 3)),
    (lambda m, x: m.column_stack([x, x]), ()), (lambda m, x: m.column_stack([x, m.stack([x, x], 1)]), (3,)),
    (lambda m, x: m.row_stack([x, x]), (3,)), (lambda m, x: m.block_diag(x, x[0], x[0, 0]), (2, 3)),
    (lambda m, x: m.tensor_split(x, 3), (5, 2)), (lambda m, x: m.tensor_split(x, 2, 1), (2, 5)),
    (lambda m, x: m.tensor_split(x, (1, 9)), (5,)), (lambda m, x: m.tensor_split(x, (3, 1)), (5,)),
    (lambda m, x: m.tensor_split(x, [-1]), (5,)), (lambda m, x: m.tensor_split(x, 4), (2,)),
    (lambda m, x: m.hsplit(x, 2), (4,)), (lambda m, x: m.hsplit(x, [1]), (2, 3)),
    (lambda m, x: m.vsplit(x, 2), (4, 1)), (lambda m, x: x.dsplit(2), (1, 2, 4)),
    (lambda m, x: m.split_with_sizes(x, [1, 2]), (3,)),
    # tables
    (lambda m, x: m.meshgrid(x, x[:2], indexing="ij"), (3,)), (lambda m, x: m.meshgrid(x, x[:2], indexing="xy"), (3,)),
    (lambda m, x: m.meshgrid([x, x[:2], x[:1]], indexing="xy"), (3,)), (lambda m, x: m.meshgrid(x, indexing="ij"), ()),
    (lambda m, x: m.cartesian_prod(x, x[:2]), (3,)), (lambda m, x: m.cartesian_prod(x), (3,)),
    (lambda m, x: m.combinations(x), (4,)), (lambda m, x: m.combinations(x, 3, True), (3,)),
    # slices
    (lambda m, x: x.narrow_copy(1, 0, 2), (2, 3)), (lambda m, x: m.select_scatter(x, x[0] * 2, 0, 1), (2, 3)),
    (lambda m, x: x.select_scatter(x[:, 0] * 2, -1, -1), (2, 3)),
    (lambda m, x: m.slice_scatter(x, x[:2] * 2, 0, 1, 4, 2), (5, 2)),
    (lambda m, x: x.slice_scatter(x[:, :2] * 2, 1, -2), (2, 3)), (lambda m, x: x.slice_scatter(x * 2), (2, 3)),
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
    (lambda m, x: m.chunk(x, 2), ()), (lambda m, x: list(x), ()), (lambda m, x: x.mH, (3,)), (lambda m, x: x.H, (3,)),
    (lambda m, x: x.H, (2, 3, 4)), (lambda m, x: x.view_as(m.ones(5)), (2, 3)), (lambda m, x: x.mT.view(6), (2, 3)),
    (lambda m, x: x.as_strided((2,), (1, 1)), (3,)), (lambda m, x: x.as_strided((4,), (1,)), (3,)),
    (lambda m, x: x.as_strided((2,), (-1,)), (3,)), (lambda m, x: m.squeeze(x, (0, 0)), (1, 2)),
    (lambda m, x: x.sum_to_size(2), (2, 3)), (lambda m, x: x.sum_to_size(1, 1, 3), (2, 3)),
    (lambda m, x: m.broadcast_tensors(x, x[:, :2]), (2, 3)), (lambda m, x: m.broadcast_shapes((2,), (3,)), ()),
    (lambda m, x: m.fliplr(x), (3,)), (lambda m, x: m.flipud(x), ()), (lambda m, x: m.rot90(x), (3,)),
    (lambda m, x: m.rot90(x, 1, (0,)), (2, 3)), (lambda m, x: m.rot90(x, 1, (0, -2)), (2, 3)),
    (lambda m, x: m.repeat_interleave(x, -1), (3,)), (lambda m, x: m.repeat_interleave(x, m.tensor([1, 2]), 0), (3,)),
    (lambda m, x: m.repeat_interleave(x, m.tensor([1, -2]), 0), (2,)),
    (lambda m, x: m.repeat_interleave(x, 2, 0, output_size=3), (3,)), (lambda m, x: m.diag(x), (2, 3, 4)),
    (lambda m, x: m.diag(x), ()), (lambda m, x: m.diag_embed(x), ()), (lambda m, x: m.diag_embed(x, 0, 0, 0), (3,)),
    (lambda m, x: m.diagonal_scatter(x, x[0]), (2, 3)), (lambda m, x: m.tril_indices(-1, 2), ()),
    (lambda m, x: m.block_diag(x), (2, 3, 4)), (lambda m, x: m.tensor_split(x, 0), (3,)),
    (lambda m, x: m.tensor_split(x, 2), ()), (lambda m, x: m.tensor_split(x, m.ones(2)), (3,)),
    (lambda m, x: m.hsplit(x, 2), (3,)), (lambda m, x: m.hsplit(x, 2), ()), (lambda m, x: m.vsplit(x, 2), (4,)),
    (lambda m, x: m.dsplit(x, 2), (4, 4)), (lambda m, x: m.vsplit(x, 0), (4, 4)), (lambda m, x: m.meshgrid(x), (2, 3)),
    (lambda m, x: m.meshgrid(x, x.double()), (3,)), (lambda m, x: m.meshgrid(x, indexing="zz"), (3,)),
    (lambda m, x: m.cartesian_prod(x, x), (2, 3)), (lambda m, x: m.combinations(x), (2, 3)),
    (lambda m, x: m.combinations(x, -1), (3,)), (lambda m, x: m.vander(x), (2, 3)),
    (lambda m, x: m.vander(x, -1), (3,)), (lambda m, x: m.select_scatter(x, x[:, 0], 0, 0), (2, 3)),
    (lambda m, x: m.select_scatter(x, x[0], 0, 5), (2, 3)), (lambda m, x: m.slice_scatter(x, x[:1], 0, 0, 2), (2, 3)),
    (lambda m, x: m.slice_scatter(x, x, 0, 0, 2, 0), (2, 3)), (lambda m, x: m.hstack([]), ()),
]  # fmt: skip




def test_vander(device):
    """PyTorch's own has no second derivative."""
    x = ag.tensor([2.0, 0.0, -1.5], dtype=ag.float64, device=device, requires_grad=True)
    for n, increasing in ((3, False), (4, True), (0, False)):
        result = ag.vander(x, n, increasing)
        np.testing.assert_allclose(result.numpy(force=True), np.vander(x.numpy(force=True), n, increasing))
        assert ag.autograd.gradcheck(lambda x, n=n, up=increasing: ag.vander(x, n, up), (x,)) if n else True
        assert ag.autograd.gradgradcheck(lambda x, n=n, up=increasing: ag.vander(x, n, up), (x,)) if n else True
    assert ag.vander(ag.tensor([1, 2], dtype=ag.int8)).dtype == ag.int64


def test_tables_of_nothing(device):
    x = ag.ones(3, device=device)
    assert ag.combinations(x, 5).shape == (0, 5)
    assert ag.combinations(x, 0).shape == (0,)
    assert ag.block_diag().shape == (1, 0)
    assert ag.broadcast_tensors() == ag.atleast_1d() == ()
    assert ag.broadcast_shapes((2, 1), 3, ()) == (2, 3)
    assert type(ag.broadcast_shapes((2, 1), 3)) is ag.Size
    assert ag.tensor(1.0).H.shape == ag.adjoint(ag.tensor(1.0)).shape == ()


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_indices_of_triangles(offset, device):
    for name in ("tril_indices", "triu_indices"):
        result = getattr(ag, name)(3, 4, offset, device=device)
        np.testing.assert_array_equal(result.numpy(force=True), getattr(torch, name)(3, 4, offset).numpy())
        assert getattr(ag, name)(2, 2, dtype=ag.int32).dtype == ag.int32
    with pytest.raises(RuntimeError, match='"triu_indices" not implemented for float32; indices are integers'):
        ag.triu_indices(2, 2, dtype=ag.float32)


def test_views_of_other_dtypes(device):
    x = ag.tensor([[1.0, -2.0], [0.5, 3.0]], device=device)
    y = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    np.testing.assert_array_equal(x.view(ag.int32).numpy(force=True), y.view(torch.int32).numpy())
    np.testing.assert_array_equal(x.view(ag.uint8).numpy(force=True), y.view(torch.uint8).numpy())
    np.testing.assert_array_equal(x.view(ag.uint8).view(ag.float32).numpy(force=True), y.numpy())
    codes = x.to(ag.float8_e5m2)
    assert codes.view(ag.uint8).dtype == ag.uint8
    assert codes.view(ag.uint8).view(ag.float8_e5m2).to(ag.float32).tolist() == codes.to(ag.float32).tolist()
    bump_version(codes.view(ag.uint8).view(ag.float8_e5m2))
    assert codes._version == 1
    assert not x.requires_grad_().view(ag.int32).requires_grad


def as_list(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


NAMES = [f"{' '.join(call.__code__.co_names)} {number}" for number, (call, _) in enumerate(CASES)]


@pytest.mark.parametrize(("call", "shape"), CASES, ids=NAMES)
def test_values_and_derivatives(call, shape, device):
    rng = np.random.default_rng(0)
    values = np.asarray(rng.normal(size=shape))
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    ours, theirs = as_list(call(ag, x)), as_list(call(torch, y))
    assert [out.shape for out in ours] == [tuple(out.shape) for out in theirs]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-15)
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
def test_errors(call, shape, device):
    with pytest.raises((RuntimeError, IndexError, TypeError)) as theirs:
        call(torch, torch.ones(shape))
    if device == "cuda" and "repeats can not be negative" in str(theirs.value):
        pytest.skip("on CUDA counts are not read on the host")
    with pytest.raises(theirs.type):
        call(ag, ag.ones(shape))


VIEWS = {
    "expand": lambda x: x.expand(2, 3, 4), "expand of a transpose": lambda x: x.mT.expand(2, 4, 3),
    "expand to itself": lambda x: x.expand(3, 4), "reshape": lambda x: x.reshape(4, 3),
    "reshape to itself": lambda x: x.reshape(3, 4), "permute": lambda x: x.permute(1, 0), "mT": lambda x: x.mT,
    "squeeze": lambda x: x.squeeze(), "unsqueeze": lambda x: x.unsqueeze(0), "diagonal": lambda x: x.diagonal(),
    "narrow": lambda x: x.narrow(0, 1, 1), "select": lambda x: x.select(0, 0), "split": lambda x: x.split(2)[1],
    "unfold": lambda x: x.unfold(0, 2, 1), "unfold of a transpose": lambda x: x.mT.unfold(0, 2, 1),
    "as_strided": lambda x: x.as_strided((2,), (1,)), "as_strided of a row": lambda x: x[1].as_strided((2,), (1,)),
    "a view of as_strided": lambda x: x.mT.as_strided((2, 2), (1, 1))[0].unsqueeze(0), "view": lambda x: x.view(4, 3),
    "view of another dtype": lambda x: x.view(ag.int32), "view of bytes": lambda x: x.view(ag.uint8)[0],
    "movedim": lambda x: x.movedim(0, 1), "H": lambda x: x.H, "hsplit": lambda x: x.hsplit(2)[1],
    "tensor_split": lambda x: x.tensor_split((2, 1))[0], "meshgrid": lambda x: ag.meshgrid(x[0], x[1])[0],
    "broadcast_tensors": lambda x: ag.broadcast_tensors(x, x[0])[0], "atleast_3d": lambda x: ag.atleast_3d(x),
    "unbind": lambda x: x.unbind()[1], "unbind to 0-d": lambda x: x[0].unbind()[1],
}  # fmt: skip
COPIES = {
    "flip": lambda x: x.flip(()), "repeat": lambda x: x.repeat(1, 1), "cat": lambda x: ag.cat([x]),
    "stack": lambda x: ag.stack([x]), "tril": lambda x: x.tril(), "pad": lambda x: ag.pad(x, (0, 0)),
    "roll": lambda x: x.roll(0), "sort": lambda x: x.sort()[0], "rot90": lambda x: x.rot90(4),
    "diag": lambda x: x.diag(), "narrow_copy": lambda x: x.narrow_copy(0, 0, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(1, 0),
    "select_scatter": lambda x: x.select_scatter(x[0], 0, 0), "block_diag": lambda x: ag.block_diag(x),
    "index_copy": lambda x: x.index_copy(0, ag.zeros(0, dtype=ag.int64), x[:0]),
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
