"""The functions of PyTorch's nn.functional; most are ops."""

from ..missing_names import getattr_of
from ..ops.binding import MODULES
from .functional_embedding import embedding, embedding_bag
from .functional_inplace import (
    alpha_dropout,
    celu,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    elu,
    feature_alpha_dropout,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    mish,
    relu,
    relu6,
    rrelu,
    selu,
    silu,
    threshold,
)
from .functional_losses import huber_loss, l1_loss, mse_loss
from .functional_softmax import log_softmax, softmax, softmin
from .multihead_attention import multi_head_attention_forward

globals().update(MODULES["nn.functional"])
__all__ = [  # noqa: PLE0604
    *sorted(MODULES["nn.functional"]),
    "alpha_dropout",
    "celu",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "l1_loss",
    "leaky_relu",
    "log_softmax",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "silu",
    "softmax",
    "softmin",
    "threshold",
]
__getattr__ = getattr_of(__name__)
