"""RemovableHandle, the result of all functions that register hooks."""

from ..core.graph.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
