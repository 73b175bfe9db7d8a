"""Rows of ops/nn/likelihood_losses.py."""

import numpy as np
from op_db import Error, Row, Sample, normal, positive, uniform
from op_rows.nn.shared import HALVES, REDUCTIONS, WRONG, finish, their

PROBABILITIES = uniform(0.1, 0.9)


def bce(input, target, weight=None, pos_weight=None, reduction="mean"):
    scale = 1.0 if pos_weight is None else pos_weight
    values = (1 - target) * np.logaddexp(0, input) + scale * target * np.logaddexp(0, -input)
    return finish(values if weight is None else values * weight, reduction)


def bce_samples(rng):
    results = [
        Sample(normal(rng, *s), PROBABILITIES(rng, *s), None, None, reduction=r)
        for s in ((2, 3), ())
        for r in REDUCTIONS
    ]
    return [
        *results,
        Sample(normal(rng, 0, 3), PROBABILITIES(rng, 0, 3), None, None, reduction="sum"),
        Sample(normal(rng, 2, 3), PROBABILITIES(rng, 2, 3), positive(rng, 3), None),
        Sample(normal(rng, 2, 3), PROBABILITIES(rng, 2, 3), positive(rng, 2, 3), positive(rng, 3), reduction="none"),
        Sample(normal(rng, 2, 3) * 50, PROBABILITIES(rng, 2, 3), None, positive(rng, 3), reduction="sum"),
    ]


def of_probabilities(input, target, weight=None, reduction="mean"):
    values = -target * np.log(input) - (1 - target) * np.log1p(-input)
    return finish(values if weight is None else values * weight, reduction)


def probability_samples(rng):
    return [
        Sample(PROBABILITIES(rng, *s), PROBABILITIES(rng, *s), *w, reduction=r)
        for s, w in (((2, 3), [None]), ((), [None]), ((2, 3), [positive(rng, 3)]), ((4,), [positive(rng, 4)]))
        for r in REDUCTIONS
    ] + [Sample(PROBABILITIES(rng, 0, 3), PROBABILITIES(rng, 0, 3), None, reduction="sum")]


def kl(input, target, reduction="mean", log_target=False):
    values = np.exp(target) * (target - input) if log_target else target * (np.log(target) - input)
    if reduction != "batchmean":
        return finish(values, reduction)
    return finish(values, "sum") / (len(input) if input.ndim else 1)


def kl_samples(rng):
    shapes = (((2, 3), (2, 3)), ((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)))
    results = [
        Sample(normal(rng, *a), positive(rng, *b), reduction=r, log_target=log)
        for a, b in shapes
        for r in (*REDUCTIONS, "batchmean")
        for log in (False, True)
    ]
    return [*results, Sample(normal(rng, 0, 3), positive(rng, 0, 3), reduction="sum")]


def their_kl(torch, input, target, reduction="mean", log_target=False):
    reduce = {"mean": torch.mean, "sum": torch.sum, "none": torch.clone, "batchmean": torch.sum}[reduction]
    loss = reduce(torch.nn.functional.kl_div(input, target, reduction="none", log_target=log_target))
    return loss / len(input) if reduction == "batchmean" and input.ndim else loss


def gaussian(input, target, var, full=False, reduction="mean"):
    values = 0.5 * (np.log(var) + (input - target) ** 2 / var)
    return finish(values + (0.5 * np.log(2 * np.pi) if full else 0), reduction)


def gaussian_samples(rng):
    shapes = (((2, 3), (2, 3), (2, 3)), ((), (), ()), ((2, 3), (2, 3), (2, 1)), ((2, 3), (3,), (2, 3)))
    results = [
        Sample(normal(rng, *a), normal(rng, *b), positive(rng, *c), reduction=r, full=full)
        for a, b, c in shapes
        for r in REDUCTIONS
        for full in (False, True)
    ]
    return [*results, Sample(normal(rng, 0, 3), normal(rng, 0, 3), positive(rng, 0, 1), reduction="sum")]


def their_gaussian(torch, input, target, var, full=False, reduction="mean"):
    reduce = {"mean": torch.mean, "sum": torch.sum, "none": torch.clone}[reduction]
    values = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    return reduce(values + (0.5 * np.log(2 * np.pi) if full else 0))


def poisson(input, target, reduction="mean", log_input=True, full=False, eps=1e-8):
    values = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    stirling = target * np.log(target) - target + np.log(2 * np.pi * target) / 2
    return finish(values + np.where(target > 1, stirling, 0) if full else values, reduction)


def poisson_samples(rng):
    shapes = (((2, 3), (2, 3)), ((), ()), ((2, 3), (3,)), ((1,), (4,)))
    results = [
        Sample(positive(rng, *a), positive(rng, *b) + 1, reduction=r, log_input=log, full=full)
        for a, b in shapes
        for r, log, full in (("mean", True, False), ("sum", False, False), ("none", True, True))
    ]
    return [*results, Sample(normal(rng, 0, 3), positive(rng, 0, 3), reduction="sum")]


def their_poisson(torch, input, target, **attributes):
    """PyTorch's takes the dtype of an integer input by itself."""
    dtype = torch.result_type(input, target)
    dtype = dtype if dtype.is_floating_point else torch.float32
    operands = torch.broadcast_tensors(input.to(dtype), target.to(dtype))
    return torch.nn.functional.poisson_nll_loss(*operands, **attributes)


ROWS = [
    Row(
        "binary_cross_entropy_with_logits",
        samples=bce_samples,
        reference=bce,
        tol=HALVES,
        torch=their("binary_cross_entropy_with_logits"),
        errors=[WRONG, Error("shapes", lambda op, x: op(x(2), x(3)), ValueError, "Target size")],
    ),
    Row(
        "binary_cross_entropy",
        samples=probability_samples,
        reference=of_probabilities,
        tol={"float16": 2e-2, "bfloat16": 0.15},
        integer_samples=lambda rng: [Sample(np.array([0, 1]), np.array([0, 1]), None)],
        skip={"integers": "the logarithm of 0"},
        errors=[
            WRONG,
            Error("shapes", lambda op, x: op(x(2), x(3)), ValueError, "Using a target size"),
            Error("range", lambda op, x: op(x(2) * 2, x(2)), RuntimeError, "should be between 0 and 1", by_value=True),
        ],
    ),
    Row(
        "kl_div",
        samples=kl_samples,
        reference=kl,
        torch=their_kl,
        tol=HALVES,
        skip={"integers": "the logarithm of a negative number"},
        errors=[WRONG, Error("shapes", lambda op, x: op(x(2), x(3)), RuntimeError, "must match the size of tensor b")],
    ),
    Row(
        "poisson_nll",
        samples=poisson_samples,
        reference=poisson,
        torch=their_poisson,
        tol=HALVES,
        errors=[WRONG],
    ),
    Row(
        "gaussian_nll",
        samples=gaussian_samples,
        reference=gaussian,
        torch=their_gaussian,
        tol=HALVES,
        skip={"integers": "the logarithm of a negative number"},
        errors=[
            Error("reduction", lambda op, x: op(x(2), x(2), x(2), reduction="max"), ValueError, "not a valid value")
        ],
    ),
]
