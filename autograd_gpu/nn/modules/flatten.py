"""PyTorch's path of Flatten and Unflatten."""

from ..shape import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
