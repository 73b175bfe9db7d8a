"""Calls of the functions of nn.functional that are made of ops, in both libraries.

A case draws calls: (args, kwargs) with float64 arrays, which become tensors that require grad, other arrays, which
become constants, and plain values.
"""

from __future__ import annotations

import warnings

import numpy as np

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


ACTIVATIONS = {
    "relu6": each(shaped((3, 4))),
    "tanhshrink": each(shaped((3, 4))),
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
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), each(shaped((3, 4)), dim=(0, 1, -2, -1, 0, 1))),
}


def bags(modes=("sum", "mean", "max"), shape=8, **options):
    """Bags of the rows of a table, of which one or two are empty."""
    options = {"offsets": np.array([0, 2, 2, 5, 6, 8]), **options}
    return lambda rng: [
        ((rng.integers(0, 5, shape), normal(rng, 5, 3)), {"mode": mode, "padding_idx": pad, **options})
        for mode in modes for pad in (None, 2, -1)
    ]  # fmt: skip


BAGS = {
    "embedding": each(lambda rng: (rng.integers(0, 5, (3, 4)), normal(rng, 5, 2)), padding_idx=(None, 2, -1) * 2),
    "embedding_bag": together(
        bags(),
        bags(include_last_offset=True),
        each(lambda rng: (rng.integers(0, 5, (3, 4)), normal(rng, 5, 2)), mode=("sum", "mean", "max")),
        bags(offsets=None, shape=(2, 4)),
        bags(modes=("sum",), per_sample_weights=np.array([1.0, 10, 20, 30, 40, 50, 60, 70])),
    ),
}
CONSTANT = {"soft_margin_loss": (1,), "multi_margin_loss": (4,)}  # inputs by which PyTorch has no derivative
CASES = ACTIVATIONS | NORMS | DISTANCES | MARGINS | LIKELIHOODS | POOLS | ATTENTION | BAGS


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
