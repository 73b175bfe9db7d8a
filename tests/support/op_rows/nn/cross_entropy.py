"""Rows of ops/nn/cross_entropy.py."""

import numpy as np
from op_db import Row, Sample, indices, normal, positive
from op_rows.nn.shared import CLASSES, HALVES, NUMBERS, class_samples, classes_second
from scipy.special import log_softmax, softmax


def rows_scale(target, weight, classes, ignore_index, reduction):
    """The weight of each row's loss, and the classes with ignored ones as 0."""
    ignored = target == ignore_index
    safe = np.where(ignored, 0, target)
    scale = np.where(ignored, 0.0, 1.0 if weight is None else weight[safe])
    return (scale / scale.sum() if reduction == "mean" else scale), safe


def nll(x, target, weight=None, ignore_index=-100, reduction="mean"):
    scale, safe = rows_scale(target, weight, x.shape[-1], ignore_index, reduction)
    rows = -np.take_along_axis(x, np.asarray(safe)[..., None], -1)[..., 0] * scale
    return np.asarray(rows if reduction == "none" else rows.sum())


def their_classes(name):
    def call(torch, x, target, weight=None, **attributes):
        loss = getattr(torch.nn.functional, name)(classes_second(torch, x), target, weight, **attributes)
        return (loss, torch.softmax(x, -1)) if name == "cross_entropy" else loss

    return call


def grad_samples(rng):
    results = [
        Sample(
            normal(rng, *h), softmax(normal(rng, *shape), -1), indices(rng, 3, *shape[:-1]), positive(rng, *shape[:-1])
        )
        for h, shape in (((), (4, 3)), ((4,), (4, 3)), ((2, 2), (2, 2, 3)), ((), (3,)))
    ]
    return [*results, Sample(normal(rng), normal(rng, 0, 3), indices(rng, 3, 0), positive(rng, 0))]


def cross_entropy_grad(h, probs, target, scale):
    return (h * scale)[..., None] * (probs - np.eye(probs.shape[-1])[target])


def their_cross_entropy_grad(torch, h, probs, target, scale):
    return (h * scale)[..., None] * (probs - torch.eye(probs.shape[-1], dtype=probs.dtype)[target])


def nll_grad_samples(rng):
    words = {"classes": 3, "ignore_index": -100}
    target, weight = indices(rng, 3, 4), positive(rng, 3)
    kept = 1 / weight[target[target != target[0]]].sum()
    ignoring = {"classes": 3, "ignore_index": int(target[0])}
    return [
        Sample(normal(rng), target, None, np.array(0.25), reduction="mean", **words),
        Sample(normal(rng, 4), target, None, None, reduction="none", **words),
        Sample(normal(rng), target, weight, None, reduction="sum", **words),
        Sample(normal(rng), target, weight, np.array(kept), reduction="mean", **ignoring),
        Sample(normal(rng), indices(rng, 3), None, None, reduction="sum", **words),
        Sample(normal(rng, 0), indices(rng, 3, 0), None, None, reduction="none", **words),
    ]


def nll_grad(h, target, weight=None, factor=None, *, classes, ignore_index, reduction):
    scale, safe = rows_scale(target, weight, classes, ignore_index, "sum")
    return -(h * scale * (1 if factor is None else factor))[..., None] * np.eye(classes)[safe]


def their_nll_grad(torch, h, target, weight=None, factor=None, *, classes, **attributes):
    def loss(x):
        return their_classes("nll_loss")(torch, x, target, weight, **attributes)

    return torch.func.vjp(loss, torch.zeros(*target.shape, classes, dtype=h.dtype))[1](h)[0]


ROWS = [
    Row(
        "class_cross_entropy",
        samples=class_samples,
        torch=their_classes("cross_entropy"),
        errors=CLASSES,
        tol=HALVES,
        reference=lambda x, target, weight=None, **words: (
            nll(log_softmax(x, -1), target, weight, **words),
            softmax(x, -1),
        ),
        **NUMBERS,
    ),
    Row(
        "cross_entropy_grad",
        samples=grad_samples,
        reference=cross_entropy_grad,
        torch=their_cross_entropy_grad,
        tol=HALVES,
        skip={"oracle_dtypes": "torch has no such function"},
    ),
    Row(
        "class_nll",
        samples=class_samples,
        reference=nll,
        torch=their_classes("nll_loss"),
        errors=CLASSES,
        tol=HALVES,
        **NUMBERS,
    ),
    Row("class_nll_grad", samples=nll_grad_samples, reference=nll_grad, torch=their_nll_grad, tol=HALVES),
]
