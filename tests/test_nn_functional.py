"""Functions that are made of ops, against PyTorch's: values, first and second gradients. Blocks: see test_op_oracle.py.

A case draws calls: (args, kwargs) with float64 arrays, which become tensors that require grad, other arrays, which
become constants, and plain values.
"""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.nn import functional as F

torch = pytest.importorskip("torch")

CALLS = 6  # compared per case, at least
REDUCTIONS = ("mean", "sum", "none")


def normal(rng, *shape):
    return np.asarray(rng.normal(size=shape))


def positive(rng, *shape):
    return np.asarray(rng.uniform(0.3, 3.0, size=shape))


def signs(rng, *shape):
    return rng.choice([-1, 1], size=shape)


def each(draw, **options):
    """A case that calls with every value of each option in turn; without options it draws again and again."""

    def calls(rng):
        if not options:
            return [(draw(rng), {}) for _ in range(CALLS)]
        return [(draw(rng), {name: value}) for name, values in options.items() for value in values]

    return calls


def shaped(*shapes, domain=normal):
    """Draws arrays of these shapes."""
    return lambda rng: tuple(domain(rng, *shape) for shape in shapes)


def together(*cases):
    return lambda rng: [call for case in cases for call in case(rng)]


# ---- the cases ---------------------------------------------------------------------------------------

ACTIVATIONS = {
    "relu6": each(shaped((3, 4))),
    "prelu": together(
        each(shaped((2, 3), (3,))), each(shaped((2, 3, 4), (3,))), each(shaped((2, 3), (1,))), each(shaped((), (1,)))
    ),
}

NORMS = {
    "batch_norm": each(
        lambda rng: (normal(rng, 4, 3, 2), None, None, normal(rng, 3), normal(rng, 3), True), eps=(1e-5, 0.1)
    ),
    "group_norm": together(
        each(lambda rng: (normal(rng, 2, 6, 3), 3, normal(rng, 6), normal(rng, 6)), eps=(1e-5, 0.1)),
        each(lambda rng: (normal(rng, 2, 6), 2), eps=(1e-5, 0.1)),
        each(lambda rng: (normal(rng, 2, 6, 2, 2), 6, normal(rng, 6)), eps=(1e-5, 0.1)),
    ),
    "instance_norm": together(
        each(lambda rng: (normal(rng, 2, 3, 4), None, None, normal(rng, 3), normal(rng, 3))),
        each(lambda rng: (normal(rng, 2, 3, 4, 2),), eps=(1e-5, 0.1)),
    ),
    "layer_norm": each(lambda rng: (normal(rng, 2, 3, 4), (3, 4), normal(rng, 3, 4), normal(rng, 3, 4))),
    "rms_norm": together(
        each(lambda rng: (normal(rng, 2, 3, 4), (3, 4), normal(rng, 3, 4)), eps=(None, 0.1)),
        each(lambda rng: (normal(rng, 2, 4), (4,))),
    ),
}

EVALUATED = {  # batch norm and instance norm by running statistics, which are constants
    "batch_norm": lambda rng: (normal(rng, 4, 3, 2), normal(rng, 3), positive(rng, 3), normal(rng, 3), normal(rng, 3)),
    "instance_norm": lambda rng: (
        normal(rng, 4, 3, 2), normal(rng, 3), positive(rng, 3), normal(rng, 3), normal(rng, 3), False,
    ),
}  # fmt: skip

DISTANCES = {
    "normalize": together(each(shaped((3, 4)), p=(1.0, 2.0, 3.0)), each(shaped((2, 3, 4)), dim=(0, 2, -2))),
    "cosine_similarity": together(
        each(shaped((3, 4), (3, 4)), dim=(0, 1, -1)), each(shaped((3, 4), (4,)))
    ),
    "pairwise_distance": together(
        each(shaped((3, 4), (3, 4)), p=(1.0, 2.0, 3.0), keepdim=(True, False)), each(shaped((3, 4), (4,)))
    ),
}

MARGINS = {
    "margin_ranking_loss": each(
        lambda rng: (normal(rng, 4), normal(rng, 4), signs(rng, 4)), reduction=REDUCTIONS, margin=(0.5, 1.0, 0.0)
    ),
    "hinge_embedding_loss": each(
        lambda rng: (normal(rng, 3, 4), signs(rng, 3, 4)), reduction=REDUCTIONS, margin=(0.5, 1.5, 2.0)
    ),
    "cosine_embedding_loss": together(
        each(
            lambda rng: (normal(rng, 5, 3), normal(rng, 5, 3), signs(rng, 5)), reduction=REDUCTIONS, margin=(0.2, -0.3)
        ),
        each(lambda rng: (normal(rng, 3), normal(rng, 3), signs(rng)), margin=(0.1,)),
    ),
    "soft_margin_loss": each(lambda rng: (normal(rng, 3, 4), signs(rng, 3, 4).astype(float)), reduction=REDUCTIONS * 2),
    "triplet_margin_loss": each(
        shaped((4, 3), (4, 3), (4, 3)), reduction=REDUCTIONS, p=(1.0, 3.0), swap=(True, False), margin=(0.3, 2.0)
    ),
    "triplet_margin_with_distance_loss": each(
        shaped((4, 3), (4, 3), (4, 3)), reduction=REDUCTIONS, swap=(True, False), margin=(0.3, 2.0)
    ),
    "multi_margin_loss": together(
        each(
            lambda rng: (normal(rng, 4, 3), rng.integers(0, 3, 4)), reduction=REDUCTIONS, p=(1, 2), margin=(0.3,)
        ),
        each(lambda rng: (normal(rng, 4, 3), rng.integers(0, 3, 4), 1, 1.0, np.float32([1, 2, 3]).astype("f8"))),
        each(lambda rng: (normal(rng, 3), np.asarray(rng.integers(0, 3))), reduction=REDUCTIONS),
    ),
    "multilabel_margin_loss": together(
        each(lambda rng: (normal(rng, 2, 4), np.array([[3, 0, -1, 1], [1, -1, -1, -1]])), reduction=REDUCTIONS),
        each(lambda rng: (normal(rng, 4), np.array([2, 0, 1, -1])), reduction=REDUCTIONS),
        each(lambda rng: (normal(rng, 4), np.array([3, 3, -1, 1]))),
    ),
    "multilabel_soft_margin_loss": together(
        each(lambda rng: (normal(rng, 4, 3), rng.uniform(size=(4, 3))), reduction=REDUCTIONS),
        each(lambda rng: (normal(rng, 4, 3), rng.uniform(size=(4, 3)), positive(rng, 3)), reduction=REDUCTIONS),
    ),
}

LIKELIHOODS = {
    "gaussian_nll_loss": together(
        each(
            lambda rng: (normal(rng, 4, 3), normal(rng, 4, 3), positive(rng, 4, 3)),
            reduction=REDUCTIONS, full=(True, False), eps=(1.0,),
        ),
        each(lambda rng: (normal(rng, 4, 3), normal(rng, 4, 3), positive(rng, 4)), reduction=REDUCTIONS),
        each(lambda rng: (normal(rng, 4, 3), normal(rng, 4, 3), positive(rng, 4, 1)), reduction=REDUCTIONS),
        each(lambda rng: (normal(rng, 4, 3), normal(rng, 4, 3), 2.0)),
    ),
    "poisson_nll_loss": together(
        each(
            lambda rng: (normal(rng, 4, 3), positive(rng, 4, 3)), reduction=REDUCTIONS, full=(True, False)
        ),
        each(lambda rng: (positive(rng, 4, 3), positive(rng, 4, 3), False), full=(True, False), eps=(1e-3,)),
    ),
    "smooth_l1_loss": each(shaped((3, 4), (3, 4)), reduction=REDUCTIONS, beta=(0.5, 2.0)),
    "kl_div": each(
        lambda rng: (normal(rng, 4, 3), positive(rng, 4, 3)),
        reduction=(*REDUCTIONS, "batchmean"), log_target=(True, False),
    ),
    **{
        name: lambda rng: [
            ((normal(rng, 4, 3), normal(rng, 4, 3)), {"reduction": r, "weight": w})
            for r in REDUCTIONS for w in (None, positive(rng, 4, 3))
        ]
        for name in ("mse_loss", "l1_loss", "huber_loss")
    },
}  # fmt: skip

POOLS = {
    "avg_pool1d": each(lambda rng: (normal(rng, 2, 3, 8), 3), stride=(1, 2, 4), padding=(1,), ceil_mode=(True, False)),
    "adaptive_avg_pool1d": together(*(each(lambda rng, n=n: (normal(rng, 2, 8), n)) for n in (1, 3, 4))),
    "max_pool1d": each(
        lambda rng: (normal(rng, 2, 3, 8), 3), stride=(1, 2, 4), padding=(1,), dilation=(2,), ceil_mode=(True, False)
    ),
    "pixel_shuffle": each(lambda rng: (normal(rng, 2, 8, 2, 3), 2)),
    "pixel_unshuffle": each(lambda rng: (normal(rng, 3, 4, 6), 2)),
}

QKV = shaped((2, 4, 3, 5), (2, 4, 6, 5), (2, 4, 6, 2))
GROUPED = shaped((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 2))
LOOKS = np.array([[True] * 6, [False] * 6, [True, False] * 3])  # the second query may look at nothing
ATTENTION = {
    "scaled_dot_product_attention": together(
        each(QKV, attn_mask=(None, LOOKS, np.where(LOOKS, 0.5, -np.inf)), is_causal=(True,), scale=(0.3,)),
        each(shaped((3, 5), (6, 5), (6, 2), (3, 6))),
        lambda rng: [(GROUPED(rng), {"enable_gqa": True, "is_causal": causal}) for causal in (True, False)],
    ),
    "bilinear": together(each(shaped((2, 3), (2, 4), (5, 3, 4), (5,))), each(shaped((3,), (4,), (5, 3, 4)))),
    "softmin": each(shaped((3, 4)), dim=(0, 1, -2, -1, 0, 1)),
}


def bags(**options):
    """Bags of the rows of a table, of which one or two are empty."""
    offsets = np.array([0, 2, 2, 5, 6, 8])
    return lambda rng: [
        ((rng.integers(0, 5, 8), normal(rng, 5, 3)), {"offsets": offsets, "mode": mode, "padding_idx": pad, **options})
        for mode in ("sum", "mean", "max") for pad in (None, 2, -1)
    ]  # fmt: skip


BAGS = {
    "embedding": each(lambda rng: (rng.integers(0, 5, (3, 4)), normal(rng, 5, 2)), padding_idx=(None, 2, -1) * 2),
    "embedding_bag": together(
        bags(),
        bags(include_last_offset=True),
        each(lambda rng: (rng.integers(0, 5, (3, 4)), normal(rng, 5, 2)), mode=("sum", "mean", "max")),
    ),
}

CONSTANT = {"soft_margin_loss": (1,), "multi_margin_loss": (4,)}  # inputs by which PyTorch has no derivative

WITHOUT_SECOND = {  # torch has no second derivative of these: ours is checked against differences
    "multi_margin_loss": lambda rng: (normal(rng, 4, 3), rng.integers(0, 3, 4), 2),
    "multilabel_margin_loss": lambda rng: (normal(rng, 4) * 3, np.array([2, 0, -1, -1])),
}

CASES = ACTIVATIONS | NORMS | DISTANCES | MARGINS | LIKELIHOODS | POOLS | ATTENTION | BAGS


# ---- the comparison ----------------------------------------------------------------------------------


def convert(value, make):
    """(value for the call, the tensor if it requires grad)"""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value, None
    tensor = make(np.asarray(value))
    return tensor, tensor if np.asarray(value).dtype == np.float64 else None


def run(library, function, make, args, kwargs, constant=()):
    """(outputs, inputs that require grad)"""
    pairs = [convert(a, make) for a in args]
    named = {k: convert(v, make)[0] for k, v in kwargs.items()}
    inputs = [t for i, (_, t) in enumerate(pairs) if t is not None and i not in constant]
    for t in inputs:
        t.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        out = function(*[a for a, _ in pairs], **named)
    return out, inputs


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
    curved = [(a, b) for a, b in pairs if a.requires_grad and b.requires_grad]
    if curved and name not in WITHOUT_SECOND:
        compare_second(curved, x, y, what)


def compare_second(firsts, x, y, what):
    """The gradients of pairs of first gradients."""
    rng = np.random.default_rng(2)
    weights = [np.asarray(rng.normal(size=a.shape)) for a, _ in firsts]
    expected = torch.autograd.grad([b for _, b in firsts], y, [torch.tensor(w) for w in weights], allow_unused=True)
    weights = [ag.tensor(w, device=x[0].device) for w in weights]
    found = ag.autograd.grad([a for a, _ in firsts], x, weights, allow_unused=True)
    for a, b in zip(found, expected, strict=True):
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
        found = list(inspect.signature(getattr(F, name)).parameters.values())
        found = [(p.name, p.default) for p in found[1:] if p.name not in left_out]
        if name in ("softmax", "log_softmax", "softmin"):  # PyTorch's dim=None, deprecated, guesses
            found[0], expected[0] = found[0][0], expected[0][0]
        assert found == expected, name
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
    (found,) = ag.autograd.grad(loss, x)
    np.testing.assert_allclose(found.numpy(force=True), y.grad.numpy(), rtol=0, atol=1e-7)
