"""PyTorch's path of Flatten and Unflatten."""

from ....nn.shape import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
