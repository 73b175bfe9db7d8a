"""Gradients under vmap of ops whose rules read saved extras, against a loop over the examples."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.core.declare.op import RECORD

N, ROWS, CLASSES = 3, 4, 5
TARGETS = np.array([[0, 2, 1, 4], [-100, 1, -100, 3], [4, 4, 0, 0]])  # the second example ignores rows
LABELS = np.array([[0, 2, -1, 1, 1], [3, -1, 0, 0, 0], [4, 1, 2, 3, 0], [-1, 0, 0, 0, 0]])


def scores(holes=False):
    x = np.random.default_rng(0).normal(size=(N, ROWS, CLASSES)) * 2
    if holes:
        x[0, 1] = x[1, 2, 3] = np.nan
    return ag.tensor(x)


def weighted(values):
    """A loss whose second derivative by `values` is not zero."""
    return (values.sin() * ag.arange(1.0, values.numel() + 1, dtype=ag.float64).reshape(values.shape)).sum()


def class_loss(name, reduction, weights):
    """A loss of one example: its logits, classes and the weights of the classes."""

    def loss(x, target, weight):
        shared = weight if weights is not None else None
        if name == "logits":
            words = {"reduction": reduction, "label_smoothing": 0.1}
            result = RECORD.logits_cross_entropy(x.sin() * 2, target, shared, **words)[0]
        elif name == "classes":
            result = nn.functional.cross_entropy(x.sin() * 2, target, shared, reduction=reduction)
        else:
            result = nn.functional.nll_loss(x.sin(), target, shared, reduction=reduction)
        return weighted(result)

    return loss


CLASS_LOSSES = [
    pytest.param(name, reduction, weights, id=f"{name}, {reduction}, weights {weights}")
    for name in ("logits", "classes", "nll") for reduction in ("mean", "sum", "none")
    for weights in (None, "one", "own")
]  # fmt: skip
OTHERS = {
    "to_device": lambda x: weighted(RECORD.to_device(x.sin(), x.device)),
    "label_margins": lambda x: weighted(RECORD.label_margins(x.sin(), ag.tensor(LABELS[:ROWS]))),
    "multilabel_margin_loss": lambda x: nn.functional.multilabel_margin_loss(x * x, ag.tensor(LABELS[:ROWS])),
    "nanmean": lambda x: weighted((x * x).nanmean(1)),
    "nanmean of all": lambda x: weighted((x * x).nanmean()),
    "nanmean with kept dimensions": lambda x: weighted((x * x).nanmean((0, 1), keepdim=True)),
    "nanmean of numbers": lambda x: weighted(func.vmap(func.vmap(lambda y: (y * y).nanmean()))(x)),
    "nanmean of numbers in a vector": lambda x: weighted(func.vmap(func.vmap(lambda y: y.sin().nanmean(0)))(x)),
}


def compare(loss, in_dims, *args):
    """The gradient and the Jacobian of the gradient under vmap, and those of a loop."""
    for derivative in (func.grad(loss), func.jacrev(func.grad(loss)), func.jacfwd(func.grad(loss))):
        result = func.vmap(derivative, in_dims)(*args)
        for i in range(N):
            one = derivative(*[x if dim is None else x[i] for x, dim in zip(args, in_dims, strict=True)])
            np.testing.assert_allclose(result[i].cpu().numpy(), one.cpu().numpy(), rtol=1e-10, atol=1e-12)
        assert np.nanmax(np.abs(result.cpu().numpy())) > 0


@pytest.mark.parametrize(("name", "reduction", "weights"), CLASS_LOSSES)
def test_losses_of_classes(name, reduction, weights):
    weight = ag.tensor(np.random.default_rng(1).uniform(0.5, 2.0, size=(N, CLASSES)))
    shared = weight if weights == "own" else weight[0]
    dims = (0, 0, 0 if weights == "own" else None)
    compare(class_loss(name, reduction, weights), dims, scores(), ag.tensor(TARGETS), shared)


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    compare(OTHERS[name], (0,), scores(holes="nanmean" in name))


RANDOM = {
    "dropout": lambda x: nn.functional.dropout(x, 0.5),
    "feature_dropout": lambda x: ag.feature_dropout(x.unsqueeze(-1), 0.5).squeeze(-1),
    "alpha_dropout": lambda x: nn.functional.alpha_dropout(x, 0.5, training=True),
    "rrelu": lambda x: nn.functional.rrelu(x, training=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_ops(name, device):
    """out = a * x + b, by element: the gradient of sum(out ** 3) is 3 * a * out ** 2, its derivative 6 a^2 out."""
    x = ag.tensor(np.random.default_rng(0).normal(size=(N, 4, 5)), device=device)

    def loss(x):
        out = RANDOM[name](x)
        return (out**3).sum(), out

    def slopes(x, out):
        if name == "rrelu":
            return out / x
        values, counts = np.unique(out.round(12), return_counts=True)
        kept = out.round(12) != values[counts.argmax()]  # dropped elements have one value
        i, j = np.flatnonzero(kept)[:2]
        return kept * (out.flat[i] - out.flat[j]) / (x.flat[i] - x.flat[j])

    jacobians, out = func.vmap(func.grad(loss, has_aux=True), randomness="different")(x)
    values, jacobians, out = [t.cpu().numpy() for t in (x, jacobians, out)]
    a = slopes(values, out)
    np.testing.assert_allclose(jacobians, 3 * a * out**2, rtol=1e-9)
    assert not (a[0] == a[1]).all()

    for jacobian in (func.jacrev, functools.partial(func.jacfwd, randomness="same")):
        jacobians, out = func.vmap(jacobian(func.grad(loss, has_aux=True), has_aux=True), randomness="different")(x)
        jacobians, out = jacobians.cpu().numpy(), out.cpu().numpy()
        diagonal = np.diagonal(jacobians.reshape(N, 20, 20), axis1=1, axis2=2).reshape(x.shape)
        np.testing.assert_allclose(diagonal, 6 * slopes(values, out) ** 2 * out, rtol=1e-9)
        assert np.count_nonzero(jacobians) == np.count_nonzero(diagonal)
