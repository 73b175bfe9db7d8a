"""FunctionCtx: the `ctx` of a Function, a facade of its node.

The node owns the attributes that the user sets on ctx, and ctx references the node, so there is no reference cycle, and
ctx keeps the saved tensors alive. The node references its ctx weakly, and makes a new one if it is dead.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor

if TYPE_CHECKING:
    from .function import FunctionNode

# Attributes of the node that ctx forwards, unless the user sets an attribute of that name on ctx.
OF_NODE = frozenset({
    "_input_metadata", "_raw_saved_tensors", "_sequence_nr", "_topological_nr", "metadata", "name", "next_functions",
    "register_hook", "register_prehook",
})  # fmt: skip


class _Running(threading.local):
    """The custom backwards that this thread is running, innermost last: (node, needs_input_grad of the call)."""

    def __init__(self) -> None:
        self.stack: list[tuple[FunctionNode, tuple[bool, ...]]] = []


RUNNING = _Running()


class FunctionCtx:
    """The `ctx` argument of a Function's forward, setup_context and backward. Users may set other attributes on it.

    It represents the Function's node: isinstance(ctx, ag.autograd.graph.Node) is True, and `ctx.name()`,
    `ctx.next_functions`, `ctx.metadata`, `ctx.register_hook` and `ctx.register_prehook` are those of the node.

    >>> class Double(ag.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx: ag.autograd.function.FunctionCtx, x):
    ...         print(ctx.name(), ctx.needs_input_grad)
    ...         return x * 2
    >>> y = Double.apply(ag.ones(2, requires_grad=True))
    DoubleBackward (True,)
    """

    __slots__ = ("__dict__", "__node", "__weakref__")

    def __init__(self, node: FunctionNode) -> None:
        self.__node = node
        self.__dict__ = node.attributes
        node.facade = weakref.ref(self)

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves inputs or outputs, or None, for backward, which checks their versions; TypeError for other objects."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError("save_for_backward can only save variables, but argument is of type "
                                f"{type(t).__name__}; keep other things as attributes of ctx")
        self.__node.to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors saved by save_for_backward, after a recorded forward.

        RuntimeError after the buffers were freed, or if a tensor was modified in place.
        """
        return self.__node.saved_tensors

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """One bool per argument: in backward whether this call needs its gradient, else whether it requires grad."""
        return self.__node.needs_input_grad

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Marks outputs that do not require grad."""
        self.__node.non_differentiable = outputs

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Marks inputs that forward modified in place. Each must be returned; this node becomes its grad_fn."""
        for t in inputs:
            if not isinstance(t, Tensor):
                raise TypeError(f"mark_dirty can only accept variables, but argument is of type {type(t).__name__}")
        self.__node.dirty = inputs

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward gets None instead of zeros for outputs without a gradient."""
        self.__node.materialize_grads = value

    def __getattr__(self, name: str) -> Any:
        node = self.__node
        if name in OF_NODE or name in vars(node):  # vars: attributes that the user has set on grad_fn
            return getattr(node, name)
        raise AttributeError(f"ctx of '{node.name()}' has no attribute '{name}'")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # for isinstance
        return type(self.__node)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.__node

    def __hash__(self) -> int:
        return hash(self.__node)

    def __dir__(self) -> list[str]:
        return [*dir(FunctionCtx), *OF_NODE, *vars(self)]

    def __repr__(self) -> str:
        return repr(self.__node)
