"""Functions and layers of nn with a size of 0 or 1 in place of another, and without dimensions, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from outcomes import difference, outcome, shapes, variants

import autograd_gpu as ag

torch = pytest.importorskip("torch")


def floats(*shape):
    return np.random.default_rng(len(shape)).uniform(0.1, 0.9, size=shape)


def classes(*shape):
    return np.zeros(shape, np.int64)


def signs(*shape):
    return np.where(np.arange(np.prod(shape)).reshape(shape) % 2, 1.0, -1.0)


# name -> the arguments of each call, of distinct sizes, and keywords
PAIRS = {name: [(floats(4, 3), floats(4, 3))] for name in (
    "l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy", "poisson_nll_loss",
    "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss")}  # fmt: skip
LOSSES = {
    **PAIRS,
    "soft_margin_loss": [(floats(4, 3), classes(4, 3))],
    "cross_entropy": [(floats(4, 3), classes(4)), (floats(4, 3, 2), classes(4, 2)), (floats(3), classes())],
    "nll_loss": [(floats(4, 3), classes(4)), (floats(4, 3, 2), classes(4, 2)), (floats(3), classes())],
    "hinge_embedding_loss": [(floats(4, 3), signs(4, 3))],
    "margin_ranking_loss": [(floats(4), floats(4), signs(4))],
    "cosine_embedding_loss": [(floats(4, 3), floats(4, 3), signs(4))],
    "triplet_margin_loss": [(floats(4, 3), floats(4, 3), floats(4, 3))],
    "triplet_margin_with_distance_loss": [(floats(4, 3), floats(4, 3), floats(4, 3))],
    "multi_margin_loss": [(floats(4, 3), classes(4)), (floats(3), classes())],
    "multilabel_margin_loss": [(floats(4, 3), classes(4, 3)), (floats(3), classes(3))],
    "gaussian_nll_loss": [(floats(4, 3), floats(4, 3), floats(4, 3))],
}
FUNCTIONS = {
    **{name: [((floats(4, 3),), {})] for name in (
        "relu", "gelu", "silu", "elu", "selu", "celu", "leaky_relu", "softplus", "softsign", "logsigmoid", "mish",
        "hardtanh", "hardswish", "hardsigmoid", "tanhshrink", "softshrink", "hardshrink", "relu6", "normalize",
        "instance_norm")},
    **{name: [((floats(4, 3),), {"dim": dim}) for dim in (0, 1, -1)] for name in (
        "softmax", "log_softmax", "softmin", "glu")},
    "linear": [((floats(4, 3), floats(5, 3), floats(5)), {}), ((floats(2, 4, 3), floats(5, 3)), {})],
    "bilinear": [((floats(4, 3), floats(4, 2), floats(5, 3, 2), floats(5)), {})],
    "embedding": [((classes(4, 3), floats(5, 2)), {})],
    "one_hot": [((classes(4, 3), 5), {}), ((classes(4, 3),), {})],
    "layer_norm": [((floats(4, 3), [3], floats(3), floats(3)), {}), ((floats(2, 4, 3), [4, 3]), {})],
    "rms_norm": [((floats(4, 3), [3], floats(3)), {})],
    "batch_norm": [((floats(4, 3), None, None, floats(3), floats(3)), {"training": True}),
                   ((floats(4, 3, 2), None, None), {"training": True})],
    "group_norm": [((floats(5, 4, 3), 2, floats(4), floats(4)), {}), ((floats(5, 4), 2), {})],
    "prelu": [((floats(4, 3), floats(3)), {}), ((floats(4, 3), floats(1)), {})],
    "cosine_similarity": [((floats(4, 3), floats(4, 3)), {"dim": d}) for d in (0, 1)],
    "pairwise_distance": [((floats(4, 3), floats(4, 3)), {})],
    "max_pool1d": [((floats(2, 3, 5), 2), {})], "avg_pool1d": [((floats(2, 3, 5), 2), {})],
    "adaptive_avg_pool1d": [((floats(2, 3, 5), 4), {})],
    "pixel_shuffle": [((floats(2, 4, 5, 3), 2), {})], "pixel_unshuffle": [((floats(2, 5, 4, 6), 2), {})],
    "dropout": [((floats(4, 3),), {"p": 0.0}), ((floats(4, 3),), {"p": 1.0})],
    "scaled_dot_product_attention": [((floats(2, 4, 3), floats(2, 5, 3), floats(2, 5, 6)), {})],
    "pad": [((floats(4, 3), (1, 2)), {})] + [((floats(2, 4, 3), (1, 2)), {"mode": mode}) for mode in (
        "reflect", "replicate", "circular")],
}  # fmt: skip


CASES = {f"{name} {reduction}": (name, [(args, {"reduction": reduction}) for args in calls])
         for name, calls in LOSSES.items() for reduction in ("mean", "sum", "none")} | {
             name: (name, calls) for name, calls in FUNCTIONS.items()}

ALLOWED = {  # function -> the kinds of `difference` that it may have, and why
    "multi_margin_loss": ("output", "PyTorch's mean over nothing is memory that nobody wrote"),
    "multilabel_margin_loss": ("output", "PyTorch's mean over nothing is memory that nobody wrote"),
    "bilinear": ("refused", "PyTorch cannot reshape no features"),
    "batch_norm": ("refused", "PyTorch looks at the first element of an empty weight"),
    "group_norm": ("gradient", "PyTorch divides the weight's gradient by no elements"),
    "BatchNorm1d": ("refused", "PyTorch looks at the first element of an empty weight"),
    "GroupNorm": ("output", "PyTorch divides the weight's gradient by no elements"),
    "EmbeddingBag": ("refused", "PyTorch cannot count bags of no row"),
    "max_pool1d": ("refused", "PyTorch refuses no channels"),
    "avg_pool1d": ("refused", "PyTorch refuses no channels"),
    "adaptive_avg_pool1d": ("refused", "PyTorch refuses no channels, in backward"),
    "pad": ("refused", "PyTorch refuses no channels"),
    "pixel_shuffle": ("refused", "PyTorch's backward returns another shape"),
    "pixel_unshuffle": ("refused", "PyTorch's backward returns another shape"),
    "scaled_dot_product_attention": ("raises", "PyTorch ignores sizes that do not fit if one is 0"),
}  # fmt: skip


def names_too_much(args):
    """Whether there are classes, all of them 0, for scores of none: on CUDA nobody looks, and the loss is NaN."""
    first, second = (*args, None)[:2]
    classes = isinstance(second, np.ndarray) and second.dtype.kind == "i" and second.size
    return bool(classes and first.ndim and not first.shape[min(1, first.ndim - 1)])


def compared(name, program, calls, device):
    """What differs, for each call and its variants; of those with a class that there is not, on the CPU alone."""
    for args, how in calls:
        for variant in [args, *variants(args)]:
            if device == "cuda" and names_too_much(variant):
                continue
            differs = difference(*[outcome(m, program, *variant, how) for m in (ag, torch)])
            kind = differs and differs.partition(":")[0]
            if differs and kind != "error" and kind != ALLOWED.get(name, (None,))[0]:
                yield f"{shapes(variant)}, {how}: {differs}"


@pytest.mark.parametrize("case", CASES)
def test_functions(case, device):
    name, calls = CASES[case]

    def program(m, *args):
        return getattr(m.nn.functional, name)(*args[:-1], **args[-1])

    results = list(compared(name, program, calls, device))
    assert not results, "\n".join(results)


# class -> its arguments, those of the call, by the name of a test
LAYERS = {
    "Linear": ("Linear", (3, 5), (floats(4, 3),)),
    "Linear of nothing": ("Linear", (0, 5), (floats(4, 0),)),
    "Linear to nothing": ("Linear", (3, 0), (floats(4, 3),)),
    "Bilinear": ("Bilinear", (3, 2, 5), (floats(4, 3), floats(4, 2))),
    "BatchNorm1d": ("BatchNorm1d", (3,), (floats(4, 3),)),
    "BatchNorm1d of positions": ("BatchNorm1d", (3,), (floats(4, 3, 2),)),
    "BatchNorm1d of nothing": ("BatchNorm1d", (0,), (floats(4, 0),)),
    "LayerNorm": ("LayerNorm", (3,), (floats(4, 3),)),
    "LayerNorm of nothing": ("LayerNorm", (0,), (floats(4, 0),)),
    "RMSNorm": ("RMSNorm", (3,), (floats(4, 3),)),
    "GroupNorm": ("GroupNorm", (2, 4), (floats(5, 4, 3),)),
    "InstanceNorm1d": ("InstanceNorm1d", (3,), (floats(4, 3, 2),)),
    "Embedding": ("Embedding", (5, 2), (classes(4, 3),)),
    "Embedding of nothing": ("Embedding", (0, 2), (classes(0),)),
    "EmbeddingBag": ("EmbeddingBag", (5, 2), (classes(4, 3),)),
    "Flatten": ("Flatten", (), (floats(4, 3, 2),)),
    "Unflatten": ("Unflatten", (1, (3, 2)), (floats(4, 6),)),
    "Softmax": ("Softmax", (-1,), (floats(4, 3),)),
    "PReLU": ("PReLU", (3,), (floats(4, 3),)),
    "Dropout": ("Dropout", (0.0,), (floats(4, 3),)),
    "CrossEntropyLoss": ("CrossEntropyLoss", (), (floats(4, 3), classes(4))),
    "MSELoss": ("MSELoss", (), (floats(4, 3), floats(4, 3))),
    "MultiheadAttention": ("MultiheadAttention", (6, 2), (floats(4, 3, 6), floats(5, 3, 6), floats(5, 3, 6))),
    "TransformerEncoderLayer": ("TransformerEncoderLayer", (6, 2, 5, 0.0), (floats(4, 3, 6),)),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layers(case, device):
    """Values, gradients of the inputs and of the parameters, and buffers afterwards."""
    name, built, inputs = LAYERS[case]

    def program(m, *args):
        layer = getattr(m.nn, name)(*built).double()
        for i, parameter in enumerate(layer.parameters()):
            parameter.data.fill_(0.1 * (i + 1))
        out = layer(*args[:-1])
        first = out[0] if isinstance(out, tuple) else out
        parameters = [p for p in layer.parameters() if first.requires_grad]
        slopes = m.autograd.grad(first.sum(), parameters, allow_unused=True, retain_graph=True) if parameters else ()
        results = [m.zeros(p.shape, dtype=p.dtype) if g is None else g for g, p in zip(slopes, parameters, strict=True)]
        return out, results, list(layer.buffers())

    results = list(compared(name, program, [(inputs, {})], device))
    assert not results, "\n".join(results)
