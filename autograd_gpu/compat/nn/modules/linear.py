"""PyTorch's path of linear layers."""

from ....nn.lazy import LazyLinear
from ....nn.linear import Bilinear, Linear
from ....nn.shape import Identity

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]
