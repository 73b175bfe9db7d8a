"""Rows of ops/nn/regression_losses.py and ops/nn/cross_entropy.py."""

import warnings

import numpy as np
from op_db import Error, Row, Sample, indices, normal, positive
from scipy.special import log_softmax, softmax

from autograd_gpu.core.declare.op import RECORD

REDUCTIONS = ("mean", "sum", "none")
HALVES = {"float16": 1e-2, "bfloat16": 6e-2}
WRONG = Error(
    "reduction", lambda op, x: op(x(2), x(2), reduction="max"), ValueError, "max is not a valid value for reduction"
)


def finish(values, reduction):
    values = np.asarray(values)
    return values if reduction == "none" else np.asarray(values.sum() if reduction == "sum" else values.mean())


def apart(rng, *shape):
    """Differences from the normal target that stay away from 0 and from 1."""
    return rng.choice([-1.0, 1.0], size=shape) * rng.choice([0.5, 1.7], size=shape) * rng.uniform(0.9, 1.1, size=shape)


def pairs(rng):
    """(input, target) of equal shapes, with every reduction; and broadcasting ones."""
    found = []
    for shape in ((2, 3), (), (4,)):
        target = normal(rng, *shape)
        found += [Sample(target + apart(rng, *shape), target, reduction=r) for r in REDUCTIONS]
    target = normal(rng, 3)
    found += [Sample(target + apart(rng, 2, 3), target, reduction=r) for r in REDUCTIONS]
    return [*found, *(Sample(normal(rng, 0, 3), normal(rng, 0, 3), reduction=r) for r in ("sum", "none"))]


def huber(input, target, reduction="mean", delta=1.0):
    size = np.abs(input - target)
    return finish(np.where(size < delta, 0.5 * size**2, delta * (size - 0.5 * delta)), reduction)


def their(name):
    """torch.nn.functional, which broadcasts only equal shapes without a warning."""

    def call(torch, input, target, *rest, **attributes):
        if not rest:
            input, target = torch.broadcast_tensors(input, target)
        names = ("weight", "pos_weight")[: len(rest)]
        return getattr(torch.nn.functional, name)(input, target, **dict(zip(names, rest, strict=True)), **attributes)

    return call


def quiet(name):
    """The op, without the warning about the samples that broadcast."""

    def call(*args, **attributes):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using a target size", UserWarning)
            return getattr(RECORD, name)(*args, **attributes)

    return call


REGRESSION = [
    Row(
        "mse_loss",
        samples=pairs,
        fn=quiet("mse_loss"),
        torch=their("mse_loss"),
        tol=HALVES,
        errors=[WRONG],
        reference=lambda input, target, reduction="mean": finish((input - target) ** 2, reduction),
    ),
    Row(
        "l1_loss",
        samples=pairs,
        fn=quiet("l1_loss"),
        torch=their("l1_loss"),
        tol=HALVES,
        errors=[WRONG],
        integer_samples=lambda rng: [Sample(normal(rng, 3), normal(rng, 3))],
        reference=lambda input, target, reduction="mean": finish(np.abs(input - target), reduction),
    ),
    Row(
        "huber_loss",
        fn=quiet("huber_loss"),
        samples=lambda rng: [*pairs(rng), Sample(normal(rng, 3), normal(rng, 3) + 0.3, delta=5.0)],
        reference=huber,
        torch=their("huber_loss"),
        tol=HALVES,
        errors=[
            WRONG,
            Error("delta", lambda op, x: op(x(2), x(2), delta=0.0), RuntimeError, "non-positive values for delta"),
        ],
    ),
]


# ---- classes -------------------------------------------------------------------------------------------


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


def class_samples(rng):
    found = []
    for shape in ((4, 3), (3,), (2, 2, 3)):
        target = indices(rng, 3, *shape[:-1])
        found += [
            Sample(normal(rng, *shape), target, weight, reduction=r, ignore_index=ignore)
            for weight in (None, positive(rng, 3))
            for r in REDUCTIONS
            for ignore in (-100, 1)
            if shape != (3,) or ignore < 0
        ]
    target = np.array([0, -100, 2, 1])
    found += [Sample(normal(rng, 4, 3), target, None, reduction=r) for r in REDUCTIONS]
    return [*found, Sample(normal(rng, 0, 3), indices(rng, 3, 0), None, reduction="sum")]


def classes_second(torch, x):
    return torch.movedim(x, -1, 1) if x.ndim > 2 else x


def their_classes(name):
    def call(torch, x, target, weight=None, **attributes):
        loss = getattr(torch.nn.functional, name)(classes_second(torch, x), target, weight, **attributes)
        return (loss, torch.softmax(x, -1)) if name == "cross_entropy" else loss

    return call


def grad_samples(rng):
    found = [
        Sample(
            normal(rng, *h), softmax(normal(rng, *shape), -1), indices(rng, 3, *shape[:-1]), positive(rng, *shape[:-1])
        )
        for h, shape in (((), (4, 3)), ((4,), (4, 3)), ((2, 2), (2, 2, 3)), ((), (3,)))
    ]
    return [*found, Sample(normal(rng), normal(rng, 0, 3), indices(rng, 3, 0), positive(rng, 0))]


def cross_entropy_grad(h, probs, target, scale):
    return (h * scale)[..., None] * (probs - np.eye(probs.shape[-1])[target])


def their_cross_entropy_grad(torch, h, probs, target, scale):
    return (h * scale)[..., None] * (probs - torch.eye(probs.shape[-1], dtype=probs.dtype)[target])


def nll_grad_samples(rng):
    given = {"classes": 3, "ignore_index": -100}
    target, weight = indices(rng, 3, 4), positive(rng, 3)
    kept = 1 / weight[target[target != target[0]]].sum()
    ignoring = {"classes": 3, "ignore_index": int(target[0])}
    return [
        Sample(normal(rng), target, None, np.array(0.25), reduction="mean", **given),
        Sample(normal(rng, 4), target, None, None, reduction="none", **given),
        Sample(normal(rng), target, weight, None, reduction="sum", **given),
        Sample(normal(rng), target, weight, np.array(kept), reduction="mean", **ignoring),
        Sample(normal(rng), indices(rng, 3), None, None, reduction="sum", **given),
        Sample(normal(rng, 0), indices(rng, 3, 0), None, None, reduction="none", **given),
    ]


def nll_grad(h, target, weight=None, factor=None, *, classes, ignore_index, reduction):
    scale, safe = rows_scale(target, weight, classes, ignore_index, "sum")
    return -(h * scale * (1 if factor is None else factor))[..., None] * np.eye(classes)[safe]


def their_nll_grad(torch, h, target, weight=None, factor=None, *, classes, **attributes):
    def loss(x):
        return their_classes("nll_loss")(torch, x, target, weight, **attributes)

    return torch.func.vjp(loss, torch.zeros(*target.shape, classes, dtype=h.dtype))[1](h)[0]


CLASSES = [
    Error("range", lambda op, x: op(x(2, 3), x(2, dtype="int64") * 3, None), IndexError,
          "Target 3 is out of bounds", by_value=True),
]
NUMBERS = {"integers": "float32", "integer_samples": lambda rng: [Sample(normal(rng, 4, 3), indices(rng, 3, 4), None)]}

ROWS = [
    *REGRESSION,
    Row(
        "class_cross_entropy",
        samples=class_samples,
        torch=their_classes("cross_entropy"),
        errors=CLASSES,
        tol=HALVES,
        reference=lambda x, target, weight=None, **given: (
            nll(log_softmax(x, -1), target, weight, **given),
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
