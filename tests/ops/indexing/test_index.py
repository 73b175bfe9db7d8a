"""x[key] for every kind of key, gather and scatter, beside PyTorch: values, first and second gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.graph.storage import bump_version

torch = pytest.importorskip("torch")

MASK = np.array([True, False, True])
EMPTY_MASK = MASK[:0]
MASK2 = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], bool)
BASIC = [
    1, -1, slice(1, None), slice(None, None, 2), slice(2, 1), None, ..., (), (0,), (0, 1), (0, 1, 2), (None, 0),
    (..., 0), (0, ...), (..., None), (slice(None), 0, None), np.int64(1),
]  # fmt: skip
ADVANCED = [
    np.array([0, 2, 2]), np.array([0, -1, -1]), np.array([[0, 1], [1, 1]]), np.zeros(0, int),
    np.array([0, 1], np.int32), (np.array([0, 1, 0]), np.array([1, 0, 1])), (np.array([[0], [1]]), np.array([1, 0])),
    (slice(None), np.array([0, 1, 1])), (..., np.array([0, 0, 1])),
    (np.array([0, 1, 1]), slice(None), np.array([0, 1, 0])), (0, slice(None), np.array([0, 1])),
    (np.array([0, 1, 1]), 0), (0, np.array([0, 1, 1])), (np.array([0, 1, 1]), None), (None, np.array([0, 1, 1])),
    (slice(1, None), np.array([0, 1, 1])), (None, np.array([0, 1]), None, np.array([1, 1])), (np.array([0, 1]),) * 3,
    MASK, MASK2, EMPTY_MASK, (slice(None), MASK), (MASK, 0), (1, MASK), (MASK, None), (MASK, np.array([0, 1])),
    (MASK, MASK), (MASK, ..., np.array([0, 1])), np.zeros(3, bool), (None, MASK2), True, False,
    (True, np.array([0, 1])), np.asarray(1), (np.asarray(0), np.array([0, 1])), [0, 1, 1], [True, False, True],
    ([0, 1], [1, 1]), (slice(None), [0, 1]), [], range(2), (0, range(1, 2)),
]  # fmt: skip


def keys(key, make):
    """`key` with its arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(keys(part, make) for part in key)
    return make(key) if isinstance(key, np.ndarray) else key


def derivatives(ours, theirs, x, y):
    """ours(x) and theirs(y), of the same values: results, gradients and second gradients agree."""
    a, b = ours(x), theirs(y)
    assert a.shape == tuple(b.shape)
    np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), atol=1e-12)
    rng = np.random.default_rng(1)
    w = rng.normal(size=a.shape)
    ga, gb = ag.tensor(np.asarray(w), device=x.device), torch.tensor(w)
    plain = ag.autograd.grad(a * a, x, ga, retain_graph=True)[0]
    first = ag.autograd.grad(a * a, x, ga, create_graph=True)[0]
    expected = torch.autograd.grad(b * b, y, gb, create_graph=True)[0]
    for actual in (plain, first):
        np.testing.assert_allclose(actual.numpy(force=True), expected.numpy(force=True), atol=1e-12)
    h = rng.normal(size=x.shape)
    second = ag.autograd.grad(first, x, ag.tensor(np.asarray(h), device=x.device))[0]
    expected = torch.autograd.grad(expected, y, torch.tensor(h))[0]
    np.testing.assert_allclose(second.numpy(force=True), expected.numpy(force=True), atol=1e-12)


@pytest.mark.parametrize("key", [*BASIC, *ADVANCED], ids=str)
@pytest.mark.parametrize("shape", [(3,), (3, 3), (3, 3, 3), (3, 3, 3, 2), (0, 3), ()], ids=str)
def test_getitem(shape, key, device):
    values = np.asarray(np.random.default_rng(0).normal(size=shape))
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    ours, theirs = keys(key, lambda a: ag.tensor(a, device=device)), keys(key, torch.tensor)
    try:
        y[theirs]
    except IndexError:
        with pytest.raises(IndexError):
            x[ours]
    else:
        derivatives(lambda x: x[ours], lambda y: y[theirs], x, y)


@pytest.mark.parametrize("key", [*BASIC, *ADVANCED], ids=str)
@pytest.mark.parametrize("shape", [(3,), (3, 3), (3, 3, 3), (3, 3, 3, 2), (0, 3), ()], ids=str)
def test_setitem(shape, key, device):
    """A number, and a tensor of the size of what the key selects; where it names a place twice, one number."""
    values = np.asarray(np.random.default_rng(0).normal(size=shape))
    ours, theirs = keys(key, lambda a: ag.tensor(a, device=device)), keys(key, torch.tensor)
    try:
        selected = torch.tensor(values)[theirs].shape
    except IndexError:
        with pytest.raises(IndexError):
            ag.tensor(values, device=device)[ours] = 5.0
        return
    for value in (5.0, np.full(tuple(selected), 7.0), np.full(tuple(selected)[-1:], 8.0)):
        x, y = ag.tensor(values, device=device), torch.tensor(values)
        x[ours] = value if isinstance(value, float) else ag.tensor(value, device=device)
        y[theirs] = value if isinstance(value, float) else torch.tensor(value)
        np.testing.assert_array_equal(x.numpy(force=True), y.numpy())
        assert x._version == 1


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_indices_of_every_integer_type(dtype, device):
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device, requires_grad=True)
    i = ag.tensor([2, 0, 2], dtype=getattr(ag, dtype), device=device)
    for key, expected in ((i, [1.0, 1.0, 0.0, 0.0, 2.0, 2.0]), ((i, i * 0), [1.0, 0.0, 0.0, 0.0, 2.0, 0.0]),
                          ((..., i * 0), [3.0, 0.0, 3.0, 0.0, 3.0, 0.0])):
        (g,) = ag.autograd.grad(x[key].sum(), x)
        assert g.flatten().tolist() == expected
    with pytest.raises(IndexError, match="got uint8; convert"):
        x[np.array([1], np.uint8)]


def test_byte_tensors_are_masks():
    results = []
    for m in (torch, ag):
        x, mask = m.arange(4.0, requires_grad=True), m.tensor([2, 0, 1, 0], dtype=m.uint8)
        with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
            (x * x)[mask].sum().backward()
        results.append(x.grad.tolist())
    assert results[1] == results[0]


def test_more_tensors_than_an_op_takes(device):
    values = np.random.default_rng(0).normal(size=(2,) * 6)
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    i, key = np.array([0, 1, 1]), lambda i: (i, i, slice(None), i, i, i)
    ours, theirs = ag.tensor(i, device=device), torch.tensor(i)
    derivatives(lambda x: x[key(ours)], lambda y: y[key(theirs)], x, y)
    derivatives(lambda x: x[(ours,) * 6], lambda y: y[(theirs,) * 6], x, y)
    c, d = ag.tensor([1.0, 2.0, 3.0], dtype=ag.float64, device=device), torch.tensor([1.0, 2, 3], dtype=torch.float64)
    derivatives(lambda x: x.index_put((ours,) * 6, c, True), lambda y: y.index_put((theirs,) * 6, d, True), x, y)
    with ag.no_grad():
        x[(ours,) * 6] = 5.0
    assert (x == 5).sum().item() == 2


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_basic_keys_select_views(key, device):
    x = ag.ones(3, 3, 3, device=device)
    view = x[key]
    bump_version(view)
    assert x._version == 1


COPIES = [key for key in ADVANCED if getattr(key, "shape", None) != () and key is not EMPTY_MASK]


@pytest.mark.parametrize("key", COPIES, ids=str)
def test_tensor_keys_select_copies(key, device):
    x = ag.ones(3, 3, 3, device=device)
    bump_version(x[keys(key, lambda a: ag.tensor(a, device=device))])
    assert x._version == 0


def test_arrays_index_as_tensors_do(device):
    x = ag.tensor(np.arange(12.0).reshape(3, 4), device=device)
    np.testing.assert_array_equal(x[np.array([2, 0])].numpy(force=True), [[8, 9, 10, 11], [0, 1, 2, 3]])
    np.testing.assert_array_equal(x[np.array([2, 0]), ag.tensor([1, 1], device=device)].numpy(force=True), [9, 1])


def test_slices_may_run_backwards(device):
    x = ag.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    np.testing.assert_array_equal(x[::-1].detach().numpy(force=True), [3, 2, 1])
    (g,) = ag.autograd.grad(x[::-2], x, ag.tensor([5.0, 7.0], device=device))
    np.testing.assert_array_equal(g.numpy(force=True), [7, 0, 5])


@pytest.mark.parametrize(
    ("key", "match"),
    [
        (9, "index 9 is out of bounds for dimension 0 with size 3"),
        ((0, 0, 0), "too many indices for tensor"),
        (([0, 1], [0, 1], [0, 1]), "too many indices for tensor of dimension 2"),
        ("a", r"only integers, slices .* \(got str\)"),
        (1.5, r"only integers, slices .* \(got float\)"),
        (np.array([0.5]), "tensors used as indices must be int64, int32 or bool"),
        (np.array([True, False]), r"shape of the mask \[2\] at index 0 does not match .* tensor \[3, 3\] at index 0"),
        ((np.array([0, 1]), np.array([0, 1, 1])), "could not be broadcast together"),
        ((..., [0], ...), "single ellipsis"),
    ],
)
def test_errors(key, match):
    with pytest.raises(IndexError, match=match):
        ag.ones(3, 3)[key]


def test_changed_index_is_noticed(device):
    x, i = ag.ones(3, device=device, requires_grad=True), ag.tensor([0, 1], device=device)
    y = x[i]
    i.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# ---- along one dimension -------------------------------------------------------------------------------

CASES = [
    ((3, 4), 0, (2, 4)), ((3, 4), 1, (3, 7)), ((3, 4), -1, (2, 2)), ((3,), 0, (5,)), ((), 0, ()), ((), -1, (1,)),
    ((2, 3), 1, (2, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "dim", "size"), CASES, ids=str)
def test_gather_and_scatter(shape, dim, size, device):
    rng = np.random.default_rng(0)
    index = np.asarray(rng.integers(0, shape[dim] if shape else 1, size))
    values, source = np.asarray(rng.normal(size=shape)), np.asarray(rng.normal(size=size))
    i, j = ag.tensor(index, device=device), torch.tensor(index)
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    derivatives(lambda x: ag.gather(x, dim, i), lambda y: torch.gather(y, dim, j), x, y)
    derivatives(lambda x: ag.scatter(x, dim, i, 2.5), lambda y: torch.scatter(y, dim, j, 2.5), x, y)
    s, r = ag.tensor(source, device=device, requires_grad=True), torch.tensor(source, requires_grad=True)
    c, d = s.detach(), r.detach()
    derivatives(lambda x: ag.scatter_add(x, dim, i, c), lambda y: torch.scatter_add(y, dim, j, d), x, y)
    c, d = x.detach(), y.detach()
    derivatives(lambda s: ag.scatter_add(c, dim, i, s), lambda r: torch.scatter_add(d, dim, j, r), s, r)


@pytest.mark.parametrize(("shape", "dim"), [((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((3,), 0)], ids=str)
def test_index_select_and_index_add(shape, dim, device):
    rng, index = np.random.default_rng(0), np.array([1, 0, 1])
    values = rng.normal(size=shape)
    i, j = ag.tensor(index, device=device), torch.tensor(index)
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    derivatives(lambda x: ag.index_select(x, dim, i), lambda y: torch.index_select(y, dim, j), x, y)
    s, r = x.index_select(dim, i).detach(), torch.index_select(y, dim, j).detach()
    derivatives(lambda x: ag.index_add(x, dim, i, s, alpha=2), lambda y: torch.index_add(y, dim, j, r, alpha=2), x, y)
    c, d = x.detach(), y.detach()
    s.requires_grad_(), r.requires_grad_()
    derivatives(lambda s: ag.index_add(c, dim, i, s), lambda r: torch.index_add(d, dim, j, r), s, r)


MASKED = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((), ()), ((), (2,))]


@pytest.mark.parametrize(("shape", "mask"), MASKED, ids=str)
def test_masked_select(shape, mask, device):
    rng = np.random.default_rng(0)
    values, chosen = np.asarray(rng.normal(size=shape)), np.asarray(rng.integers(0, 2, mask).astype(bool))
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    m, n = ag.tensor(chosen, device=device), torch.tensor(chosen)
    derivatives(lambda x: ag.masked_select(x, m), lambda y: torch.masked_select(y, n), x, y)


def test_take_along_dim(device):
    x = ag.tensor([[3.0, 1.0, 2.0]], device=device)
    i = ag.argsort(x.expand(2, 3), dim=1)
    np.testing.assert_array_equal(ag.take_along_dim(x, i, 1).numpy(force=True), [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(ag.take_along_dim(x, i).numpy(force=True), [1, 2, 3] * 2)


@pytest.mark.parametrize("values", [[[1, 0], [0, 2]], 0, 3, np.zeros((0, 2)), [0.0, 2.0]], ids=str)
def test_nonzero(values, device):
    x, y = ag.tensor(values, device=device), torch.tensor(values)
    np.testing.assert_array_equal(ag.nonzero(x).numpy(force=True), torch.nonzero(y).numpy())
    for a, b in zip(ag.nonzero(x, as_tuple=True), torch.nonzero(y, as_tuple=True), strict=True):
        np.testing.assert_array_equal(a.numpy(force=True), b.numpy())


@pytest.mark.parametrize("descending", [False, True])
def test_order_of_equals_and_nan(descending, device):
    values = np.array([1.0, 0, 1, np.nan, 0, 1, np.nan])
    expected = torch.argsort(torch.tensor(values), dim=0, descending=descending, stable=True)
    result = ag.argsort(ag.tensor(values, device=device), 0, descending)
    np.testing.assert_array_equal(result.numpy(force=True), expected.numpy())


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x, i: ag.gather(x, 0, i), RuntimeError, "same number of dimensions as input"),
        (lambda x, i: ag.gather(x, 0, x), RuntimeError, "Expected dtype int32/int64"),
        (lambda x, i: ag.gather(x[0], 0, i + 5), IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        (lambda x, i: ag.gather(x, 1, ag.zeros(3, 3, dtype=ag.int64)), RuntimeError, "apart from dimension 1"),
        (lambda x, i: ag.scatter_add(x[0], 0, i + 5, x[0]), IndexError, "index 5 is out of bounds"),
        (lambda x, i: ag.scatter(x[0], 0, i, i), RuntimeError, "self.dtype to be equal to src.dtype"),
        (lambda x, i: ag.index_select(x, 0, i + 5), IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (lambda x, i: ag.index_add(x, 0, i, x), RuntimeError, "source must have the shape of self"),
        (lambda x, i: ag.masked_select(x, i), RuntimeError, "BoolTensor"),
        (lambda x, i: ag.masked_select(x, i[:2] == 0), RuntimeError, "must match the size of tensor b"),
        (lambda x, i: ag.take_along_dim(x, i, 0), RuntimeError, "same number of dimensions"),
    ],
)
def test_errors_along_one_dimension(call, error, match, device):
    if error is IndexError and device == "cuda":
        pytest.skip("on CUDA positions are not read on the host; CuPy wraps them around")
    with pytest.raises(error, match=match):
        call(ag.ones(2, 3), ag.zeros(3, dtype=ag.int64))
