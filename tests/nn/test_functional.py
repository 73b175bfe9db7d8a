"""Functions that are made of ops, against PyTorch's: values, first and second gradients. Blocks: see test_op_oracle.py.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from nn_cases import CALLS, CASES, CONSTANT, EVALUATED, LIKELIHOODS, NORMS, convert, normal, run

import autograd_gpu as ag
from autograd_gpu.nn import functional as F

torch = pytest.importorskip("torch")


# ---- the cases ---------------------------------------------------------------------------------------


WITHOUT_SECOND = {  # torch has no second derivative of these: ours is checked against differences
    "multi_margin_loss": lambda rng: (normal(rng, 4, 3), rng.integers(0, 3, 4), 2),
    "multilabel_margin_loss": lambda rng: (normal(rng, 4) * 3, np.array([2, 0, -1, -1])),
}


# ---- the comparison ----------------------------------------------------------------------------------


def same(ours, theirs, what):
    expected = theirs.numpy(force=True)
    assert ours.shape == expected.shape, what
    np.testing.assert_allclose(ours.numpy(force=True), expected, rtol=1e-8, atol=1e-9, err_msg=what)


def compare(name, device, args, kwargs, constant=()):
    what = f"{name} {kwargs}"
    ours, x = run(ag, getattr(F, name), lambda a: ag.tensor(a, device=device), args, kwargs, constant)
    theirs, y = run(torch, getattr(torch.nn.functional, name), torch.tensor, args, kwargs, constant)
    same(ours, theirs, what)
    weight = np.asarray(np.random.default_rng(1).normal(size=ours.shape))
    first = ag.autograd.grad(ours, x, ag.tensor(weight, device=device), create_graph=True, allow_unused=True)
    expected = torch.autograd.grad(theirs, y, torch.tensor(weight), create_graph=True, allow_unused=True)
    pairs = [(a, b) for a, b in zip(first, expected, strict=True) if a is not None or b is not None]
    for a, b in pairs:
        same(a, b, f"gradient of {what}")
    with_grad = [(a, b) for a, b in pairs if a.requires_grad and b.requires_grad]
    if with_grad and name not in WITHOUT_SECOND:
        compare_second(with_grad, x, y, what)


def compare_second(firsts, x, y, what):
    """The gradients of pairs of first gradients."""
    rng = np.random.default_rng(2)
    weights = [np.asarray(rng.normal(size=a.shape)) for a, _ in firsts]
    expected = torch.autograd.grad([b for _, b in firsts], y, [torch.tensor(w) for w in weights], allow_unused=True)
    weights = [ag.tensor(w, device=x[0].device) for w in weights]
    grads = ag.autograd.grad([a for a, _ in firsts], x, weights, allow_unused=True)
    for a, b in zip(grads, expected, strict=True):
        if a is not None and b is not None:
            same(a, b, f"second gradient of {what}")
        else:  # one says None where the other says zeros
            assert a is None or not a.numpy(force=True).any(), what
            assert b is None or not b.numpy(force=True).any(), what


@pytest.mark.parametrize("name", WITHOUT_SECOND)
def test_second_derivatives_that_pytorch_lacks(name, device):
    drawn = WITHOUT_SECOND[name](np.random.default_rng(0))
    args = [convert(a, lambda a: ag.tensor(a, device=device))[0] for a in drawn]

    def function(x):
        return getattr(F, name)(x * x, *args[1:])  # the square bends what is straight

    assert ag.autograd.gradgradcheck(function, (args[0].requires_grad_(),), atol=1e-4)


STRAIGHT = (
    "relu", "relu6", "leaky_relu", "rrelu", "hardtanh", "hardshrink", "softshrink", "hardsigmoid", "threshold", "prelu",
)  # fmt: skip


@pytest.mark.parametrize("name", STRAIGHT)
def test_second_derivatives_of_straight_pieces_are_zeros(name, device):
    """Not an error that says that x was not used."""
    x = ag.tensor([-2.0, -0.1, 0.3, 4.0], device=device, requires_grad=True)
    rest = {"threshold": (0.1, 3.0), "prelu": (ag.tensor([0.5], device=device),)}.get(name, ())
    (slope,) = ag.autograd.grad(getattr(F, name)(x * 1, *rest).sum(), x, create_graph=True)
    (second,) = ag.autograd.grad(slope.sum(), x)
    assert slope.numpy(force=True).any()
    assert not second.numpy(force=True).any()


def test_the_slope_of_rrelu_in_training_has_a_derivative():
    x = ag.tensor([-2.0, 4.0], requires_grad=True)
    (slope,) = ag.autograd.grad(F.rrelu(x, training=True).sum(), x, create_graph=True)
    assert ag.autograd.grad(slope.sum(), x)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name, device):
    calls = CASES[name](np.random.default_rng(0))
    assert len(calls) >= CALLS or name in NORMS or name in LIKELIHOODS
    for args, kwargs in calls:
        compare(name, device, args, kwargs, CONSTANT.get(name, ()))


@pytest.mark.parametrize("name", EVALUATED)
def test_norm_by_running_statistics(name, device):
    rng = np.random.default_rng(0)
    for _ in range(CALLS):
        compare(name, device, EVALUATED[name](rng), {}, constant=(1, 2))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_in_another_dtype(name, device):
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(3, 4))
    for ours_dtype, theirs_dtype in ((ag.float64, torch.float64), (ag.float16, torch.float16)):
        a, b = ag.tensor(x, device=device, requires_grad=True), torch.tensor(x, requires_grad=True)
        out = getattr(F, name)(a, dim=1, dtype=ours_dtype)
        expected = getattr(torch.nn.functional, name)(b, dim=1, dtype=theirs_dtype)
        assert out.dtype == ours_dtype
        tolerance = 1e-6 if ours_dtype == ag.float64 else 2e-3
        np.testing.assert_allclose(out.numpy(force=True), expected.numpy(force=True), rtol=tolerance, atol=tolerance)
        out.backward(ag.tensor(g, device=device).to(ours_dtype))
        expected.backward(torch.tensor(g).to(theirs_dtype))
        assert a.grad.dtype == ag.float32
        np.testing.assert_allclose(a.grad.numpy(force=True), b.grad.numpy(), rtol=tolerance, atol=tolerance)
    with pytest.raises(RuntimeError, match="dtype must be floating point, got int64"):
        getattr(F, name)(a, dim=1, dtype=ag.int64)


# In another order; fewer; PyTorch has none.
DIFFERENT = {"binary_cross_entropy_with_logits", "multi_head_attention_forward", "linear_activation"}


def test_signatures_equal_pytorch():
    """Names and defaults of parameters after the input, where torch.nn.functional is written in Python."""
    compared = 0
    for name in set(F.__all__) - DIFFERENT:
        theirs = getattr(torch.nn.functional, name)
        try:
            expected = list(inspect.signature(theirs).parameters.values())
        except ValueError:  # built in
            continue
        if expected[0].kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        left_out = {"size_average", "reduce", "_stacklevel", "out"}
        expected = [(p.name, p.default) for p in expected[1:] if p.name not in left_out]
        results = list(inspect.signature(getattr(F, name)).parameters.values())
        results = [(p.name, p.default) for p in results[1:] if p.name not in left_out]
        assert results == expected, name
        compared += 1
    assert compared > 40


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.25])
def test_gradients_of_cross_entropy_far_from_zero(offset, label_smoothing, device):
    """log(sum(exp(x))) in float32 has no room for the sum's share beside such logits."""
    numbers = (offset + 8 * np.random.randint(-1, 2, (5, 7))).astype(np.float32)
    labels = np.array([0, 3, 6, 1, 1])
    x = ag.tensor(numbers, device=device, requires_grad=True)
    loss = F.cross_entropy(x, ag.tensor(labels, device=device), label_smoothing=label_smoothing)
    y = torch.tensor(numbers.astype(np.float64), requires_grad=True)
    torch.nn.functional.cross_entropy(y, torch.tensor(labels), label_smoothing=label_smoothing).backward()
    (gradient,) = ag.autograd.grad(loss, x)
    np.testing.assert_allclose(gradient.numpy(force=True), y.grad.numpy(), rtol=0, atol=1e-7)
