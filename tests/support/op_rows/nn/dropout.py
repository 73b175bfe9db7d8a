"""Rows of ops/nn/dropout.py."""

import numpy as np
from op_db import Error, Row, Sample, nonzero, normal
from op_rows.nn.shared import HALVES, NO_FUNCTION, with_attributes

import autograd_gpu as ag
from autograd_gpu.backend.arrays.dropout_mask import Mask
from autograd_gpu.backend.cpu.dropout import mask_bits

LOWEST = -1.7580993408473766  # the limit of selu


def seeded(name):
    """The op after a fixed seed, so that it draws the same numbers at every call; a CUDA graph is seeded at replays."""

    def call(x, **attributes):
        if not ag.cuda.is_current_stream_capturing():
            ag.manual_seed(5)
        return getattr(ag.ops.nn.dropout, name)(x, **attributes)

    return call


def same_mask(x, p, channels=False):
    ag.manual_seed(5)
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if channels else x.shape
    return ag.backend.to_numpy(ag.random.bernoulli_mask(shape, 1 - p))


def same_dropout(x, p, channels=False):
    return np.where(same_mask(x, p, channels), x / (1 - p) if p < 1 else 0.0, 0.0)


def same_alpha_dropout(x, p, channels=False):
    kept = np.where(same_mask(x, p, channels), x, LOWEST)
    return (kept - LOWEST * p) / np.sqrt((LOWEST**2 * p + 1) * (1 - p)) if p < 1 else x * 0


def same_slopes(shape, lower=1 / 8, upper=1 / 3):
    ag.manual_seed(5)
    return ag.random.uniform(shape, np.float32, None, lower, upper).numpy(force=True)


def same_rrelu(x, **bounds):
    return np.where(x > 0, x, x * same_slopes(x.shape, **bounds))


def their_dropout(torch, x, p, channels=False):
    return x * torch.tensor(same_mask(x, p, channels)) / (1 - p) if p < 1 else x * 0


def their_alpha_dropout(torch, x, p, channels=False):
    kept = torch.where(torch.tensor(same_mask(x, p, channels)), x, LOWEST)
    return (kept - LOWEST * p) / np.sqrt((LOWEST**2 * p + 1) * (1 - p)) if p < 1 else x * 0


def their_rrelu(torch, x, **bounds):
    return torch.where(x > 0, x, x * torch.tensor(same_slopes(x.shape, **bounds)).to(x.dtype))


def drops(rng):
    whole = [Sample(normal(rng, *s), p=p) for s in ((4, 5), (), (0, 2)) for p in (0.3, 1.0)]
    return [*whole, *(Sample(normal(rng, *s), p=0.4, channels=True) for s in ((4, 5), (2, 3, 4), (2, 3, 2, 2)))]


def masks(rng):
    """Bits for elements, for channels, and fewer than the tensor has elements."""
    several = [((4, 5), 20, 1), ((), 1, 1), ((0, 2), 0, 1), ((2, 3, 4), 6, 4), ((3, 2, 5), 10, 1), ((2, 3, 2, 2), 3, 4)]
    return [Sample(normal(rng, *s), mask=Mask(7, 3, 0.6, *bits), scale=1.5) for s, *bits in several]


def same_bits(x, mask):
    return np.resize(np.repeat(mask_bits(mask), mask.per_bit), x.shape)


DRAWN = {**NO_FUNCTION, "batch": "each example draws its own numbers, see test_batched_shapes"}

ROWS = [
    Row(
        "masked_scale",
        reference=lambda x, mask, scale: np.where(same_bits(x, mask), x * scale, 0.0),
        torch=lambda torch, x, mask, scale: x * torch.tensor(same_bits(x, mask)) * scale,
        skip=NO_FUNCTION,
        tol=HALVES,
        samples=masks,
    ),
    Row(
        "random_dropout",
        fn=seeded("random_dropout"),
        reference=same_dropout,
        torch=their_dropout,
        skip=DRAWN,
        tol=HALVES,
        samples=drops,
    ),
    Row(
        "random_alpha_dropout",
        fn=seeded("random_alpha_dropout"),
        reference=same_alpha_dropout,
        torch=their_alpha_dropout,
        skip=DRAWN,
        tol=HALVES,
        samples=drops,
    ),
    Row(
        "random_rrelu",
        fn=seeded("random_rrelu"),
        reference=same_rrelu,
        torch=their_rrelu,
        skip=DRAWN,
        tol={"float16": 2e-2, "bfloat16": 0.1},
        samples=with_attributes(nonzero, {}, {"lower": 0.5, "upper": 0.9}),
        errors=[Error("bounds", lambda op, x: op(x(2), lower=0.5, upper=0.1), RuntimeError, "Lower bound should be")],
    ),
]
