"""PyTorch's path of pixel shuffles."""

from ....nn.pooling import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
