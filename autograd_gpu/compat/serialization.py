"""PyTorch's import path of `ag.save` and `ag.load`."""

from ..utils.serialization import load, save

MAP_LOCATION = str | None  # for annotations

__all__ = ["load", "save"]
