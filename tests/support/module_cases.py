"""Modules and their inputs: name -> [(arguments of the constructor, keywords, arrays for forward)]."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 6))
SEQUENCE, IMAGES, VOLUMES = RNG.normal(size=(4, 6, 5)), RNG.normal(size=(2, 6, 3, 4)), RNG.normal(size=(2, 6, 2, 3, 2))
POSITIVE = RNG.uniform(0.3, 2.0, size=(4, 6))
PROBABILITIES = RNG.uniform(0.1, 0.9, size=(4, 6))
SIGNS, ROW_SIGNS = RNG.choice([-1.0, 1.0], size=(4, 6)), np.array([1, -1, -1, 1])
CLASSES = np.array([0, 3, 5, 1])
LABELS = np.array([[3, 0, -1, 1, 1, 1]] * 4)
WEIGHT = RNG.uniform(0.5, 1.5, size=6)
TOKENS = RNG.integers(0, 10, (3, 4))
BATCH_FIRST = SEQUENCE.transpose(0, 2, 1).copy()
BATCH_SECOND = SEQUENCE.transpose(2, 0, 1).copy()
MASK = np.triu(np.ones((4, 4), bool), 1)


def case(*args, **kwargs):
    """The constructor's arguments and, in the last positional one, those of forward."""
    *args, inputs = args
    return args, kwargs, inputs


PLAIN = (
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardswish", "Hardtanh", "Identity", "LeakyReLU", "LogSigmoid", "Mish",
    "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
)  # fmt: skip
ACTIVATIONS = {
    "CELU": [case(0.5, (X,))],
    "ELU": [case(0.5, (X,))],
    "GELU": [case("tanh", (X,))],
    "GLU": [case(1, (SEQUENCE,))],
    "Hardshrink": [case(0.2, (X,))],
    "Hardtanh": [case(-0.5, 2.0, (X,))],
    "LeakyReLU": [case(0.3, (X,))],
    "LogSoftmax": [case(1, (X,))],
    "PReLU": [case(6, 0.1, (X,)), case(6, (SEQUENCE,))],
    "Softmax": [case(1, (X,)), case(-1, (SEQUENCE,))],
    "Softmax2d": [case((IMAGES,)), case((IMAGES[0],))],
    "Softmin": [case(1, (X,))],
    "Softplus": [case(2.0, 1.0, (X,))],
    "Softshrink": [case(0.2, (X,))],
    "Threshold": [case(0.1, 3.0, (X,))],
}
NORMS = {
    "BatchNorm1d": [
        case(6, (X,)),
        case(6, (SEQUENCE,)),
        case(6, 0.1, None, (X,)),
        case(6, (X,), affine=False),
        case(6, (X,), track_running_stats=False),
        case(6, (X,), bias=False),
    ],
    "BatchNorm2d": [case(6, (IMAGES,))],
    "BatchNorm3d": [case(6, (VOLUMES,))],
    "InstanceNorm1d": [
        case(6, (SEQUENCE,)),
        case(6, (SEQUENCE,), affine=True),
        case(4, (SEQUENCE[:, 0],)),
        case(6, (SEQUENCE,), affine=True, track_running_stats=True),
    ],
    "InstanceNorm2d": [case(6, (IMAGES,)), case(6, (IMAGES[0],))],
    "InstanceNorm3d": [case(6, (VOLUMES,))],
    "GroupNorm": [case(2, 6, (X,)), case(3, 6, (SEQUENCE,), bias=False), case(6, 6, (IMAGES,), affine=False)],
    "LayerNorm": [case(6, (X,)), case((6, 5), (SEQUENCE,), bias=False), case(6, (X,), elementwise_affine=False)],
    "RMSNorm": [case(6, (X,)), case((6, 5), 0.1, (SEQUENCE,)), case(6, (X,), elementwise_affine=False)],
}
LAYERS = {
    "Linear": [case(6, 3, (X,)), case(6, 3, (X,), bias=False)],
    "LazyLinear": [case(3, (X,)), case(3, (X,), bias=False)],
    "Bilinear": [case(6, 5, 3, (X, SEQUENCE[:, 0])), case(6, 6, 3, (X, X), bias=False)],
    "Flatten": [case((SEQUENCE,)), case(0, 1, (SEQUENCE,))],
    "Unflatten": [case(1, (2, 3), (X,))],
    "AvgPool1d": [case(2, (SEQUENCE,)), case(3, 1, 1, (SEQUENCE,), count_include_pad=False)],
    "AdaptiveAvgPool1d": [case(2, (SEQUENCE,))],
    "MaxPool1d": [case(2, (SEQUENCE,)), case(3, 1, 1, (SEQUENCE,), ceil_mode=True)],
    "PixelShuffle": [case(2, (RNG.normal(size=(1, 8, 2, 3)),))],
    "PixelUnshuffle": [case(2, (RNG.normal(size=(1, 2, 4, 6)),))],
    "CosineSimilarity": [case((X, POSITIVE)), case(0, 1e-3, (X, POSITIVE))],
    "PairwiseDistance": [case((X, POSITIVE)), case(3.0, 1e-3, True, (X, POSITIVE))],
    "Embedding": [case(10, 4, (TOKENS,)), case(10, 4, (TOKENS,), padding_idx=3), case(10, 4, (TOKENS,), max_norm=1.0)],
    "EmbeddingBag": [
        case(10, 4, (TOKENS,)),
        case(10, 4, (TOKENS,), mode="sum", padding_idx=-1),
        case(10, 4, (TOKENS.ravel(), np.array([0, 3, 3, 7])), mode="max", norm_type=1.0, max_norm=2.0),
    ],
    "MultiheadAttention": [
        case(6, 2, (BATCH_SECOND,) * 3),
        case(6, 3, (X, X, X), bias=False),
        case(6, 2, (BATCH_FIRST,) * 3, batch_first=True, add_bias_kv=True, add_zero_attn=True),
        case(6, 2, (X, RNG.normal(size=(3, 4)), RNG.normal(size=(3, 5))), kdim=4, vdim=5),
    ],
    "TransformerEncoderLayer": [
        case(6, 2, 8, 0.0, (BATCH_SECOND,)),
        case(6, 2, 8, 0.0, "gelu", (BATCH_FIRST,), batch_first=True, norm_first=True, bias=False),
    ],
    "TransformerDecoderLayer": [
        case(6, 2, 8, 0.0, (BATCH_SECOND, BATCH_SECOND[:3])),
        case(6, 2, 8, 0.0, "gelu", (BATCH_FIRST, BATCH_FIRST), batch_first=True, norm_first=True, bias=False),
        case(6, 2, 8, 0.0, (X, X[:2])),
    ],
    "Transformer": [
        case(6, 2, 1, 2, 8, 0.0, (BATCH_SECOND, BATCH_SECOND[:3])),
        case(6, 3, 1, 1, 8, 0.0, (BATCH_FIRST, BATCH_FIRST), batch_first=True, norm_first=True),
    ],
}
LOSSES = {  # each with every reduction
    "L1Loss": [case((X, POSITIVE))],
    "MSELoss": [case((X, POSITIVE))],
    "HuberLoss": [case((X, POSITIVE), delta=0.5)],
    "SmoothL1Loss": [case((X, POSITIVE), beta=0.5)],
    "CrossEntropyLoss": [
        case((X, CLASSES), ignore_index=3),
        case(WEIGHT, (X, CLASSES), label_smoothing=0.1),
        case(WEIGHT, (X, PROBABILITIES)),
        case(WEIGHT, (X, PROBABILITIES), label_smoothing=0.1),
        case(WEIGHT, (IMAGES, RNG.integers(0, 6, (2, 3, 4))), ignore_index=0, label_smoothing=0.2),
        case((X[0], CLASSES[0:1].reshape(()))),
    ],
    "NLLLoss": [case(WEIGHT, (X, CLASSES), ignore_index=5), case((IMAGES, RNG.integers(0, 6, (2, 3, 4))))],
    "BCELoss": [case(WEIGHT, (PROBABILITIES, PROBABILITIES[::-1].copy()))],
    "BCEWithLogitsLoss": [case(WEIGHT, (X, PROBABILITIES), pos_weight=WEIGHT * 2)],
    "KLDivLoss": [case((X, PROBABILITIES), log_target=True), case((X, PROBABILITIES))],
    "GaussianNLLLoss": [case((X, POSITIVE, PROBABILITIES), full=True)],
    "PoissonNLLLoss": [case((X, POSITIVE), full=True), case((POSITIVE, POSITIVE[::-1].copy()), log_input=False)],
    "MarginRankingLoss": [case((X, POSITIVE, SIGNS), margin=0.3)],
    "HingeEmbeddingLoss": [case((X, SIGNS), margin=0.3)],
    "CosineEmbeddingLoss": [case((X, POSITIVE, ROW_SIGNS), margin=0.3)],
    "SoftMarginLoss": [case((X, SIGNS))],
    "MultiMarginLoss": [case((X, CLASSES), p=2, weight=WEIGHT)],
    "MultiLabelMarginLoss": [case((X, LABELS))],
    "MultiLabelSoftMarginLoss": [case(WEIGHT, (X, PROBABILITIES))],
    "TripletMarginLoss": [case((X, POSITIVE, PROBABILITIES), swap=True)],
    "TripletMarginWithDistanceLoss": [case((X, POSITIVE, PROBABILITIES), margin=2.0)],
}
CASES = ACTIVATIONS | NORMS | LAYERS | {name: [case((X,)), *ACTIVATIONS.get(name, ())] for name in PLAIN}
CONSTANT = {"SoftMarginLoss": (1,), "MarginRankingLoss": (2,), "HingeEmbeddingLoss": (1,)}
