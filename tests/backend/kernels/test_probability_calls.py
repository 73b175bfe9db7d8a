"""Softmax and cross entropy on CuPy arrays, and the ops that launch them, on a GPU or emulated."""

import kernel_references as references
import numpy as np
import pytest
from emulated import assert_close, assert_same, quarters

import autograd_gpu as ag
from autograd_gpu import profiler
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.cuda import runtime
from autograd_gpu.backend.kernels import loader
from autograd_gpu.nn import functional as F
from autograd_gpu.ops.nn.softmax import safe_softmax

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
ACCURACY = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 4e-6, "float64": 1e-13}
SHAPES = [(0, 4), (3, 0), (1, 1), (16,), (5, 3), (2, 3, 8), (600, 40), (1, 70000), (3, 40001)]


def close(actual, expected, scale=1.0):
    tolerance = ACCURACY[str(expected.dtype)]
    assert_close(to_numpy(actual), expected, rtol=tolerance, atol=tolerance * scale)


def on(xp, classes):
    """The classes and their weights on the device."""
    weight = None if classes.weight is None else xp.asarray(classes.weight)
    return classes._replace(target=xp.asarray(classes.target), weight=weight)


# ---- the functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [{}, {"safe": True}, {"logarithm": True}], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(xp, dtype, shape, form):
    x, g = quarters(shape, dtype), quarters(shape, dtype)
    out = kernels.softmax(xp.asarray(x), **form)
    expected = references.softmax(x, **form)
    close(out, expected)
    logarithm = form.get("logarithm", False)
    result = kernels.softmax_backward(xp.asarray(g), xp.asarray(expected), logarithm=logarithm)
    close(result, references.softmax_backward(g, expected, logarithm), 100)


def in_parts(*labels):
    """Two launches of each kernel."""
    return {label + end: 1 for label in labels for end in ("_parts", "")}


@pytest.mark.parametrize("shape", [(2, 40000), (1, 33001), (5, 70000)], ids=str)
def test_softmax_of_few_long_rows(xp, dtype, shape):
    """Two launches, the same bits every time, also in given memory; logarithms read `out` once."""
    x, g = xp.asarray(quarters(shape, dtype)), xp.asarray(quarters(shape, dtype))
    for logarithm, label in ((False, "softmax"), (True, "log_softmax")):
        with profiler.count() as counts:
            out = kernels.softmax(x, logarithm=logarithm)
            dx = kernels.softmax_backward(g, out, logarithm=logarithm)
        assert counts.launches == in_parts(label, f"{label}_backward")
        again, memory = kernels.softmax(x, xp.empty_like(x), logarithm=logarithm), g.copy()
        assert kernels.softmax_backward(memory, again, memory, logarithm=logarithm) is memory
        assert_same(to_numpy(again), to_numpy(out))
        assert_same(to_numpy(memory), to_numpy(dx))


@pytest.mark.parametrize(
    ("multiprocessors", "cols", "parts"),
    [(132, 40000, 5), (132, 80000, 10), (6, 80000, 6), (6, 40000, 1), (4, 80000, 1), (3, 80000, 1)],
)
def test_parts_follow_the_gpu(xp, monkeypatch, multiprocessors, cols, parts):
    """One launch where rows are as many as multiprocessors, or nearly. Scratch: two numbers for each part."""
    launches, load = [], loader.load

    def recording(name, device):
        loaded = load(name, device)

        def call(grid, block, arguments):
            launches.append((name, grid, [a.nbytes for a in arguments if isinstance(a, xp.ndarray)]))
            loaded.call(grid, block, arguments)

        return loaded._replace(call=call)

    monkeypatch.setattr(loader, "load", recording)
    monkeypatch.setattr(runtime, "multiprocessors", lambda index: multiprocessors)
    x = xp.ones((4, cols), "float32")
    kernels.softmax(x)
    results = [4 * parts * 2 * 4] if parts > 1 else []
    first = [("softmax_parts<float, 4>", (4, parts), [x.nbytes, *results])] if parts > 1 else []
    assert launches == [*first, ("softmax<float, 4>", (4, parts), [x.nbytes, *results, x.nbytes])]


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("shape", [(0, 4), *SHAPES[2:]], ids=str)
def test_cross_entropy(xp, dtype, shape, weighed, reduction):
    x, target = quarters(shape, dtype), np.random.randint(0, shape[-1], shape[:-1])
    target = np.where(np.arange(target.size).reshape(target.shape) % 3 == 2, -100, target)
    weight = np.arange(1, shape[-1] + 1).astype(kernels.wide(dtype)) / shape[-1] if weighed else None
    classes = kernels.Classes(target, weight, -100, 0.25 * weighed)
    loss, kept = kernels.cross_entropy(xp.asarray(x), on(xp, classes), reduction)
    expected, reference = references.cross_entropy(x, classes, reduction)
    close(loss, expected, 10)
    g = quarters(expected.shape, dtype)
    result = kernels.cross_entropy_backward(xp.asarray(g), xp.asarray(x), on(xp, classes), kept)
    close(result, references.cross_entropy_backward(g, x, classes, reference), 10)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(0, 4), (5, 3), (2, 3, 8), (600, 40)], ids=str)
def test_nll(xp, dtype, shape, reduction):
    x, target = quarters(shape, dtype), np.random.randint(0, shape[-1], shape[:-1])
    classes = kernels.Classes(target, None, 1)
    loss, factor = kernels.nll(xp.asarray(x), on(xp, classes), reduction)
    expected, reference = references.nll(x, classes, reduction)
    close(loss, expected, 100)
    g = quarters(shape[:-1] if reduction == "none" else (), dtype)
    result = kernels.nll_backward(xp.asarray(g), on(xp, classes), shape[-1], factor)
    close(result, references.nll_backward(g, classes, shape[-1], reference))


def test_launches(xp):
    x, few, long = [xp.ones(shape, "float32") for shape in ((600, 40), (128, 10), (2, 40000))]
    target, two = xp.zeros((600,), "int64"), xp.zeros((2,), "int64")
    with profiler.count() as counts:
        kernels.cross_entropy(x, kernels.Classes(target))
    assert counts.launches == {"cross_entropy": 1, "cross_entropy_total": 1}
    with profiler.count() as counts:
        kernels.cross_entropy(long, kernels.Classes(two), "none")
    assert counts.launches == {"cross_entropy": 1, "cross_entropy_join": 1}
    with profiler.count() as counts:
        kernels.cross_entropy(few, kernels.Classes(target[:128]))
        kernels.cross_entropy(x, kernels.Classes(target), "none")
    assert counts.launches == {"cross_entropy": 2}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda xp: kernels.softmax(np.ones(4)), TypeError, "x must be a CuPy array, not ndarray"),
        (lambda xp: kernels.softmax(xp.ones(4, "int32"), logarithm=True), TypeError, "log_softmax: dtype int32 is not"),
        (lambda xp: kernels.softmax(xp.ones(())), ValueError, "at least one dimension"),
        (lambda xp: kernels.softmax(xp.ones((4, 6))[:, ::2]), ValueError, "x must be contiguous"),
        (lambda xp: kernels.softmax(xp.ones(6), xp.ones(5)), ValueError, "out must have shape"),
        (lambda xp: kernels.softmax_backward(xp.ones(5), xp.ones(6)), ValueError, "g must have shape"),
        (lambda xp: cross_entropy(xp, (4, 0), 4), ValueError, r"x of shape \(4, 0\) has no classes"),
        (lambda xp: cross_entropy(xp, (0, 0), 4), ValueError, r"target must have shape \(0,\), not \(4,\)"),
        (lambda xp: cross_entropy(xp, (4, 3), 5), ValueError, r"target must have shape \(4,\), not \(5,\)"),
        (lambda xp: cross_entropy(xp, (4, 3), 4, "int32"), TypeError, "target must be int64, not int32"),
        (lambda xp: cross_entropy(xp, (4, 3), 4, weight=xp.ones(4)), ValueError, r"weight must have shape \(3,\)"),
        (lambda xp: kernels.nll(xp.ones((4, 0)), zeros(xp, 4)), ValueError, "nll: x of shape .* has no classes"),
        (lambda xp: kernels.nll_backward(xp.ones(3), zeros(xp, 4), 5), ValueError, r"g must have shape \(4,\)"),
        (lambda xp: cross_entropy_backward(xp, g=(3,)), ValueError, r"g must have shape \(4,\)"),
        (lambda xp: cross_entropy_backward(xp, lse=(3,)), ValueError, r"lse must have shape \(4,\)"),
        (lambda xp: cross_entropy_backward(xp, factor=(1,)), ValueError, r"factor must have shape \(4,\)"),
    ],
)
def test_wrong_arguments_are_refused(xp, call, error, text):
    with pytest.raises(error, match=text):
        call(xp)


def zeros(xp, rows):
    return kernels.Classes(xp.zeros((rows,), "int64"))


def cross_entropy(xp, shape, rows, dtype="int64", weight=None):
    kernels.cross_entropy(xp.ones(shape), kernels.Classes(xp.zeros((rows,), dtype), weight))


def cross_entropy_backward(xp, g=(), lse=(4,), factor=()):
    kept = kernels.CrossEntropySaved(xp.ones(lse), xp.ones((4,)), xp.ones((4,)), xp.ones(factor))
    kernels.cross_entropy_backward(xp.ones(g), xp.ones((4, 3)), zeros(xp, 4), kept)


# ---- the ops -----------------------------------------------------------------------------------------


def launched(call):
    """The kernels of a call, and of the backward from its result."""
    with profiler.count() as counts:
        loss = call()
    with profiler.count() as after:
        loss.backward(ag.ones_like(loss))
    return dict(counts.launches), dict(after.launches)


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 40), (6, 4, 1, 1)], ids=str)
def test_softmax_is_one_launch_and_so_is_its_gradient(shape, dtype):
    dim = 1 if shape[-1] == 1 else -1
    x = ag.tensor(quarters(shape, dtype), device="cuda", requires_grad=True)
    assert launched(lambda: F.softmax(x, dim)) == ({"softmax": 1}, {"softmax_backward": 1})
    assert launched(lambda: safe_softmax(x, dim)) == ({"softmax": 1}, {"softmax_backward": 1})
    assert launched(lambda: F.log_softmax(x, dim)) == ({"log_softmax": 1}, {"log_softmax_backward": 1})
    assert launched(lambda: F.log_softmax(x, dim, dtype=ag.float64))[0] == {"log_softmax": 1}


@pytest.mark.parametrize("call", [F.softmax, F.log_softmax, F.softmin, safe_softmax])
def test_softmax_of_few_long_rows_is_two_launches_and_so_is_its_gradient(call, dtype):
    x = ag.tensor(quarters((2, 40000), dtype), device="cuda", requires_grad=True)
    label = "log_softmax" if call is F.log_softmax else "softmax"
    assert launched(lambda: call(x, dim=1)) == (in_parts(label), in_parts(f"{label}_backward"))


@pytest.mark.emulated
@pytest.mark.parametrize("call", [F.softmax, F.log_softmax, safe_softmax])
@pytest.mark.parametrize(("shape", "count"), [((5, 7), 1), ((6, 4, 1, 1), 1), ((2, 40000), 2)], ids=str)
def test_nothing_else_is_launched(launches, call, shape, count):
    """By CuPy neither: the gradient becomes the leaf's own without a copy."""
    x = ag.ones(shape, device="cuda", requires_grad=True)
    g = ag.ones_like(x)
    with launches() as forward:
        out = call(x, dim=1)
    with launches() as backward:
        out.backward(g)
    assert [actual.total for actual in (forward, backward)] == [count, count], (forward.kernels, backward.kernels)


def test_softmax_along_another_dimension_is_left_to_cupy():
    x = ag.ones(4, 5, device="cuda", requires_grad=True)
    assert launched(lambda: F.softmax(x, 0)) == ({}, {})


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(600, 40), (2, 40000), (3, 5, 4)], ids=str)
def test_cross_entropy_is_two_launches_at_most_and_its_gradient_one(shape, smoothing, reduction, dtype):
    x = ag.tensor(quarters(shape, dtype), device="cuda", requires_grad=True)
    target = ag.zeros(shape[0], *shape[2:], dtype=ag.int64, device="cuda")
    weight = ag.ones(shape[1], device="cuda", dtype=x.dtype)
    forward, after = launched(lambda: F.cross_entropy(x, target, weight, -100, reduction, smoothing))
    assert forward.pop("cross_entropy") == 1
    assert sum(forward.values()) == (shape[0] == 2 or (shape[0] == 600 and reduction != "none"))
    assert after == {"cross_entropy_backward": 1}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_is_two_launches_at_most_and_its_gradient_one(reduction, dtype):
    x = ag.ones(600, 5, dtype=dtype, device="cuda", requires_grad=True)
    target = ag.zeros(600, dtype=ag.int32, device="cuda")
    forward, after = launched(lambda: F.nll_loss(x, target, reduction=reduction))
    assert forward == {"nll": 1} | ({"cross_entropy_total": 1} if reduction != "none" else {})
    assert after == {"nll_backward": 1}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_a_class_that_does_not_exist_makes_loss_and_gradient_nan(loss, reduction):
    """Labels 1 to C, or an unset 255: on the CPU an IndexError."""
    x = ag.ones(4, 3, device="cuda", requires_grad=True)
    target = ag.tensor([3, 0, -100, 255], device="cuda")
    result = loss(x, target, reduction=reduction)
    expected = [True, False, False, True]
    assert result.isnan().tolist() == (expected if reduction == "none" else True)
    (g,) = ag.autograd.grad(result.sum(), x, create_graph=True)
    assert g.isnan().tolist() == [[row] * 3 for row in expected]
    (second,) = ag.autograd.grad((g * x * x).sum(), x)
    assert second.isnan().tolist() == g.isnan().tolist()
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        loss(x.cpu(), target.cpu(), reduction=reduction)


def test_logits_that_were_written_to_are_noticed():
    """They are kept, where PyTorch keeps their log-softmax."""
    x, target = ag.ones(4, 3, device="cuda", requires_grad=True) * 2, ag.zeros(4, dtype=ag.int64, device="cuda")
    loss = F.cross_entropy(x, target)
    x.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_cross_entropy_keeps_no_array_of_probabilities():
    kept = []
    x, target = ag.ones(64, 100, device="cuda", requires_grad=True), ag.zeros(64, dtype=ag.int64, device="cuda")
    with ag.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
        F.cross_entropy(x, target)
    assert sorted(kept) == [(), (64,), (64,), (64,), (64,), (64, 100)]  # factor; target, lse, its rest, counts; x


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_and_its_derivatives_are_those_of_the_cpu(reduction, smoothing):
    shape, target = (3, 4, 5), np.array([[0, -100, 3, 1, 2]] * 3)
    x, weight = np.random.normal(size=shape), np.random.uniform(0.5, 2.0, 4)

    def derivatives(device):
        y = ag.tensor(x, device=device, requires_grad=True)
        arguments = ag.tensor(target, device=device), ag.tensor(weight, device=device), -100, reduction, smoothing
        loss = F.cross_entropy(y, *arguments)
        (g,) = ag.autograd.grad((loss * loss).sum(), y, create_graph=True)
        (second,) = ag.autograd.grad((g * g).sum(), y)
        return [t.numpy(force=True) for t in (loss, g, second)]

    for actual, expected in zip(derivatives("cuda"), derivatives("cpu"), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def test_half_logits_lose_nothing_to_their_largest():
    """lse is kept in float32: rounded to float16 near 1000 it would be off by a quarter."""
    x = (np.linspace(-3, 3, 64) + 1000).astype(np.float16).reshape(1, 64)
    y = ag.tensor(x, device="cuda", requires_grad=True)
    F.cross_entropy(y, ag.tensor([5], device="cuda")).backward()
    e = np.exp(x.astype(np.float64) - 1003)
    np.testing.assert_allclose(y.grad.numpy(force=True), e / e.sum() - (np.arange(64) == 5), atol=1e-3)
