"""PyTorch's path of losses; `_Loss` and `_WeightedLoss` are their base classes."""

from ....missing_names import getattr_of
from ....nn.likelihood_losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    GaussianNLLLoss,
    KLDivLoss,
    NLLLoss,
    PoissonNLLLoss,
)
from ....nn.margin_losses import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from ....nn.regression_losses import HuberLoss, L1Loss, Loss, MSELoss, SmoothL1Loss, WeightedLoss

_Loss = Loss
_WeightedLoss = WeightedLoss

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip
__getattr__ = getattr_of(__name__)  # placeholders
