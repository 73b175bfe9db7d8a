"""PyTorch's import path of errors below `torchrun`."""

from .....missing_names import getattr_of

__getattr__ = getattr_of(__name__)
