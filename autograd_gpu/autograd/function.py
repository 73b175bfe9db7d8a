"""Function: an operation with a user-defined derivative.

The engine runs a Function's node like any other. Inside backward `ctx.needs_input_grad` reflects the running call, from
the engine's exec_info, not the graph. Several threads may run one node at a time, so that state is thread-local
(`RUNNING`).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import is_array, make
from ..backend.arrays.device import Device
from ..backend.arrays.dtypes import FLOATS
from ..config import GRAD_OFF, MODES, SAVING, no_grad
from ..core.declare.op import RECORD
from ..core.engine.state import user_code
from ..core.graph.anomaly import note
from ..core.graph.bitmask import bits_of, mask_of
from ..core.graph.node import Node, next_sequence_nr
from ..core.graph.rebase import freshen, rebase
from ..core.graph.saved import FREED, SavedTensor, handles, save_output, saved_for_user
from ..core.graph.saved_tensor_hooks import hand_over
from ..core.graph.storage import IN_FUNCTION, INFERENCE_STORAGE, ONE_OF_SEVERAL, storage_of
from ..core.tensor import Tensor, alias, wrap, wrap_given
from ..errors import MissingRuleError
from .context import RUNNING, FunctionCtx
from .function_calls import by_place, check_dirty, rule_of


class FunctionNode(Node):
    """The node of a custom Function. `attributes` are those set on ctx, `__dict__` those set on grad_fn."""

    __slots__ = (
        "arguments", "attributes", "dirty", "dtypes", "facade", "homes", "materialize_grads", "non_differentiable",
        "outputs", "positions", "requiring", "saved", "to_save",
    )  # fmt: skip

    function: type[Function]
    materialize = True
    facade: weakref.ref[FunctionCtx]
    shapes: tuple[tuple[int, ...], ...]
    homes: tuple[Device | None, ...]  # of the outputs; None for an output that is not a tensor

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.requiring = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])
        self.arguments = len(args)  # of forward
        self.attributes: dict[str, Any] = {}
        self.to_save: tuple[Tensor | None, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self.materialize_grads = True
        self.saved: Any = ()
        self.edges, self.nrs, self.extra = (), None, None

    def connect(self, args: tuple[Any, ...]) -> None:
        """Sets the edges to the arguments' nodes; called before forward, which may write to the arguments."""
        self.positions = tuple([i for i, a in enumerate(args) if isinstance(a, Tensor)])  # argument of each edge
        linked = [args[i] for i in self.positions]
        for a in linked:
            freshen(a)
        self.shapes = tuple([a._array.shape for a in linked])
        self.dtypes = tuple([a.dtype for a in linked])
        self.edges = tuple([a._fn for a in linked])
        nrs = tuple([a._nr for a in linked])
        self.nrs = nrs if any(nrs) else None
        self.mask = mask_of([child is not None for child in self.edges])
        self.topological_nr = 1 + max([child.topological_nr for child in self.edges if child is not None])
        self.sequence_nr = next_sequence_nr()

    @property
    def ctx(self) -> FunctionCtx:
        """The `ctx` of forward and backward; the same object while it is alive."""
        living = self.facade()
        return FunctionCtx(self) if living is None else living

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """One bool per argument: in backward whether this call needs its gradient, else whether it requires grad."""
        for node, need in reversed(RUNNING.stack):
            if node is self:
                return need
        return self.requiring

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that forward passed to save_for_backward."""
        if self.saved is FREED:
            FREED.unpack(self)
        return tuple(None if s is None else s.unpack(self) for s in self.saved)

    @property
    def _raw_saved_tensors(self) -> Any:
        """A handle per saved tensor, for its hooks."""
        if self.saved is FREED:
            FREED.unpack(self)
        return handles(self, "saved")

    def __getattr__(self, name: str) -> Any:
        """An attribute that the user set on ctx, which in PyTorch is the node."""
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
        return self._backward(list(g) if self.outputs != 1 else [g], need, release, True)

    def _backward(self, gs: list[Tensor | None], need: int, release: bool, recording: bool) -> tuple[Any, ...]:
        if self.materialize_grads:
            shapes, dtypes = (self.shape, self.dtype) if self.outputs != 1 else ((self.shape,), (self.dtype,))
            gs = [wrap(make(home, "zeros", s, d)) if x is None and home is not None else x
                  for x, home, s, d in zip(gs, self.homes, shapes, dtypes, strict=True)]
        wanted = [False] * self.arguments
        for position, bit in zip(self.positions, bits_of(need, len(self.positions)), strict=True):
            wanted[position] = bit
        running = RUNNING.stack
        depth = len(running)
        try:
            running.append((self, tuple(wanted)))
            with user_code(recording):
                result = rule_of(self.function, Function)(self.ctx, *gs)
                grads = self._checked(result if isinstance(result, tuple) else (result,), need)
        finally:
            del running[depth:]
        if release and self.saved:
            self.saved = FREED
        return grads

    def _checked(self, result: tuple[Any, ...], need: int) -> tuple[Tensor | None, ...]:
        """The gradients returned by backward, one per edge, checked and cast to the inputs' dtypes."""
        expected = self.arguments
        if len(result) > expected and all(extra is None for extra in result[expected:]):
            result = result[:expected]
        if len(result) != expected:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients "
                               f"(expected {expected}, got {len(result)})")
        others = {*range(expected)}.difference(self.positions) if len(self.positions) < expected else ()
        for position in others:
            if result[position] is not None:
                raise RuntimeError(f"function {self.name()} returned a gradient different than None at position "
                                   f"{position}, but the corresponding forward input was not a Tensor")
        grads = [self._fitted(result[position], i) for i, position in enumerate(self.positions)]
        return tuple([g if wanted else None for wanted, g in zip(bits_of(need, len(grads)), grads, strict=True)])

    def _fitted(self, g: Any, i: int) -> Tensor | None:
        """A checked gradient: the engine sums one that broadcasts from the input's shape, other shapes are an error."""
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


class Function:
    """Base class of operations with a user-defined backward.

    Define `forward(ctx, *args)` and `backward(ctx, *grad_outputs)` as static methods, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`, and call `apply`. backward, or its alias `vjp`, returns one gradient or None
    per argument of forward; `ctx.needs_input_grad` says which are needed. Both may return arrays, which become tensors.

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
        """Computes the operation, without recording. Returns a tensor, an array, or a tuple of any objects."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves values for backward if forward does not take ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients for the arguments of forward, given those of its outputs."""
        raise MissingRuleError("You must implement either the backward or vjp method for your custom autograd.Function "
                               "to use it with backward mode AD.")

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records a node that runs backward. Keyword arguments are bound to forward's parameters."""
        separate = cls.setup_context is not Function.setup_context
        if kwargs or separate:
            args = by_place(cls, args, kwargs, separate)
        node = cls._node_class(args)
        recording = not MODES.bits & GRAD_OFF and any(node.requiring)
        if recording:
            node.connect(args)
        ctx, bits = FunctionCtx(node), MODES.bits
        try:
            MODES.bits = bits | GRAD_OFF
            output = cls.forward(*args) if separate else cls.forward(ctx, *args)
            output = tuple(map(as_result, output)) if isinstance(output, tuple) else as_result(output)
            if separate:
                cls.setup_context(ctx, args, output)
        finally:
            MODES.bits = MODES.bits & ~GRAD_OFF | bits & GRAD_OFF
        outputs = output if isinstance(output, tuple) else (output,)
        check_dirty(node, args, outputs)
        outputs = _record(node, args, outputs) if recording else _unrecorded(node, args, outputs)
        node.to_save = node.non_differentiable = node.dirty = ()
        return tuple(outputs) if isinstance(output, tuple) else outputs[0]


def as_result(value: Any) -> Any:
    """A value returned by forward or backward: an array becomes a tensor, other objects are unchanged."""
    if isinstance(value, np.generic):  # such as NumPy's sum of an array; CuPy returns a 0-d array
        value = np.asarray(value)
    return wrap_given(value) if is_array(value) else value


def _unrecorded(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a call that is not recorded; an input returned unchanged becomes a new tensor without grad."""
    given, dirty, found = {id(a) for a in args}, {id(t) for t in node.dirty}, []
    for o in outputs:
        if isinstance(o, Tensor) and id(o) in given:
            x = o
            if x.requires_grad:
                o = alias(x)
            elif id(x) not in dirty:
                o = _show(alias(x), x, IN_FUNCTION)
        elif isinstance(o, Tensor) and o.requires_grad:  # forward recorded, by enable_grad
            o = alias(o)
        elif isinstance(o, Tensor) and o._base is not None:
            o._made = IN_FUNCTION
        found.append(o)
    return tuple(found)


def _record(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a recorded call, linked to the node."""
    linked = [a for a in args if isinstance(a, Tensor)]
    dirty, inputs = {id(t) for t in node.dirty}, {id(a) for a in linked}
    # An input returned unchanged becomes an alias, since the caller's tensor keeps its own history. So does an input
    # that was written to, until its history is rewritten below.
    returned = [alias(o) if isinstance(o, Tensor) and (id(o) in inputs or o._fn is not None) else o for o in outputs]
    pairs = [(old, new) for old, new in zip(outputs, returned, strict=True) if isinstance(new, Tensor)]
    note(node)
    _link(node, outputs, returned, {id(t) for t in node.non_differentiable})
    _save(node, {id(old): new for old, new in pairs if id(old) in dirty or id(old) not in inputs})
    for old, new in pairs:
        if id(old) in dirty:
            rebase(old, node, new._nr)
        else:
            shown = linked if old._base is not None or id(old) in inputs else []
            _mark_view(new, old, shown, IN_FUNCTION if len(pairs) == 1 else ONE_OF_SEVERAL)
    if MODES.bits & SAVING:  # last, so that written inputs have their history if a hook raises
        hand_over(node, ())
    return tuple([old if isinstance(old, Tensor) and id(old) in dirty else new
                  for old, new in zip(outputs, returned, strict=True)])


def _link(node: FunctionNode, outputs: tuple[Any, ...], returned: list[Any], excluded: set[int]) -> None:
    """Links the outputs to the node by number; an output that is not a tensor has a number, too, but no shape."""
    node.outputs = len(returned)
    shapes = tuple([t.shape if isinstance(t, Tensor) else None for t in returned])
    kinds = tuple([t.dtype if isinstance(t, Tensor) else None for t in returned])
    node.homes = tuple([t.device if isinstance(t, Tensor) else None for t in returned])
    node.shape, node.dtype = (shapes[0], kinds[0]) if len(returned) == 1 else (shapes, kinds)
    for nr, (old, new) in enumerate(zip(outputs, returned, strict=True), 1):
        if isinstance(new, Tensor) and id(old) not in excluded and new.is_floating_point():
            new._fn, new._nr = node, nr if len(returned) > 1 else 0


def _mark_view(new: Tensor, old: Tensor, inputs: list[Tensor], made: int) -> None:
    """Marks an output that is a view as not writable in place, since its gradient is user-defined."""
    for x in inputs:
        if old is x or (old._base is not None and (old._base is x or old._base is x._base)):
            _show(new, x, made)
            return
    if new._base is not None:  # a view of a buffer of forward's own, which forward may have written to
        new._made, new._seen = made, new._storage.version  # type: ignore[union-attr]


def _show(view: Tensor, x: Tensor, made: int) -> Tensor:
    """Makes `view` a view of x with the creation code `made` (core/graph/storage.py); not for inference tensors."""
    storage = view._storage = storage_of(x)
    if storage is not INFERENCE_STORAGE:
        view._base, view._made, view._seen = x if x._base is None else x._base, made, storage.version
    return view


def _save(node: FunctionNode, outputs: dict[int, Tensor]) -> None:
    """Saves the tensors given to ctx.save_for_backward; `outputs` maps a returned tensor to its replacement."""
    kept = []
    for tensor in node.to_save:
        new = None if tensor is None else outputs.get(id(tensor), tensor)
        kept.append(None if new is None else save_output(new, node) if new._fn is node else saved_for_user(new))
    node.saved = tuple(kept)


class _NotTwice(Function):
    """Returns `results` with a node that raises when differentiated, as a function of `sources`."""

    @staticmethod
    def forward(ctx: Any, results: list[Tensor], *sources: Tensor) -> Any:
        return tuple(wrap(t._array) for t in results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a Function's backward that is not differentiable: double backward raises RuntimeError."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *gs: Any) -> Any:
        recording = not MODES.bits & GRAD_OFF
        with no_grad():
            result = fn(ctx, *gs)
        if not recording:
            return result
        results = tuple(map(as_result, result)) if isinstance(result, tuple) else (as_result(result),)
        found = [r for r in results if isinstance(r, Tensor)]
        sources = [t for t in (*gs, *ctx.saved_tensors) if isinstance(t, Tensor)]
        if not found or not any(s._node is not None for s in sources):
            return result
        marked = iter(_NotTwice.apply(found, *sources))
        results = tuple([next(marked) if isinstance(r, Tensor) else r for r in results])
        return results if isinstance(result, tuple) else results[0]

    return wrapped
