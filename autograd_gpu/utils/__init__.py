"""Data loading, saving and loading, and the handles of hooks."""

from . import data, hooks
from .serialization import load, save

__all__ = ["data", "hooks", "load", "save"]
