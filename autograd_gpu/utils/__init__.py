"""Checkpointing, data loading, serialization, pictures of graphs, and hook handles."""

from typing import TYPE_CHECKING

from ..missing_names import getattr_of
from . import checkpoint, data, hooks
from .dot import make_dot
from .serialization import load, save
from .swap import swap_tensors

__all__ = ["checkpoint", "data", "hooks", "load", "make_dot", "save", "swap_tensors"]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(__name__)


def __dir__() -> list[str]:
    return list(__all__)
