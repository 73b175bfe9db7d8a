"""FunctionCtx: the `ctx` of a Function, which is its node as the user sees it.

The node owns what the user puts on ctx, and ctx holds the node: so there is no cycle, and whoever keeps ctx keeps what
was saved. The node remembers its ctx weakly, and makes another if that is gone.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor

if TYPE_CHECKING:
    from .function import FunctionNode

# What ctx has of its node, unless the user gives it an attribute of that name.
OF_NODE = frozenset({
    "_input_metadata", "_raw_saved_tensors", "_sequence_nr", "_topological_nr", "metadata", "name", "next_functions",
    "register_hook", "register_prehook",
})  # fmt: skip


class _Running(threading.local):
    """The node of each custom backward that this thread is in, innermost last, with what the call needs."""

    def __init__(self) -> None:
        self.stack: list[tuple[FunctionNode, tuple[bool, ...]]] = []


RUNNING = _Running()


class FunctionCtx:
    """What forward, setup_context and backward of a Function get as `ctx`. Any other attribute is the user's own.

    It stands for the Function's node: isinstance(ctx, ag.autograd.graph.Node), `ctx.name()`, `ctx.next_functions`,
    `ctx.metadata`, `ctx.register_hook` and `ctx.register_prehook` are the node's.

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
        """Keeps inputs or outputs for backward, with the version check of SavedTensor; None is allowed."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError("save_for_backward can only save variables, but argument is of type "
                                f"{type(t).__name__}; keep other things as attributes of ctx")
        self.__node.to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward kept, once forward is done and if it is recorded.

        RuntimeError after the buffers were freed, or if one was modified in place.
        """
        return self.__node.saved_tensors

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Per argument: in backward whether THIS call needs its gradient, in forward whether it requires one."""
        return self.__node.needs_input_grad

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Says that these outputs do not require grad."""
        self.__node.non_differentiable = outputs

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Says that forward wrote to these inputs. Each must be returned, and leads to this node from then on."""
        for t in inputs:
            if not isinstance(t, Tensor):
                raise TypeError(f"mark_dirty can only accept variables, but argument is of type {type(t).__name__}")
        self.__node.dirty = inputs

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, instead of zeros, for outputs without a gradient."""
        self.__node.materialize_grads = value

    def __getattr__(self, name: str) -> Any:
        node = self.__node
        if name in OF_NODE or name in vars(node):  # vars: what the user has set on grad_fn
            return getattr(node, name)
        raise AttributeError(f"ctx of '{node.name()}' has no attribute '{name}'")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what isinstance asks besides the type
        return type(self.__node)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.__node

    def __hash__(self) -> int:
        return hash(self.__node)

    def __dir__(self) -> list[str]:
        return [*dir(FunctionCtx), *OF_NODE, *vars(self)]

    def __repr__(self) -> str:
        return repr(self.__node)
