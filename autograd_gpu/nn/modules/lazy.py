"""PyTorch's path of lazy layers."""

from ..lazy import LazyLinear

__all__ = ["LazyLinear"]
