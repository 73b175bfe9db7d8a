"""PyTorch's path of pooling."""

from ..pooling import AdaptiveAvgPool1d, AvgPool1d, MaxPool1d

__all__ = ["AdaptiveAvgPool1d", "AvgPool1d", "MaxPool1d"]
