"""PyTorch's path of AdamW."""

from .adam import AdamW

__all__ = ["AdamW"]
