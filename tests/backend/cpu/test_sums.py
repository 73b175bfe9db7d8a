"""Rounding errors of float32 sums: a few ulp, or four times those of PyTorch, for every layout and op that sums."""

import importlib.util

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu import sums

torch = pytest.importorskip("torch") if importlib.util.find_spec("torch") else None

ULP = 2.0**-23
ROWS = 100_000


def tenths(*shape):
    """One after the other these add up badly: the sum is large, and each addition rounds the same way."""
    return np.full(shape, 0.1, np.float32)


def uniform(*shape):
    return np.random.default_rng(0).random(shape, np.float32)


def error(actual, exact):
    """The largest relative error; what is near 0 counts in ulps of the largest."""
    actual, exact = (np.asarray(x, np.float64) for x in (actual, exact))
    assert actual.shape == exact.shape
    return np.max(np.abs(actual - exact) / np.maximum(np.abs(exact), np.abs(exact).max() * 1e-3))


def check(compute, device, *arrays):
    """compute(library, *leaves) in float32 against float64 and against PyTorch."""
    wide = [ag.tensor(x.astype(np.float64), device="cpu", requires_grad=True) for x in arrays]
    exact = compute(ag, *wide).detach().numpy()
    result = compute(ag, *[ag.tensor(x, device=device, requires_grad=True) for x in arrays]).detach().cpu()
    assert result.dtype == ag.float32
    theirs = 4 * ULP  # where there is no PyTorch
    if torch:
        theirs = error(compute(torch, *[torch.tensor(x, requires_grad=True) for x in arrays]).detach().numpy(), exact)
    assert error(result.numpy(), exact) <= 4 * theirs + 6 * ULP, f"PyTorch's error: {theirs}"


def leave_to_the_gpu(device):
    """Skips what CuPy's own kernels and cuBLAS add, by blocks and trees: their stand-ins add as NumPy does."""
    if device == "cuda" and importlib.util.find_spec("cupy._emulation"):
        pytest.skip("the order of CuPy's own sums is not that of the stand-in")


# ---- layouts -------------------------------------------------------------------------------------------

LAYOUTS = {  # the shape of the memory, the view of it, and what is summed
    "rows": ((ROWS, 2), lambda t: t, 0),
    "rows of ten": ((30_003, 10), lambda t: t, 0),
    "rows of many": ((10_007, 130), lambda t: t, 0),
    "rows of very many": ((10_000, 300), lambda t: t, 0),
    "one column": ((ROWS, 1), lambda t: t, 0),
    "a transpose": ((ROWS, 2), lambda t: t.T, 1),
    "Fortran order": ((2, ROWS), lambda t: t.T, 0),
    "every second column": ((ROWS, 4), lambda t: t[:, ::2], 0),
    "every second column, all": ((ROWS, 4), lambda t: t[:, ::2], None),
    "every second of many columns": ((10_000, 40), lambda t: t[:, ::2], 0),
    "neighbouring columns": ((ROWS, 4), lambda t: t[:, 1:3], 0),
    "the middle": ((3, 50_000, 2), lambda t: t, 1),
    "the middle of many": ((30, 10_000, 3), lambda t: t, 1),
    "around the middle": ((ROWS, 3, 2), lambda t: t, (0, 2)),
    "around the middle, long rows": ((5_000, 3, 50), lambda t: t, (0, 2)),
    "two of three": ((1_000, 200, 2), lambda t: t, (0, 1)),
    "the first of three": ((50_000, 3, 2), lambda t: t, 0),
    "channels": ((1_000, 3, 20, 20), lambda t: t, (0, 2, 3)),
    "channels that lie last": ((1_000, 20, 20, 3), lambda t: t.permute(0, 3, 1, 2), (0, 2, 3)),
    "all of one channel": ((1_000, 20, 20, 2), lambda t: t[..., 0], None),
    "stretched": ((1, 2), lambda t: t.expand(ROWS, 2), 0),
    "stretched columns": ((ROWS, 1), lambda t: t.expand(ROWS, 3), 0),
}


@pytest.mark.parametrize("make", [tenths, uniform])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, make, device):
    if layout.startswith("the middle"):
        leave_to_the_gpu(device)
    shape, view, dim = LAYOUTS[layout]
    check(lambda m, x: view(x).sum(dim), device, make(*shape))


@pytest.mark.parametrize("n", [65, 128, 129, 1_000, 4_097, 10_000, 1_000_000])
def test_numbers_of_rows(n, device):
    if n < 1024:
        leave_to_the_gpu(device)
    check(lambda m, x: x.sum(0), device, tenths(n, 3))


def test_ones_do_not_stop_at_the_end_of_the_whole_numbers():
    many = 2**24 + 4096
    assert ag.ones(1, 2).expand(many, 2).sum(0).tolist() == [many] * 2
    assert ag.ones(many, 1).expand(-1, 2).nanmean(0).tolist() == [1, 1]
    assert sums.total(np.ones((many, 2), np.float32), 0).tolist() == [many] * 2


@pytest.mark.parametrize("columns", range(1, 9))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_columns_are_added_as_numpy_adds_them(columns, dtype):
    x = np.random.default_rng(0).normal(size=(40, 30, columns)).astype(dtype)
    for keepdims in (False, True):
        np.testing.assert_array_equal(sums.total(x, -1, keepdims), np.add.reduce(x, -1, keepdims=keepdims))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (1,), (-1,), (0, 2), (1, -1), (0, 1, 2)])
@pytest.mark.parametrize("view", [np.asarray, lambda x: x[::-1, :, ::2], lambda x: x[:, ::-3], lambda x: x.T])
def test_every_axis_of_every_view(view, axis, dtype):
    for shape in [(70, 3, 90), (200, 80, 4), (1, 900, 5), (300, 1, 7), (2, 3, 4), (0, 3, 4), (70, 0, 90)]:
        x = view(np.random.default_rng(0).random(shape).astype(dtype))
        for keepdims in (False, True):
            result, expected = sums.total(x, axis, keepdims), np.add.reduce(x, axis, keepdims=keepdims)
            assert (result.dtype, np.shape(result)) == (x.dtype, np.shape(expected))
            np.testing.assert_allclose(result, expected, 1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("shape", [(1_000, 3), (1_000, 300), (5, 1_000, 3)])
@pytest.mark.parametrize("values", [(np.inf,), (np.nan,), (np.inf, -np.inf), (-np.inf, 1.0)])
def test_infinities_and_nan(values, shape, device):
    x = np.zeros(shape, np.float32)
    x[..., 100 : 100 + len(values), 1] = values
    with np.errstate(invalid="ignore"):
        result, expected = ag.tensor(x, device=device).sum(-2).cpu().numpy(), x.sum(-2)
    np.testing.assert_array_equal(result, expected)
    assert not result[..., [0, 2]].any()


def test_halves_are_rounded_once(device):
    for dtype in (ag.float16, ag.bfloat16):
        x = ag.full((20_000, 2), 0.25, dtype=dtype, device=device)
        assert x.mean(0).tolist() == x.var(0, correction=0).add(0.25).tolist() == [0.25, 0.25]
        assert ag.sum_to(x[:10_000], (1, 2)).tolist() == [[2500, 2500]] if dtype == ag.float16 else True


# ---- ops -----------------------------------------------------------------------------------------------


def functional(m):
    return m.nn.functional


def gradient(m, loss, leaf):
    return m.autograd.grad(loss, leaf)[0]


def of_bias(m, x):
    """The gradient of a bias behind which the gradient is x."""
    bias = m.zeros(x.shape[1], dtype=x.dtype, device=x.device, requires_grad=True)
    return gradient(m, ((x.detach() + bias) * x.detach()).sum(), bias)


def of_linear(m, x):
    width, options = x.shape[1], {"dtype": x.dtype, "device": x.device}
    weight, bias = m.zeros(width, 1, **options), m.zeros(width, requires_grad=True, **options)
    inputs = m.ones(len(x), 1, **options)
    return gradient(m, (functional(m).linear(inputs, weight, bias) * x.detach()).sum(), bias)


def of_activation(m, x):
    """The bias of a layer with an activation: `linear_activation`, for PyTorch the two ops."""
    width, options = x.shape[1], {"dtype": x.dtype, "device": x.device}
    weight, bias = m.zeros(width, 1, **options), m.ones(width, requires_grad=True, **options)
    inputs = m.ones(len(x), 1, **options)
    fused = getattr(functional(m), "linear_activation", None)
    out = fused(inputs, weight, bias) if fused else functional(m).linear(inputs, weight, bias).relu()
    return gradient(m, (out * x.detach()).sum(), bias)


def of_layer_norm(m, x):
    bias = m.zeros(x.shape[-1], dtype=x.dtype, device=x.device, requires_grad=True)
    weight = m.ones(x.shape[-1], dtype=x.dtype, device=x.device, requires_grad=True)
    out = functional(m).layer_norm(x, x.shape[-1:], weight, bias)
    return m.autograd.grad((out * x.detach()).sum(), (weight, bias, x))[1]


def of_batch_norm(m, x):
    bias = m.zeros(x.shape[1], dtype=x.dtype, device=x.device, requires_grad=True)
    out = functional(m).batch_norm(x, None, None, None, bias, training=True)
    return gradient(m, (out * x.detach()).sum(), bias)


def of_running_mean(m, x):
    mean, var = (m.zeros(x.shape[1], dtype=x.dtype, device=x.device) for _ in range(2))
    functional(m).batch_norm(x, mean, var, training=True, momentum=1.0)
    return m.stack([mean, var])


def grad_of(m, t, function, shape):
    """The gradient of the sum of function(t, ones of `shape`) by the ones."""
    w = m.ones(shape, dtype=t.dtype, device=t.device, requires_grad=True)
    return m.autograd.grad(function(t, w).sum(), w)[0]


PRODUCTS = {
    "the gradient of a product": lambda m, t: grad_of(m, t, lambda t, w: t @ w, (2, 3)),
    "the gradient of einsum": lambda m, t: grad_of(m, t, lambda t, w: m.einsum("nj,jk->njk", t, w), (2, 3)),
    "the gradient of a wider einsum": lambda m, t: grad_of(m, t, lambda t, w: m.einsum("nj,k->njk", t, w), (20,)),
    "the gradient of outer": lambda m, t: grad_of(m, t, lambda t, w: m.outer(t[:, 0], w), (3,)),
    "the gradient of mv": lambda m, t: grad_of(m, t, lambda t, w: t @ w, (2,)),
}
OPS = {
    **PRODUCTS,
    "sum": lambda m, x: x.sum(0),
    "mean": lambda m, x: x.mean(0),
    "nansum": lambda m, x: m.nansum(x, 0),
    "nanmean": lambda m, x: m.nanmean(x, 0),
    "var": lambda m, x: m.var(x + 100, 0),
    "std": lambda m, x: m.std(x, 0),
    "norm": lambda m, x: m.linalg.vector_norm(x, 2, 0),
    "norm of order 1": lambda m, x: m.linalg.vector_norm(x, 1, 0),
    "norm of order 3": lambda m, x: m.linalg.vector_norm(x, 3, 0),
    "logsumexp": lambda m, x: m.logsumexp(x, 0),
    "softmax": lambda m, x: m.softmax(x, 0)[:10],
    "log_softmax": lambda m, x: m.log_softmax(x, 0)[:10],
    "the gradient of softmax": lambda m, x: gradient(m, (m.softmax(x, 0) * x.detach()).sum(), x)[:10] * len(x),
    "einsum": lambda m, x: m.einsum("ij->j", x),
    "einsum of three": lambda m, x: m.einsum("ij,ij,j->j", x, x, x[0]),
    "trapezoid": lambda m, x: m.trapezoid(x, dim=0),
    "cumsum": lambda m, x: m.cumsum(x, 0),
    "cumsum of a row": lambda m, x: m.cumsum(x.reshape(-1), 0),
    "cumsum, backward": lambda m, x: gradient(m, (m.cumsum(x, 0) * x.detach()).sum(), x),
    "logcumsumexp": lambda m, x: m.logcumsumexp(x[:20_000, 0], 0),
    "cumulative_trapezoid": lambda m, x: m.cumulative_trapezoid(x, dim=0),
    "cumprod": lambda m, x: m.cumprod(1 + x[:20_000] * 1e-3, 0),
    "mse_loss": lambda m, x: functional(m).mse_loss(x, m.zeros_like(x)),
    "binary_cross_entropy": lambda m, x: functional(m).binary_cross_entropy(x, m.ones_like(x)),
    "the gradient of expand": lambda m, x: gradient(m, (x[:1].expand(*x.shape) * x.detach()).sum(), x)[0],
    "the gradient of a bias": of_bias,
    "the gradient of linear": of_linear,
    "the gradient of linear_activation": of_activation,
    "the gradient of layer_norm": of_layer_norm,
    "the gradient of batch_norm": of_batch_norm,
    "the statistics of batch_norm": of_running_mean,
    "trace": lambda m, x: m.trace(x[:, :1].expand(-1, 500)[:500]),
    "cov": lambda m, x: m.cov(x.T)[0, 0],
    "dist": lambda m, x: m.dist(x, m.zeros_like(x)),
}


@pytest.mark.skipif(not torch, reason="what an op's other steps lose is known by PyTorch's error")
@pytest.mark.parametrize("make", [tenths, uniform])
@pytest.mark.parametrize("op", OPS)
def test_ops(op, make, device):
    if make is tenths and op in ("var", "std", "cov", "the statistics of batch_norm", "the gradient of layer_norm"):
        pytest.skip("nothing varies")
    if op.startswith("cum") or op in PRODUCTS:
        leave_to_the_gpu(device)
    check(OPS[op], device, make(ROWS, 2))


@pytest.mark.parametrize("dim", [0, 1])
def test_a_variance_far_from_zero(dim, device):
    x = (np.random.default_rng(0).standard_normal((100_000, 2)) + 1e4).astype(np.float32)
    check(lambda m, x: m.var(x, dim), device, x if dim == 0 else np.ascontiguousarray(x.T))


def test_clipping_of_gradients(device):
    p = ag.zeros(ROWS, 3, device=device, requires_grad=True)
    p.grad = ag.tensor(tenths(ROWS, 3), device=device)
    assert float(ag.nn.utils.clip_grad_norm_(p, 1.0)) == pytest.approx((0.01 * ROWS * 3) ** 0.5, rel=2e-5)


@pytest.mark.cpu
@pytest.mark.parametrize("shapes", [((3, 8192), (8192, 2)), ((3, 9001), (9001, 30)), ((2, 1, 20_000), (20_000, 3)),
                                    ((2, 2, 9001), (2, 9001, 2)), ((1, 2, 9000), (3, 9000, 2)), ((0, 9000), (9000, 2))])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_many_terms(shapes, turned):
    rng = np.random.default_rng(0)
    a, b = [rng.random(shape[:-2] + shape[-2:][:: -1 if turned else 1], np.float32) for shape in shapes]
    if turned:
        a, b = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
    result = (ag.from_numpy(a) @ ag.from_numpy(b)).numpy()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert result.shape == exact.shape
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=8 * ULP)
