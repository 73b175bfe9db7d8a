"""The handle that every function that registers a hook returns."""

from ..core.graph.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
