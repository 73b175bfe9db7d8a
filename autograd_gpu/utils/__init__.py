"""Data loading, and saving and loading."""

from . import data
from .serialization import load, save

__all__ = ["data", "load", "save"]
