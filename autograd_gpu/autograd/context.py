"""FunctionNode, and FunctionCtx: the `ctx` of a Function, which is its node as the user sees it.

The node owns what the user puts on ctx, and ctx holds the node: so there is no cycle, and whoever keeps ctx keeps what
was saved. The node remembers its ctx weakly, and makes another if that is gone.

The engine runs the node like any other. `ctx.needs_input_grad` answers, inside backward, for the call
that is running: the engine's exec_info, not the graph. One node may be run by several threads at a time, so the answer
lives in the thread (`RUNNING`), not on the node.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import is_array, make
from ..backend.arrays.device import Device
from ..backend.arrays.dtypes import FLOATS
from ..core.declare.op import RECORD
from ..core.graph.bitmask import bits_of, mask_of
from ..core.graph.node import next_sequence_nr
from ..core.history.rebase import refresh_if_stale
from ..core.saved.saved_tensor import FREED, SavedTensor, SavingNode, handles
from ..core.tensor import Tensor, wrap
from ..core.thread_state import user_code
from ..modes import GRAD_OFF, MODES
from .function_calls import FunctionMethods, as_result, rule_of

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

    __slots__ = ("__dict__", "__node", "__weakref__", "_for_forward", "_in_jvp")

    def __init__(self, node: FunctionNode) -> None:
        self.__node = node
        self._for_forward: tuple[Tensor | None, ...] = ()
        self._in_jvp = False
        self.__dict__ = node.attributes
        node.facade = weakref.ref(self)

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves inputs or outputs, or None, for backward, which checks their versions; TypeError for other objects."""
        _check_saved("save_for_backward", tensors)
        self.__node.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves inputs or outputs, or None, for jvp; TypeError for other objects."""
        _check_saved("save_for_forward", tensors)
        self._for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors saved by save_for_backward, after a recorded forward; in jvp those saved by save_for_forward.

        RuntimeError after the buffers were freed, or if a tensor was modified in place.
        """
        return self._for_forward if self._in_jvp else self.__node.saved_tensors

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

    def _node(self) -> FunctionNode:
        return self.__node

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


def _check_saved(method: str, tensors: tuple[Any, ...]) -> None:
    for t in tensors:
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(f"{method} can only save variables, but argument is of type {type(t).__name__}; "
                            "keep other things as attributes of ctx")


class FunctionNode(SavingNode):
    """The node of a custom Function. `attributes`: what a user sets on ctx; `__dict__`: what is set on grad_fn."""

    __slots__ = (
        "arguments", "attributes", "constants", "dirty", "dtypes", "facade", "homes", "materialize_grads",
        "non_differentiable", "outputs", "positions", "requiring", "saved", "to_save",
    )  # fmt: skip

    function: type[FunctionMethods]
    materialize = True
    facade: weakref.ref[FunctionCtx]
    shapes: tuple[tuple[int, ...], ...]
    homes: tuple[Device | None, ...]  # of the outputs, None of what is no tensor

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.requiring = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])
        self.arguments = len(args)  # of forward
        self.attributes: dict[str, Any] = {}
        self.to_save: tuple[Tensor | None, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self.constants: tuple[int, ...] = ()  # the outputs that are marked as not differentiable
        self.materialize_grads = True
        self.saved: Any = ()
        self.edges, self.nrs, self.extra = (), None, None

    def connect(self, args: tuple[Any, ...]) -> None:
        """Edges to what made the arguments: before forward, which may write to them or to what they show."""
        self.positions = tuple([i for i, a in enumerate(args) if isinstance(a, Tensor)])  # argument of each edge
        linked = [args[i] for i in self.positions]
        for a in linked:
            refresh_if_stale(a)
        self.shapes = tuple([a._array.shape for a in linked])
        self.dtypes = tuple([a.dtype for a in linked])
        self.edges = tuple([a._fn for a in linked])
        nrs = tuple([a._nr for a in linked])
        self.nrs = nrs if any(nrs) else None
        self.mask = mask_of([child is not None for child in self.edges])
        self.topological_nr = 1 + max([child.topological_nr for child in self.edges if child is not None])
        self.sequence_nr = next_sequence_nr()

    def describe(self, outputs: Sequence[Any]) -> None:
        """Notes what the outputs are; one that is not a tensor has a number, too, but no shape."""
        self.outputs = len(outputs)
        shapes = tuple([t.shape if isinstance(t, Tensor) else None for t in outputs])
        kinds = tuple([t.dtype if isinstance(t, Tensor) else None for t in outputs])
        self.homes = tuple([t.device if isinstance(t, Tensor) else None for t in outputs])
        self.shape, self.dtype = (shapes[0], kinds[0]) if len(outputs) == 1 else (shapes, kinds)

    @property
    def ctx(self) -> FunctionCtx:
        """What forward and backward get: one object as long as somebody keeps it."""
        living = self.facade()
        return FunctionCtx(self) if living is None else living

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Per argument: in backward whether THIS call needs its gradient, else whether it requires one."""
        for node, need in reversed(RUNNING.stack):
            if node is self:
                return need
        return self.requiring

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What forward gave to save_for_backward."""
        if self.saved is FREED:
            FREED.unpack(self)
        return tuple(None if s is None else s.unpack(self) for s in self.saved)

    @property
    def _raw_saved_tensors(self) -> Any:
        """Per saved tensor where its hooks are set."""
        if self.saved is FREED:
            FREED.unpack(self)
        return handles(self, "saved")

    def __getattr__(self, name: str) -> Any:
        """What the user put on ctx, which in PyTorch is the node."""
        if name != "attributes" and name in self.attributes:
            return self.attributes[name]
        raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")

    def op_name(self) -> str:
        return self.function.__name__

    def saved_by_name(self) -> list[tuple[str, SavedTensor]]:
        kept = () if self.saved is FREED else self.saved
        return [(f"saved_tensors[{i}]", s) for i, s in enumerate(kept) if s is not None]

    def input_name(self, i: int) -> str:
        return f"input {self.positions[i]}"

    def rules(self, need: int) -> list[str]:
        return [f"{self.function.__name__}.backward"]

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        gs = g if self.outputs != 1 else (g,)
        wrapped = [None if x is None else wrap(x if is_array(x) else np.asarray(x)) for x in gs]
        grads = self._backward(wrapped, need, release, False)
        return tuple([None if x is None else x._array for x in grads])

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        return self._backward(list(g) if self.outputs != 1 else [g], need, release, not MODES.bits & GRAD_OFF)

    def _backward(self, gs: list[Tensor | None], need: int, release: bool, recording: bool) -> tuple[Any, ...]:
        if self.materialize_grads:
            shapes, dtypes = (self.shape, self.dtype) if self.outputs != 1 else ((self.shape,), (self.dtype,))
            gs = [wrap(make(home, "zeros", s, d)) if x is None and home is not None else x
                  for x, home, s, d in zip(gs, self.homes, shapes, dtypes, strict=True)]
        needed = [False] * self.arguments
        for position, bit in zip(self.positions, bits_of(need, len(self.positions)), strict=True):
            needed[position] = bit
        running = RUNNING.stack
        depth = len(running)
        try:
            running.append((self, tuple(needed)))
            with user_code(recording):
                result = rule_of(self.function)(self.ctx, *gs)
                grads = self._checked(result if isinstance(result, tuple) else (result,), need)
        finally:
            del running[depth:]
        if release and self.saved:
            self.saved = FREED
        return grads

    def _checked(self, result: tuple[Any, ...], need: int) -> tuple[Tensor | None, ...]:
        """backward's answer per edge, in the input's dtype."""
        expected = self.arguments
        result = self.counted(result, expected)
        others = {*range(expected)}.difference(self.positions) if len(self.positions) < expected else ()
        for position in others:
            if result[position] is not None:
                raise RuntimeError(f"function {self.name()} returned a gradient different than None at position "
                                   f"{position}, but the corresponding forward input was not a Tensor")
        grads = [self._fitted(result[position], i) for i, position in enumerate(self.positions)]
        return tuple([g if needed else None for needed, g in zip(bits_of(need, len(grads)), grads, strict=True)])

    def counted(self, result: tuple[Any, ...], expected: int) -> tuple[Any, ...]:
        """backward's answer without further Nones at its end; RuntimeError if that is not one per argument."""
        if len(result) > expected and all(extra is None for extra in result[expected:]):
            result = result[:expected]
        if len(result) != expected:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients "
                               f"(expected {expected}, got {len(result)})")
        return result

    def _fitted(self, g: Any, i: int) -> Tensor | None:
        """One gradient. What broadcasts from the input's shape is summed by the engine; other shapes are an error."""
        if g is None:
            return None
        g = as_result(g)
        position, shape, dtype = self.positions[i], self.shapes[i], self.dtypes[i]
        if not isinstance(g, Tensor):
            raise TypeError(f"{self.function.__name__}.backward returned a {type(g).__name__} for argument {position}; "
                            "expected a Tensor or None")
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        if g.ndim < len(shape) or any(want not in (1, got) for want, got in zip(padded, g.shape, strict=True)):
            raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {position} - got "
                               f"{list(g.shape)} but expected shape compatible with {list(shape)}")
        return RECORD.cast(g, dtype) if g.dtype != dtype and dtype in FLOATS else g
