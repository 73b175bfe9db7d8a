"""PyTorch's path of layer norm, group norm and RMS norm."""

from ..norm import GroupNorm, LayerNorm, RMSNorm

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]
