"""PyTorch's path of pixel shuffles."""

from ..pooling import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
