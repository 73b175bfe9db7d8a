"""Rows of ops/nn/logits_cross_entropy.py."""

import itertools

import numpy as np
from op_db import Row, Sample, indices, normal, positive
from op_rows.nn.shared import CLASSES, HALVES, NUMBERS, class_samples, classes_second
from scipy.special import logsumexp

from autograd_gpu.core.declare.op import RECORD


def samples(rng):
    """Those of the other cross entropy, every other one with smoothing."""
    smoothing = itertools.cycle(({}, {"label_smoothing": 0.25}))
    return [Sample(*sample.args, **sample.kwargs, **next(smoothing)) for sample in class_samples(rng)]


def in_one_dtype(*args, **attributes):
    """The op, with `lse` in the loss's dtype: it is wider where that is a half one."""
    loss, lse = RECORD.logits_cross_entropy(*args, **attributes)
    return loss, lse.to(loss.dtype)


def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    classes, ignored = x.shape[-1], target == ignore_index
    lse = np.asarray(logsumexp(x, -1)) if x.size else x.sum(-1)
    weight = np.ones(classes) if weight is None else weight
    named = np.eye(classes)[np.where(ignored, 0, target)] * ~ignored[..., None]
    expected = (1 - label_smoothing) * named + label_smoothing / classes * ~ignored[..., None]
    losses = np.asarray((weight * expected * (lse[..., None] - x)).sum(-1))
    total = (weight * named).sum() if reduction == "mean" else 1.0
    return (losses if reduction == "none" else np.asarray(losses.sum() / total)), lse


def theirs(torch, x, target, weight=None, **attributes):
    return torch.nn.functional.cross_entropy(classes_second(torch, x), target, weight, **attributes), x.logsumexp(-1)


def grad_samples(rng):
    samples = []
    for h, shape in (((), (4, 3)), ((4,), (4, 3)), ((2, 2), (2, 2, 3)), ((), (3,)), ((), (0, 3))):
        rows = shape[:-1]
        per_row = normal(rng, *rows), normal(rng, *rows), indices(rng, 3, *rows), positive(rng, *rows)
        for weight, smoothing in ((None, 0.0), (positive(rng, 3), 0.25)):
            samples.append(
                Sample(normal(rng, *h), normal(rng, *shape), *per_row, positive(rng), weight, label_smoothing=smoothing)
            )
    return samples


def gradient(h, x, lse, rest, target, counts, factor, weight=None, label_smoothing=0.0):
    classes = x.shape[-1]
    weight = np.ones(classes) if weight is None else weight
    expected = weight * ((1 - label_smoothing) * np.eye(classes)[target] + label_smoothing / classes)
    probabilities = np.exp(x - (lse + rest)[..., None])
    return np.asarray(h * factor)[..., None] * (counts[..., None] * probabilities - expected)


def their_gradient(torch, h, x, lse, rest, target, counts, factor, weight=None, label_smoothing=0.0):
    classes = x.shape[-1]
    weight = torch.ones(classes, dtype=x.dtype) if weight is None else weight
    expected = weight * ((1 - label_smoothing) * torch.eye(classes, dtype=x.dtype)[target] + label_smoothing / classes)
    return (h * factor)[..., None] * (counts[..., None] * (x - (lse + rest)[..., None]).exp() - expected)


ROWS = [
    Row(
        "logits_cross_entropy",
        fn=in_one_dtype,
        samples=samples,
        reference=cross_entropy,
        torch=theirs,
        errors=CLASSES,
        tol=HALVES,
        **NUMBERS,
    ),
    Row(
        "logits_cross_entropy_grad",
        samples=grad_samples,
        reference=gradient,
        torch=their_gradient,
        tol=HALVES,
        skip={"oracle_dtypes": "torch has no such function"},
    ),
]
