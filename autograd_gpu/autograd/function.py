"""Function: an operation with a derivative written by the user.

A Function's node is run by the engine like any other. `ctx.needs_input_grad` answers, inside backward, for the call
that is running: the engine's exec_info, not the graph. The ctx of one forward may be in use by several threads at a
time, so the answer lives in the thread, not on the ctx.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import is_array, namespace_on
from ..backend.device import Device
from ..config import GRAD_OFF, MODES
from ..core.nesting import user_code
from ..core.node import Node, next_sequence_nr
from ..core.saved import FREED, SavedTensor, save_output
from ..core.tensor import Tensor, alias, wrap
from ..core.views import version_of
from ..errors import MissingRuleError


class _Running(threading.local):
    """The Function nodes whose backward this thread is in, innermost last, with what the call needs."""

    def __init__(self) -> None:
        self.stack: list[tuple[FunctionNode, tuple[bool, ...]]] = []


RUNNING = _Running()


class FunctionNode(Node):
    """The node of a custom Function, and the `ctx` that its forward and backward get."""

    function: type[Function]
    materialize = True
    device: Device
    shapes: tuple[tuple[int, ...], ...]

    def __init__(self) -> None:
        self.extra = None
        self._saved: Any = ()
        self._to_save: tuple[Tensor | None, ...] = ()
        self._non_differentiable: tuple[Tensor, ...] = ()
        self._materialize_grads = True
        self._inputs_require: tuple[bool, ...] = ()
        self._positions: tuple[int, ...] = ()  # argument number of each edge
        self.outputs = 1

    # ---- ctx -----------------------------------------------------------------------------------

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs or outputs for backward, with the version check of SavedTensor; None is allowed."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError("save_for_backward can only save variables, but argument is of type "
                                f"{type(t).__name__}; keep other things as attributes of ctx")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward kept. RuntimeError after the buffers were freed, or if one was modified in place."""
        if self._saved is FREED:
            FREED.unpack(self)
        return tuple(None if s is None else s.unpack(self) for s in self._saved)

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Per argument: in backward whether THIS call needs its gradient, in forward whether it requires one."""
        for node, need in reversed(RUNNING.stack):
            if node is self:
                return need
        return self._inputs_require

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Says that these outputs do not require grad."""
        self._non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, instead of zeros, for outputs without a gradient."""
        self._materialize_grads = value

    # ---- node ----------------------------------------------------------------------------------

    def input_name(self, i: int) -> str:
        return f"input {self._positions[i]}"

    def rules(self, need: int) -> list[str]:
        return [f"{self.function.__name__}.backward"]

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        gs = g if self.outputs != 1 else (g,)
        grads = self._backward(tuple(None if x is None else wrap(_array(x)) for x in gs), need, False)
        if release:
            self._saved = FREED if self._saved else self._saved
        return tuple(None if x is None else x._array for x in grads)

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        grads = self._backward(tuple(g) if self.outputs != 1 else (g,), need, True)
        if release:
            self._saved = FREED if self._saved else self._saved
        return grads

    def _backward(self, gs: tuple[Tensor | None, ...], need: int, recording: bool) -> tuple[Tensor | None, ...]:
        if self._materialize_grads:
            metadata = zip(self.shape, self.dtype, strict=True) if self.outputs != 1 else [(self.shape, self.dtype)]
            gs = tuple(_zeros(self, s, d) if x is None else x for x, (s, d) in zip(gs, metadata, strict=True))
        wanted = [False] * len(self._inputs_require)
        for i, position in enumerate(self._positions):
            wanted[position] = bool(need >> i & 1)
        RUNNING.stack.append((self, tuple(wanted)))
        try:
            with user_code(recording):
                result = self.function.backward(self, *gs)
        finally:
            RUNNING.stack.pop()
        return self._checked(result if isinstance(result, tuple) else (result,), need)

    def _checked(self, result: tuple[Any, ...], need: int) -> tuple[Tensor | None, ...]:
        name, expected = self.function.__name__, len(self._inputs_require)
        if len(result) > expected and all(extra is None for extra in result[expected:]):
            result = result[:expected]
        if len(result) != expected:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients "
                               f"(expected {expected}, got {len(result)})")
        grads: list[Tensor | None] = []
        for i, position in enumerate(self._positions):
            g = result[position]
            if is_array(g):
                g = wrap(g)
            if g is not None and not isinstance(g, Tensor):
                raise TypeError(f"{name}.backward returned a {type(g).__name__} for argument {position}; "
                                "expected a Tensor or None")
            if g is not None and g.shape != self.shapes[i]:
                g = self._fitted(g, i, position)
            grads.append(g if need >> i & 1 else None)
        return tuple(grads)

    def _fitted(self, g: Tensor, i: int, position: int) -> Tensor:
        """A gradient whose shape broadcasts from the input's is summed by the engine; anything else is an error."""
        shape = self.shapes[i]
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        if g.ndim < len(shape) or any(want not in (1, got) for want, got in zip(padded, g.shape, strict=True)):
            raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {position} - got "
                               f"{list(g.shape)} but expected shape compatible with {list(shape)}")
        return g


def _array(g: Any) -> Any:
    return g if is_array(g) else np.asarray(g)


def _zeros(node: FunctionNode, shape: Any, dtype: Any) -> Tensor:
    return wrap(namespace_on(node.device).zeros(shape, dtype))


class Function:
    """Base class of operations with a backward of their own.

    Write `forward(ctx, *args)` and `backward(ctx, *grad_outputs)` as static methods, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`; call `apply`. backward returns one gradient, or None, per argument of forward,
    and may skip those that `ctx.needs_input_grad` does not ask for.

    >>> class Double(ag.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = ag.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    _node_class: type[FunctionNode]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        body = {"function": cls, "__module__": cls.__module__}
        cls._node_class = type(f"{cls.__name__}Backward", (FunctionNode,), body)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation; runs without recording."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves for backward, when forward does not take ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments from those of the outputs."""
        raise MissingRuleError("You must implement backward for your custom autograd.Function to use it with autograd.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Runs forward and records a node whose backward is the class's."""
        ctx = cls._node_class()
        ctx._inputs_require = tuple(isinstance(a, Tensor) and a._node is not None for a in args)
        recording = not MODES.bits & GRAD_OFF and any(ctx._inputs_require)
        bits = MODES.bits
        MODES.bits = bits | GRAD_OFF
        try:
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        finally:
            MODES.bits = bits
        single = not isinstance(output, tuple)
        outputs = (output,) if single else output
        for o in outputs:
            if not isinstance(o, Tensor) and o is not None and single:
                raise TypeError(f"{cls.__name__}.forward must return a Tensor or a tuple of Tensors; "
                                f"got {type(o).__name__}")
        if recording:
            outputs = _record(ctx, args, outputs)
        return outputs[0] if single else tuple(outputs)


def _record(ctx: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Edges, metadata and saved tensors of ctx; the outputs linked to it."""
    linked = [(i, a) for i, a in enumerate(args) if isinstance(a, Tensor)]
    ctx._positions = tuple(i for i, _ in linked)
    ctx.shapes = tuple(a.shape for _, a in linked)
    ctx.edges = tuple(a._node for _, a in linked)
    ctx.nrs = tuple(a._nr for _, a in linked) if any(a._nr for _, a in linked) else None
    ctx.mask = sum(1 << k for k, node in enumerate(ctx.edges) if node is not None)
    ctx.topological_nr = 1 + max(node.topological_nr for node in ctx.edges if node is not None)
    ctx.device = linked[0][1].device
    inputs = {id(a) for _, a in linked}
    excluded = {id(t) for t in ctx._non_differentiable}
    # An input handed through becomes an alias: the caller's tensor keeps its own history.
    returned = [alias(o) if isinstance(o, Tensor) and (id(o) in inputs or o._node is not None) else o for o in outputs]
    pairs = [(old, new) for old, new in zip(outputs, returned, strict=True) if isinstance(new, Tensor)]
    ctx.outputs = len(pairs)
    shapes, kinds = tuple(t.shape for _, t in pairs), tuple(t.dtype for _, t in pairs)
    ctx.shape, ctx.dtype = (shapes[0], kinds[0]) if len(pairs) == 1 else (shapes, kinds)
    for nr, (old, new) in enumerate(pairs, 1):
        if id(old) not in excluded and new.is_floating_point():
            new._node, new._nr = ctx, nr if len(pairs) > 1 else 0
    replaced = {id(old): new for old, new in pairs if id(old) not in inputs}
    ctx._saved = tuple(None if t is None else _saved(ctx, t, replaced) for t in ctx._to_save)
    ctx._to_save = ()
    ctx.sequence_nr = next_sequence_nr()
    return tuple(returned)


def _saved(ctx: FunctionNode, tensor: Tensor, outputs: dict[int, Tensor]) -> SavedTensor:
    if id(tensor) in outputs:
        return save_output(outputs[id(tensor)], ctx)
    saved = SavedTensor()
    saved.tensor, saved.version = tensor, version_of(tensor)
    return saved


class _NotTwice(Function):
    """Gives results a node that refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        return tuple(wrap(t._array) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a Function's backward as not differentiable: differentiating its result raises instead of giving zeros."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *gs: Any) -> Any:
        bits = MODES.bits
        MODES.bits = bits | GRAD_OFF
        try:
            result = fn(ctx, *gs)
        finally:
            MODES.bits = bits
        if bits & GRAD_OFF:
            return result
        results = result if isinstance(result, tuple) else (result,)
        found = [r for r in results if isinstance(r, Tensor)]
        sources = [*[g for g in gs if isinstance(g, Tensor)], *[t for t in ctx.saved_tensors if t is not None]]
        if not found or not any(s._node is not None for s in sources):
            return result
        marked = iter(_guarded(found, sources))
        results = tuple(next(marked) if isinstance(r, Tensor) else r for r in results)
        return results if isinstance(result, tuple) else results[0]

    return wrapped


def _guarded(found: list[Tensor], sources: list[Tensor]) -> tuple[Tensor, ...]:
    """`found`, behind a _NotTwice node that depends on `sources`."""

    class NotTwice(_NotTwice):
        @staticmethod
        def forward(ctx: Any, *_: Tensor) -> Any:
            return tuple(wrap(t._array) for t in found)

    return NotTwice.apply(*sources)
