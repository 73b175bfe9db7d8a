"""Rows of ops/nn/margin_losses.py."""

import numpy as np
from op_db import Row, Sample, indices, normal
from op_rows.nn.shared import HALVES, REDUCTIONS, WRONG, finish


def class_samples(rng):
    settings = [(4, 1, 1.0), (4, 2, 0.7), (0, 1, 1.0)]
    results = [Sample(normal(rng, n, 3), indices(rng, 3, n), p=p, margin=margin) for n, p, margin in settings]
    return [*results, Sample(normal(rng, 2, 1), indices(rng, 1, 2), p=1, margin=1.0)]


def class_margins(x, target, p, margin):
    z = np.maximum(x - np.take_along_axis(x, target[:, None], 1) + margin, 0) ** p
    np.put_along_axis(z, target[:, None], 0, 1)
    return z.sum(1) / x.shape[1]


def label_samples(rng):
    labels = np.array([[2, 0, -1, 1], [-1, 1, 2, 3], [3, 1, 0, 2], [1, 1, -1, 0], [0, -1, -1, -1]])
    return [Sample(normal(rng, n, 4), labels[:n]) for n in (5, 3, 0)]  # many, few, none


def label_margins(x, target):
    out = np.zeros(len(x))
    for n, (row, labels) in enumerate(zip(x, target.tolist(), strict=True)):
        mine = labels[: labels.index(-1)] if -1 in labels else labels
        others = [c for c in range(len(row)) if c not in mine]
        out[n] = sum(max(0, 1 - row[y] + row[c]) for y in mine for c in others) / len(row)
    return out


def their_class_margins(torch, x, target, p, margin):
    mine = target[:, None]
    away = (x - x.gather(1, mine) + margin).clamp(min=0) ** p
    return away.scatter(1, mine, 0.0).sum(1) / x.shape[1]


def their_label_margins(torch, x, target):
    out = [x.sum()[None][:0]]
    for row, labels in zip(x, target.tolist(), strict=True):
        mine = labels[: labels.index(-1)] if -1 in labels else labels
        others = [c for c in range(len(row)) if c not in mine]
        out.append((1 - row[mine][:, None] + row[others]).clamp(min=0).sum()[None] / len(row))
    return torch.cat(out)


FIELDS = {
    "integers": "float32",
    "tol": {"float16": 2e-2, "bfloat16": 0.1},
    "skip": {
        "zero_dim": "x is a matrix",
        "oracle_dtypes": "torch takes float32 and float64 only",
    },
}

def soft_samples(rng):
    shapes = (((2, 3), (2, 3)), ((), ()), ((2, 3), (3,)), ((1,), (4,)))
    results = [Sample(normal(rng, *a), normal(rng, *b), reduction=r) for a, b in shapes for r in REDUCTIONS]
    return [*results, Sample(normal(rng, 0, 3), normal(rng, 0, 3), reduction="sum")]


def their_soft_margin(torch, input, target, reduction="mean"):
    """PyTorch's own has no derivative by the target."""
    losses = torch.nn.functional.softplus(-target * input)
    return losses if reduction == "none" else getattr(losses, reduction)()


ROWS = [
    Row(
        "soft_margin",
        samples=soft_samples,
        reference=lambda input, target, reduction="mean": finish(np.logaddexp(0, -target * input), reduction),
        torch=their_soft_margin,
        tol=HALVES,
        errors=[WRONG],
    ),
    Row("class_margins", samples=class_samples, reference=class_margins, torch=their_class_margins, **FIELDS),
    Row("label_margins", samples=label_samples, reference=label_margins, torch=their_label_margins, **FIELDS),
]
