"""PyTorch's path of linear layers."""

from ..lazy import LazyLinear
from ..linear import Bilinear, Linear
from ..shape import Identity

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]
