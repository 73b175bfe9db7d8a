"""Guards: what has to be as it was when a call was traced, so that a program may run in its place."""

from __future__ import annotations

from typing import Any

from ..core.interpret.tracing import ModuleChanges
from .graph import Trace
from .items import MISSING, AttributeItem, CellItem, Item, NoHooks, tensors_in


class Guards:
    """The guards of one trace: tensors from outside, `.grad`s, and what the code of the call names.

    The attributes of all modules are asked for only if one of some module has changed since they held.
    """

    def __init__(self, trace: Trace) -> None:
        items = [item for item in trace.guards if type(item) is not NoHooks]
        self._hooks = [item.container for item in trace.guards if type(item) is NoHooks]
        self._of_modules = [item for item in items if type(item) is AttributeItem and item.is_counted]
        self._changes = -1  # the value of ModuleChanges.count at which they held
        rest = [item for item in items if type(item) is not AttributeItem or not item.is_counted]
        # A value that may be the same object with another content is asked always, any other if it is another object.
        self._cells = [(item.container, item.expected, item) for item in rest
                       if type(item) is CellItem and item.snapshot is None and item.expected is not MISSING]
        self._plain = [(item.container.get, item.key, item.expected, item) for item in rest
                       if type(item) in (Item, AttributeItem) and item.snapshot is None]
        fast = {id(entry[-1]) for entry in (*self._cells, *self._plain)}
        self._items = [item for item in rest if id(item) not in fast]
        places = {id(v.tensor): v.place for v in trace.arguments}
        outside = {id(x) for x, _ in trace.outside}
        captured = [(x, node) for x, node in trace.outside if id(x) not in places]
        known = {*places, *(id(x) for x, _ in captured)}
        held = {id(x): x for item in items for x in tensors_in(item.expected) if id(x) not in known}
        self._captured = [(x, x._array, node) for x, node in captured]
        self._named = [(x, x._array) for x in held.values()]  # by code, which may have used an alias
        grads = [(places.get(key, -1), leaf, before) for key, (leaf, before) in trace.grads_at_entry.items()
                 if key in places or key in outside]
        self._without_grad = [(place, leaf) for place, leaf, before in grads if before is None]
        self._grads = [(place, leaf, *_layout(before)) for place, leaf, before in grads if before is not None]
        self._hooked = [v.place for v in trace.arguments if v.tensor._fn is not None]

    def failed(self, leaves: Any) -> str | None:
        """What is not as it was, or None."""
        for x, array, node in self._captured:  # a loop takes a third of the time of `map`
            if x._array is not array:
                return f"a tensor from outside of shape {list(x.shape)} has other memory"
            if x._fn is not node:
                return f"a tensor from outside of shape {list(x.shape)} has another history"
            if node is not None and node.extra is not None and node.extra.any():
                return "a tensor from outside has a hook"
        for x, array in self._named:
            if x._array is not array:
                return f"a tensor from outside of shape {list(x.shape)} has other memory"
        for place in self._hooked:
            if (extra := leaves[place]._fn.extra) is not None and extra.any():
                return f"argument {place} has a hook"
        for place, leaf in self._without_grad:
            if (leaf if place < 0 else leaves[place])._grad is not None:
                return "a .grad is another one at the beginning"
        for place, leaf, shape, strides, dtype, is_result in self._grads:
            grad = (leaf if place < 0 else leaves[place])._grad
            if grad is None or (grad._fn is not None) is not is_result:
                return "a .grad is another one at the beginning"
            array = grad._array
            if array.shape != shape or array.strides != strides or array.dtype != dtype:
                return "a .grad is another one at the beginning"
        return self._failed_item()

    def _failed_item(self) -> str | None:
        """The same for what the code of the call names."""
        if any(self._hooks):
            return "a module has a hook"
        for cell, expected, held in self._cells:
            try:
                now = cell.cell_contents
            except ValueError:  # the variable was deleted
                now = MISSING
            if now is not expected and not held.holds():
                return f"{held.name} has changed"
        for get, key, expected, item in self._plain:
            if get(key, MISSING) is not expected and not item.holds():
                return f"{item.name} has changed"
        changes = ModuleChanges.count
        for item in self._items if changes == self._changes else (*self._items, *self._of_modules):
            if not item.holds():
                return f"{item.name} has changed"
        self._changes = changes
        return None


def _layout(grad: Any) -> tuple[Any, ...]:
    """What counts of the `.grad` of a leaf."""
    array = grad._array
    return array.shape, array.strides, array.dtype, grad._fn is not None
