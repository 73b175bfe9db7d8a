"""Guards: what has to be as it was when a call was traced, so that a program may run in its place."""

from __future__ import annotations

from typing import Any

from ..core.graph.node import has_hooks
from .graph import Trace
from .watching import MISSING, Item


class Guards:
    """The guards of one trace: tensors from outside, `.grad`s, and what the code of the call names."""

    def __init__(self, trace: Trace) -> None:
        # Items whose value may be the same object with another content are asked always, others if it is another one.
        self._items = [item for item in trace.guards if item.snapshot is not None or type(item) is not Item]
        self._plain = [(item.container.get, item.key, item.expected, item) for item in trace.guards
                       if item.snapshot is None and type(item) is Item]
        places = {id(v.tensor): v.place for v in trace.arguments}
        outside = {id(x) for x, _ in trace.outside}
        self._captured = [(x, x._array, node) for x, node in trace.outside if id(x) not in places]
        self._grads = [(places.get(key, -1), leaf, _layout(before)) for key, (leaf, before) in
                       trace.grads_at_entry.items() if key in places or key in outside]
        self._hooked = [v.place for v in trace.arguments if v.tensor._fn is not None]

    def failed(self, leaves: Any) -> str | None:
        """What is not as it was, or None."""
        for tensor, array, node in self._captured:
            if tensor._array is not array:
                return f"a tensor from outside of shape {list(tensor.shape)} has other memory"
            if tensor._fn is not node:
                return f"a tensor from outside of shape {list(tensor.shape)} has another history"
            if node is not None and node.extra is not None and has_hooks(node):
                return f"a tensor from outside of shape {list(tensor.shape)} has a hook"
        for place in self._hooked:
            if has_hooks(leaves[place]._fn):
                return f"argument {place} has a hook"
        for place, leaf, layout in self._grads:
            if _layout((leaf if place < 0 else leaves[place])._grad) != layout:
                return "a .grad is another one at the beginning"
        for get, key, expected, item in self._plain:
            if get(key, MISSING) is not expected and not item.holds():
                return f"{item.name} has changed"
        for item in self._items:
            if not item.holds():
                return f"{item.name} has changed"
        return None


def _layout(grad: Any) -> Any:
    """What counts of the `.grad` of a leaf."""
    if grad is None:
        return None
    return grad._array.shape, grad._array.strides, grad._array.dtype, grad._fn is not None

