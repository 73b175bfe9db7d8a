"""Settings of libraries that PyTorch computes with, as far as programs set them: `backends.cudnn`."""

from . import cudnn

__all__ = ["cudnn"]
