"""PyTorch's path of pooling."""

from ....missing_names import getattr_of
from ....nn.pooling import AdaptiveAvgPool1d, AvgPool1d, MaxPool1d

__all__ = ["AdaptiveAvgPool1d", "AvgPool1d", "MaxPool1d"]
__getattr__ = getattr_of(__name__)  # placeholders
