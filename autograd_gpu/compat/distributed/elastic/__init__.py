"""PyTorch's import path of what `torchrun` gives to programs."""

from ....missing_names import getattr_of

__getattr__ = getattr_of(__name__)
