"""PyTorch's path of layer norm, group norm and RMS norm."""

from ....missing_names import getattr_of
from ....nn.norm import GroupNorm, LayerNorm, RMSNorm

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]
__getattr__ = getattr_of(__name__)  # placeholders
