"""PyTorch's path of instance norm; `_InstanceNorm` is its base class."""

from ....nn.batchnorm import InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d

_InstanceNorm = InstanceNorm

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
