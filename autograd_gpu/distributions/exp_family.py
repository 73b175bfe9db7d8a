"""PyTorch's import path of ExponentialFamily."""

from .bases import ExponentialFamily

__all__ = ["ExponentialFamily"]
