"""PyTorch's private path of its compiler: decorators that return the function, and settings without effect."""

from types import SimpleNamespace

from ..missing_names import getattr_of
from .compiler import allow_in_graph, disable, is_compiling, reset

config = SimpleNamespace()
__all__ = ["allow_in_graph", "config", "disable", "is_compiling", "reset"]
__getattr__ = getattr_of(__name__)
