"""index_put, index_copy, scatter_reduce and their kin beside PyTorch: values, first and second gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.ops.indexing.scatter import extremes_at

torch = pytest.importorskip("torch")

INDEX = np.array([[2, 0, 2], [1, 1, 3]])  # named twice, in two dimensions
ONCE = np.array([2, 0])
MASK = np.array([[True, False, True], [False, True, True]])


def index(m, array):
    return m.tensor(array)


# (call, shapes of its float inputs); the same lambda runs on both libraries, named m
CASES = [
    (lambda m, x, y: m.index_put(x, (index(m, ONCE),), y), (4, 3), (2, 3)),
    (lambda m, x, y: m.index_put(x, (index(m, ONCE),), y), (4, 3), (3,)),
    (lambda m, x, y: m.index_put(x, (index(m, ONCE), index(m, ONCE)), y), (4, 3), ()),
    (lambda m, x, y: m.index_put(x, (index(m, INDEX),), y, accumulate=True), (4, 3), (2, 3, 3)),
    (lambda m, x, y: m.index_put(x, (index(m, INDEX),), y, True), (4, 2), (1, 2)),
    (lambda m, x, y: m.index_put(x, (index(m, MASK),), y), (2, 3), ()),
    (lambda m, x, y: m.index_put(x, (index(m, MASK),), y, True), (2, 3), (4,)),
    (lambda m, x, y: m.index_put(x, (m.tensor(1), index(m, ONCE)), y, True), (2, 3), (2,)),
    (lambda m, x, y: x.index_put((m.tensor([0, -1]),), y), (3,), (2,)),
    (lambda m, x, y: m.index_copy(x, 0, index(m, ONCE), y), (4, 3), (2, 3)),
    (lambda m, x, y: m.index_copy(x, -1, index(m, ONCE), y), (2, 4), (2, 2)),
    (lambda m, x, y: m.index_copy(x, 0, m.tensor([0]), y), (), (1,)),
    (lambda m, x, y: m.index_copy(x, 0, m.tensor(1), y), (3,), (1,)),
    (lambda m, x, y: x.index_fill(0, index(m, ONCE), 2.5) * y, (4, 3), ()),
    (lambda m, x, y: m.index_fill(x, 1, m.tensor([0, 3, 0]), y), (2, 4), ()),
    (lambda m, x, y: m.index_fill(x, 0, m.tensor(0), y), (), ()),
    (lambda m, x, y: m.index_add(x, 1, m.tensor([0, 0, 2]), y, alpha=2), (2, 4), (2, 3)),
    (lambda m, x, y: m.index_add(x, 0, m.tensor(0), y), (), ()),
    (lambda m, x, y: m.take(x, index(m, INDEX)) * y, (2, 3), ()),
    (lambda m, x, y: x.take(m.tensor([-1, 5])) * y, (2, 3), ()),
    (lambda m, x, y: m.put(x, m.tensor([[4, 0]]), y), (2, 3), (2,)),
    (lambda m, x, y: m.put(x, index(m, INDEX), y, accumulate=True), (2, 3), (2, 3)),
    (lambda m, x, y: m.masked_scatter(x, index(m, MASK), y), (2, 3), (7,)),
    (lambda m, x, y: x.masked_scatter(index(m, MASK[0]), y), (2, 3), (3, 2)),
    (lambda m, x, y: m.masked_fill(x, index(m, MASK), y), (3,), ()),
    (lambda m, x, y: m.where(index(m, MASK), x, y), (3,), (2, 1)),
    (lambda m, x, y: x.where(index(m, MASK), y), (2, 3), ()),
    (lambda m, x, y: m.where(index(m, MASK), x, 2.0) * y, (3,), ()),
    (lambda m, x, y: m.scatter(x, 0, index(m, INDEX), value=2.0) * y, (4, 3), ()),
    (lambda m, x, y: m.take_along_dim(x, m.tensor([[0, -1]]), 0) * y, (3, 2), ()),
    (lambda m, x, y: m.take_along_dim(x, m.tensor([0, 5])) * y, (3, 2), ()),
    (lambda m, x, y: m.msort(x) * y, (4, 2), ()),
]  # fmt: skip


def inputs(device, *shapes):
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    return ([ag.tensor(a, device=device, requires_grad=True) for a in arrays],
            [torch.tensor(a, requires_grad=True) for a in arrays])


def compare(call, ours, theirs):
    """Values, gradients and second gradients; a missing gradient counts as zeros."""
    a, b = call(ag, *ours), call(torch, *theirs)
    assert a.shape == tuple(b.shape)
    np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-14, atol=1e-14)
    rng = np.random.default_rng(1)
    w = np.asarray(rng.normal(size=a.shape))
    ga, gb = ag.tensor(w, device=ours[0].device), torch.tensor(w)
    options = {"allow_unused": True, "materialize_grads": True}
    plain = ag.autograd.grad(a * a, ours, ga, retain_graph=True, **options)
    first = ag.autograd.grad(a * a, ours, ga, create_graph=True, **options)
    expected = torch.autograd.grad(b * b, theirs, gb, create_graph=True, **options)
    for actual, recorded, reference in zip(plain, first, expected, strict=True):
        for g in (actual, recorded):
            np.testing.assert_allclose(g.numpy(force=True), reference.numpy(force=True), rtol=1e-12, atol=1e-12)
    weights = [np.asarray(rng.normal(size=x.shape)) for x in ours]
    pairs = [(g, ag.tensor(h, device=g.device)) for g, h in zip(first, weights, strict=True) if g.requires_grad]
    second = ag.autograd.grad([g for g, _ in pairs], ours, [h for _, h in pairs], **options)
    pairs = [(g, torch.tensor(h)) for g, h in zip(expected, weights, strict=True) if g.requires_grad]
    expected = torch.autograd.grad([g for g, _ in pairs], theirs, [h for _, h in pairs], **options)
    for actual, reference in zip(second, expected, strict=True):
        np.testing.assert_allclose(actual.numpy(force=True), reference.numpy(force=True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("call", "shape", "other"), CASES, ids=range(len(CASES)))
def test_values_and_derivatives(call, shape, other, device):
    compare(call, *inputs(device, shape, other))


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@pytest.mark.parametrize("include_self", [True, False], ids=["with self", "without self"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "dim", "places", "size"),
    [((4, 3), 0, INDEX, (2, 3)), ((2, 5), -1, INDEX, (3, 4)), ((3,), 0, np.array([1, 1, 1, 1, 0]), (5,)),
     ((), 0, np.asarray(0), ()), ((3, 2), 0, np.zeros((0, 2), int), (1, 2))],
    ids=["rows", "corner of src", "many", "0-d", "none"],
)  # fmt: skip
def test_scatter_reduce(shape, dim, places, size, reduce, include_self, device):
    def call(m, x, src):
        if m is torch:  # whose gradient of a larger src is broken
            src = src[tuple([slice(n) for n in places.shape])]
        return m.scatter_reduce(x, dim, m.tensor(places), src, reduce, include_self=include_self)

    compare(call, *inputs(device, shape, size))


@pytest.mark.parametrize("include_self", [True, False], ids=["with self", "without self"])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize(("shape", "dim", "size"), [((4, 3), 0, (3, 3)), ((2, 4), 1, (2, 3)), ((4,), -1, (3,))])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce(shape, dim, size, reduce, include_self, device):
    def call(m, x, src):
        return m.index_reduce(x, dim, m.tensor([2, 0, 2]), src, reduce, include_self=include_self)

    compare(call, *inputs(device, shape, size))


def test_scatter_with_reduce(device):
    """Its gradients, which PyTorch does not have for all, are those of scatter_reduce."""
    (x, src), _ = inputs(device, (4, 3), (2, 3))
    i = ag.tensor(INDEX, device=device)
    for name, reduce in (("add", "sum"), ("multiply", "prod")):
        pairs = [(ag.scatter(x, 0, i, src, reduce=name), ag.scatter_reduce(x, 0, i, src, reduce)),
                 (ag.scatter(x, 0, i, 2.0, reduce=name), ag.scatter_reduce(x, 0, i, ag.full_like(src, 2.0), reduce))]
        for actual, expected in pairs:
            np.testing.assert_array_equal(actual.numpy(force=True), expected.numpy(force=True))
            for a, b in zip(ag.autograd.grad(actual.sum(), (x, src), materialize_grads=True),
                            ag.autograd.grad(expected.sum(), (x, src), materialize_grads=True), strict=True):
                np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))


def test_products_with_zeros_have_all_derivatives(device):
    """Two zeros at one place: the first derivative is zero, the second is not. PyTorch refuses the second."""
    x = ag.tensor([2.0, 3.0], dtype=ag.float64, device=device, requires_grad=True)
    src = ag.tensor([0.0, 0.0, 5.0, 0.0], dtype=ag.float64, device=device, requires_grad=True)
    i = ag.tensor([0, 0, 0, 1], device=device)
    (first,) = ag.autograd.grad(ag.scatter_reduce(x, 0, i, src, "prod").sum(), src, create_graph=True)
    assert first.tolist() == [0.0, 0.0, 0.0, 3.0]
    (second,) = ag.autograd.grad(first[0], src)
    assert second.tolist() == [0.0, 10.0, 0.0, 0.0]
    assert ag.autograd.gradgradcheck(lambda x, s: ag.scatter_reduce(x, 0, i, s, "prod"), (x, src))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "bool", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False], ids=["with self", "without self"])
def test_scatter_reduce_in_every_dtype(dtype, reduce, include_self, device):
    if dtype == "bool" and reduce == "mean":
        pytest.skip("a mean of bools is not defined")
    values, src = np.array([3, 1, 2]), np.array([2, -3, 7, 1]) if dtype[0] != "u" else np.array([2, 3, 7, 1])
    x, y = (ag.tensor(v, device=device).to(getattr(ag, dtype)) for v in (values, src))
    a, b = (torch.tensor(v).to(getattr(torch, dtype)) for v in (values, src))
    places = [0, 0, 2, 0]
    result = ag.scatter_reduce(x, 0, ag.tensor(places, device=device), y, reduce, include_self=include_self)
    expected = torch.scatter_reduce(a, 0, torch.tensor(places), b, reduce, include_self=include_self)
    assert result.dtype == getattr(ag, dtype)
    assert result.tolist() == expected.tolist()


def test_halves_are_summed_in_float32(device):
    """4000 ones of float16 would add up to 2048 one by one."""
    for dtype in (ag.float16, ag.bfloat16):
        ones, zeros = ag.ones(4000, dtype=dtype, device=device), ag.zeros(4000, dtype=ag.int64, device=device)
        expected = ag.tensor(4000.0).to(dtype).item()
        x = ag.zeros(1, dtype=dtype, device=device)
        assert ag.index_add(x, 0, zeros, ones).item() == expected
        assert ag.scatter_add(x, 0, zeros, ones).item() == expected
        assert ag.index_put(x, (zeros,), ones, accumulate=True).item() == expected
        w = ag.ones(1, dtype=dtype, device=device, requires_grad=True)
        assert ag.autograd.grad(w[zeros], w, ones)[0].item() == expected
        assert ag.autograd.grad(ag.repeat_interleave(w, 4000), w, ones)[0].item() == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
def test_extremes_by_integers_are_exact(dtype, largest):
    """The way that CUDA takes, on NumPy arrays: the order of the integers is that of the numbers, NaN wins."""
    rng = np.random.default_rng(0)
    dtype = backend.arrays.dtypes.as_dtype(dtype)
    if dtype in backend.arrays.dtypes.FLOATS:
        values = np.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-4, 4, 50), [np.inf, -np.inf, 0.0, np.nan]])
    else:
        info = np.iinfo(dtype)
        values = np.concatenate([rng.integers(0, 100, 20).astype(dtype), np.array([info.min, info.max], dtype)])
    values = values.astype(dtype)
    x, src = values[: len(values) // 2], values[len(values) // 2 :]
    places = rng.integers(0, len(x), len(src))
    expected = x.copy()
    with np.errstate(invalid="ignore"):
        for place, value in zip(places, src, strict=True):
            expected[place] = (np.maximum if largest else np.minimum)(expected[place], value)
    result = extremes_at(np, x, (places,), src, largest)
    assert result.dtype == dtype
    if dtype == backend.arrays.dtypes.bfloat16:  # whose NaN NumPy's assertion does not know
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(result, expected)


def test_nan_is_the_extreme_and_takes_the_gradient(device):
    x = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
    src = ag.tensor([float("nan"), 3.0], device=device, requires_grad=True)
    i = ag.tensor([0, 0], device=device)
    for reduce in ("amax", "amin"):
        out = ag.scatter_reduce(x, 0, i, src, reduce)
        np.testing.assert_array_equal(out.numpy(force=True), [np.nan, 2.0])
        gx, gs = ag.autograd.grad(out, (x, src), ag.ones(2, device=device))
        assert (gx.tolist(), gs.tolist()) == ([0.0, 1.0], [1.0, 0.0])


ERRORS = [
    (lambda x, i: x.index_put((i,), x.double()), RuntimeError, "source and destination dtypes match, got float32"),
    (lambda x, i: x.index_put((slice(None),), x), TypeError, "tensors or None, not slice; for slices use"),
    (lambda x, i: x.index_put((None,), x), IndexError, "at least one tensor"),
    (lambda x, i: x.index_put((i, i), x), IndexError, "too many indices for tensor"),
    (lambda x, i: x.index_put((i + 5,), x[:2]), IndexError, "index 5 is out of bounds"),
    (lambda x, i: x.index_put((i,), x[:3]), RuntimeError, "broadcast"),
    (lambda x, i: x.index_copy(0, i, x), RuntimeError, r"expected \[2\], got \[4\]"),
    (lambda x, i: x.index_copy(0, i, x[:2].double()), RuntimeError, "have the same dtype"),
    (lambda x, i: x.index_copy(0, i - 1, x[:2]), IndexError, r"index_copy\(\): index -1 is out of bounds"),
    (lambda x, i: x.index_copy(0, x[:2], x[:2]), RuntimeError, "Expected dtype int32/int64 for index"),
    (lambda x, i: x.index_copy(0, i.reshape(1, 2), x[:2]), IndexError, "supposed to be a vector"),
    (lambda x, i: x.index_fill(0, i, x), RuntimeError, "0-dimensional value tensor, but got tensor with 1 dim"),
    (lambda x, i: x.take(x), RuntimeError, "Expected a long tensor for index"),
    (lambda x, i: x.take(i + 5), IndexError, "index 5 is out of bounds"),
    (lambda x, i: x[:0].take(i), IndexError, "empty"),
    (lambda x, i: x.put(i, x), IndexError, r"source.numel\(\) = 4, index.numel\(\) = 2"),
    (lambda x, i: x.put(i, x[:2].double()), RuntimeError, "self.dtype = float32 and source.dtype = float64"),
    (lambda x, i: x.masked_scatter(x > 0, x[:3]), RuntimeError, "source < number of ones in mask: 3 < 4"),
    (lambda x, i: x.masked_scatter(x, x), RuntimeError, "boolean masks, but got mask with dtype float32"),
    (lambda x, i: x.masked_scatter(x > 0, x.double()), RuntimeError, "same dtypes but got float32 and float64"),
    (lambda x, i: ag.where(x, x, x), RuntimeError, "boolean tensor, but got a tensor with dtype float32"),
    (lambda x, i: ag.where(x > 0, x), TypeError, "argument 'other' must be Tensor, not NoneType"),
    (lambda x, i: x.scatter_reduce(0, i, x, "foo"), RuntimeError, "sum, prod, mean, amax or amin, got foo"),
    (lambda x, i: x.scatter_reduce(0, i, x.double(), "sum"), RuntimeError, "self.dtype to be equal to src.dtype"),
    (lambda x, i: x.scatter(0, i, x, reduce="foo"), RuntimeError, "must be either add or multiply, got 'foo'"),
    (lambda x, i: x.scatter(0, i), TypeError, "missing 1 required argument: src"),
    (lambda x, i: x.index_reduce(0, i, x[:2], "sum"), RuntimeError, "one of prod, mean, amax or amin but got sum"),
    (lambda x, i: x.index_reduce(0, i, x, "prod"), RuntimeError, r"expected \[2\], got \[4\]"),
    (lambda x, i: ag.repeat_interleave(x, x), RuntimeError, "repeats has to be Long or Int tensor"),
    (lambda x, i: ag.repeat_interleave(x, 1.5), TypeError, "integer"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, match, device):
    if "out of bounds" in match and device == "cuda":
        pytest.skip("on CUDA positions are not read on the host; CuPy wraps them around")
    with pytest.raises(error, match=match):
        call(ag.ones(4, device=device), ag.tensor([0, 1], device=device))


def test_isin_and_argwhere(device):
    x, y = ag.tensor([[0.5, 2.0], [3.0, 0.1]], device=device), torch.tensor([[0.5, 2.0], [3.0, 0.1]])
    for test in (0.1, 2, [3.0, 0.5], [7]):
        result = ag.isin(x, test if not isinstance(test, list) else ag.tensor(test, device=device))
        expected = torch.isin(y, test if not isinstance(test, list) else torch.tensor(test))
        np.testing.assert_array_equal(result.numpy(force=True), expected.numpy())
    assert ag.isin(2, x).item() is True
    assert ag.isin(ag.tensor([1, 2]), 0.5).tolist() == [False, False]
    np.testing.assert_array_equal(x.argwhere().numpy(force=True), torch.argwhere(y).numpy())
    np.testing.assert_array_equal(ag.where(x > 1)[1].numpy(force=True), torch.where(y > 1)[1].numpy())


WRITES = [
    lambda m, x: x.masked_fill_(x > 2, 0.5), lambda m, x: x.masked_scatter_(x > 2, m.ones(9)),
    lambda m, x: x.index_add_(0, m.tensor([1, 1]), m.ones(2, 3), alpha=2),
    lambda m, x: x.index_copy_(0, m.tensor([1]), m.ones(1, 3)), lambda m, x: x.index_fill_(1, m.tensor([0, 2]), -1.0),
    lambda m, x: x.index_put_((m.tensor([0, 0]),), m.ones(3), accumulate=True),
    lambda m, x: x.put_(m.tensor([5, 0]), m.ones(2)), lambda m, x: x.tril_(), lambda m, x: x.triu_(1),
    lambda m, x: x.scatter_(1, m.tensor([[0], [2]]), 9.0), lambda m, x: x.scatter_(1, m.tensor([[0], [2]]), x * 2),
    lambda m, x: x.scatter_add_(1, m.tensor([[0, 0], [2, 1]]), m.ones(2, 2)),
    lambda m, x: x.scatter_reduce_(1, m.tensor([[0, 0], [2, 1]]), m.ones(2, 2), "mean"),
    lambda m, x: x.fill_diagonal_(7.0), lambda m, x: x.mT.fill_diagonal_(7.0, wrap=True).mT,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES, ids=range(len(WRITES)))
def test_written_in_place(write, device):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x, y = ag.tensor(values, device=device), torch.tensor(values)
    with ag.no_grad():
        result = write(ag, x)
    assert result is x or np.shares_memory(result.numpy(force=True), x.numpy(force=True)) or device != "cpu"
    write(torch, y)
    np.testing.assert_array_equal(x.numpy(force=True), y.numpy())
    assert x._version == 1


def test_refused_in_place(device):
    x = ag.ones(2, 3, device=device)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place"):
        x.clone().requires_grad_().tril_()
    with pytest.raises(RuntimeError, match=r"output with shape \[2, 3\] doesn't match the broadcast shape \[2, 2, 3\]"):
        x.masked_fill_(ag.ones(2, 1, 1, device=device) > 0, 1.0)
    with pytest.raises(RuntimeError, match="dimensions must larger than 1"):
        x[0].fill_diagonal_(1.0)
    with pytest.raises(RuntimeError, match="must be of equal length"):
        ag.ones(2, 2, 3, device=device).fill_diagonal_(1.0)
