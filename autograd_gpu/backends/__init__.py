"""Settings of PyTorch's backend libraries that programs set: `backends.cudnn`."""

from . import cudnn

__all__ = ["cudnn"]
