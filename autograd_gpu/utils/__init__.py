"""Checkpointing, data loading, serialization, and hook handles."""

from . import checkpoint, data, hooks
from .serialization import load, save

__all__ = ["checkpoint", "data", "hooks", "load", "save"]


def __dir__() -> list[str]:
    return list(__all__)
