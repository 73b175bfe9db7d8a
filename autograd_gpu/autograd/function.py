"""Function: an operation with a derivative written by the user.

A Function's node is run by the engine like any other. `ctx.needs_input_grad` answers, inside backward, for the call
that is running: the engine's exec_info, not the graph. The ctx of one forward may be in use by several threads at a
time, so the answer lives in the thread, not on the ctx.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from typing import Any

import numpy as np

from ..backend import is_array, namespace_on
from ..backend.device import Device
from ..backend.dtypes import FLOATS
from ..config import GRAD_OFF, MODES, SAVING, no_grad
from ..core.anomaly import note
from ..core.history import check_recordable, freshen, rebase
from ..core.masks import bits_of, mask_of
from ..core.nesting import user_code
from ..core.node import AccumulateGrad, Node, next_sequence_nr
from ..core.op import RECORD
from ..core.saved import FREED, SavedTensor, handles, save_output, saved
from ..core.saving import hand_over
from ..core.tensor import Tensor, alias, wrap
from ..core.views import IN_FUNCTION, INFERENCE_STORAGE, NO_GRAD, bump_version, storage_of
from ..errors import MissingRuleError


class _Running(threading.local):
    """The ctx of each backward that this thread is in, innermost last, with what the call needs."""

    def __init__(self) -> None:
        self.stack: list[tuple[Context, tuple[bool, ...]]] = []


RUNNING = _Running()


class Context:
    """The `ctx` of one application: what forward leaves for backward. Any other attribute is the user's own."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self._forward_needs = needs
        self._to_save: tuple[Tensor | None, ...] = ()
        self._non_differentiable: tuple[Tensor, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._materialize = True
        self._node: weakref.ref[FunctionNode] | None = None  # the node owns its ctx

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
        node = None if self._node is None else self._node()
        return self._to_save if node is None else node.saved_tensors

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Per argument: in backward whether THIS call needs its gradient, in forward whether it requires one."""
        for ctx, need in reversed(RUNNING.stack):
            if ctx is self:
                return need
        return self._forward_needs

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Says that these outputs do not require grad."""
        self._non_differentiable = outputs

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Says that forward wrote to these inputs. Each must be returned, and leads to this node from then on."""
        for t in inputs:
            if not isinstance(t, Tensor):
                raise TypeError(f"mark_dirty can only accept variables, but argument is of type {type(t).__name__}")
        self._dirty = inputs

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, instead of zeros, for outputs without a gradient."""
        self._materialize = value


class FunctionNode(Node):
    """The node of a custom Function."""

    function: type[Function]
    materialize = True
    shapes: tuple[tuple[int, ...], ...]

    def __init__(self, ctx: Context, arguments: int) -> None:
        self.ctx = ctx
        self.arguments = arguments  # of forward
        self.extra = None
        self.saved: Any = ()
        self.positions: tuple[int, ...] = ()  # argument number of each edge
        self.slots: tuple[int | None, ...] = ()  # per returned value the output number, None if it is no tensor
        self.inputs: tuple[tuple[np.dtype, Device], ...] = ()
        self.outputs = 1

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
        if name != "ctx" and name in vars(self.ctx):
            return vars(self.ctx)[name]
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
        if self.ctx._materialize:
            metadata = zip(self.shape, self.dtype, strict=True) if self.outputs != 1 else [(self.shape, self.dtype)]
            home = namespace_on(self.inputs[0][1])
            gs = [wrap(home.zeros(s, d)) if x is None else x for x, (s, d) in zip(gs, metadata, strict=True)]
        wanted = [False] * self.arguments
        for position, bit in zip(self.positions, bits_of(need, len(self.positions)), strict=True):
            wanted[position] = bit
        running = RUNNING.stack
        depth = len(running)
        try:
            running.append((self.ctx, tuple(wanted)))
            with user_code(recording):
                result = self.function.backward(self.ctx, *[None if k is None else gs[k] for k in self.slots])
                grads = self._checked(result if isinstance(result, tuple) else (result,), need)
        finally:
            del running[depth:]
        if release and self.saved:
            self.saved = FREED
        return grads

    def _checked(self, result: tuple[Any, ...], need: int) -> tuple[Tensor | None, ...]:
        """backward's answer per edge, in the input's dtype."""
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
        """One gradient. What broadcasts from the input's shape is summed by the engine; other shapes are an error."""
        if g is None:
            return None
        g = as_result(g)
        position, shape, (dtype, _) = self.positions[i], self.shapes[i], self.inputs[i]
        if not isinstance(g, Tensor):
            raise TypeError(f"{self.function.__name__}.backward returned a {type(g).__name__} for argument {position}; "
                            "expected a Tensor or None")
        padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
        if g.ndim < len(shape) or any(want not in (1, got) for want, got in zip(padded, g.shape, strict=True)):
            raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {position} - got "
                               f"{list(g.shape)} but expected shape compatible with {list(shape)}")
        return RECORD.cast(g, dtype) if g.dtype != dtype and dtype in FLOATS else g


class Function:
    """Base class of operations with a backward of their own.

    Write `forward(ctx, *args)` and `backward(ctx, *grad_outputs)` as static methods, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`; call `apply`. backward returns one gradient, or None, per argument of forward,
    and may skip those that `ctx.needs_input_grad` does not ask for. Arrays that either returns become tensors.

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
        """The operation; runs without recording. Returns a tensor or an array, or a tuple of such and other things."""
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
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records a node whose backward is the class's. Keywords: with setup_context only."""
        separate = cls.setup_context is not Function.setup_context
        if kwargs and not separate:
            raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments unless it defines setup_context")
        if separate:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args = (*bound.args, *bound.kwargs.values())
        ctx = Context(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
        recording = not MODES.bits & GRAD_OFF and any(ctx._forward_needs)
        if recording:
            for a in args:
                if isinstance(a, Tensor):
                    freshen(a)
        with no_grad():
            output = cls.forward(*args) if separate else cls.forward(ctx, *args)
            output = tuple(map(as_result, output)) if isinstance(output, tuple) else as_result(output)
            if separate:
                cls.setup_context(ctx, args, output)
        outputs = output if isinstance(output, tuple) else (output,)
        _check_dirty(cls, ctx, args, outputs)
        outputs = _record(cls, ctx, args, outputs) if recording else _unrecorded(ctx, args, outputs)
        return tuple(outputs) if isinstance(output, tuple) else outputs[0]


def as_result(value: Any) -> Any:
    """What a user's forward or backward returned, an array as tensor; other things stay as they are."""
    if isinstance(value, np.generic):  # NumPy's sum of an array, where CuPy's is an array of no dimensions
        value = np.asarray(value)
    return wrap(value) if is_array(value) else value


def _check_dirty(cls: type[Function], ctx: Context, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """What mark_dirty asks for: inputs, that are returned, and no leaves."""
    for t in ctx._dirty:
        bump_version(t)
        if not any(t is a for a in args):
            raise RuntimeError("Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, "
                               "there is no need to pass it to mark_dirty().")
        if not any(t is o for o in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
        hidden = t._base is not None and t._made and t._base._fn is not None  # a view that may not be rewritten
        if not MODES.bits & GRAD_OFF and (hidden or any(ctx._forward_needs)):
            if type(t._fn) is AccumulateGrad and t._base is None:
                raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation. Wrap "
                                   f"the call of {cls.__name__} in ag.no_grad(), or give it a clone() of the leaf.")
            check_recordable("ctx.mark_dirty", t)


def _unrecorded(ctx: Context, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """An input handed through becomes a tensor of its own that does not require grad."""
    given, dirty, found = {id(a) for a in args}, {id(t) for t in ctx._dirty}, []
    for o in outputs:
        if isinstance(o, Tensor) and id(o) in given:
            x = o
            if x.requires_grad:
                o = alias(x)
            elif id(x) not in dirty:
                o = _show(alias(x), x, NO_GRAD)
        elif isinstance(o, Tensor) and o.requires_grad:  # forward recorded, by enable_grad
            o = alias(o)
        found.append(o)
    return tuple(found)


def _record(cls: type[Function], ctx: Context, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The node of ctx, and the outputs linked to it."""
    node = cls._node_class(ctx, len(args))
    linked = [(i, a) for i, a in enumerate(args) if isinstance(a, Tensor)]
    node.positions = tuple([i for i, _ in linked])
    node.shapes = tuple([a.shape for _, a in linked])
    node.inputs = tuple([(a.dtype, a.device) for _, a in linked])
    node.edges = tuple([a._fn for _, a in linked])  # as of before forward, which may have written to what they show
    node.nrs = tuple([a._nr for _, a in linked]) if any(a._nr for _, a in linked) else None
    node.mask = mask_of([child is not None for child in node.edges])
    node.topological_nr = 1 + max([child.topological_nr for child in node.edges if child is not None])
    dirty, inputs = {id(t) for t in ctx._dirty}, {id(a) for _, a in linked}
    # An input handed through becomes an alias: the caller's tensor keeps its own history. So does one that was written
    # to, until its history is rewritten below.
    returned = [alias(o) if isinstance(o, Tensor) and (id(o) in inputs or o._fn is not None) else o for o in outputs]
    pairs = [(old, new) for old, new in zip(outputs, returned, strict=True) if isinstance(new, Tensor)]
    if not pairs:
        return outputs
    node.sequence_nr = next_sequence_nr()
    note(node)
    _link(node, pairs, {id(t) for t in ctx._non_differentiable})
    numbers = iter(range(len(pairs)))
    node.slots = tuple([next(numbers) if isinstance(o, Tensor) else None for o in returned])
    _save(node, ctx, {id(old): new for old, new in pairs if id(old) in dirty or id(old) not in inputs})
    for old, new in pairs:
        if id(old) in dirty:
            rebase(old, node, new._nr)
        else:
            _mark_view(new, old, [a for _, a in linked] if old._base is not None or id(old) in inputs else [])
    if MODES.bits & SAVING:  # last: a hook that raises finds what was written to with its history
        hand_over(node, ())
    return tuple([old if isinstance(old, Tensor) and id(old) in dirty else new
                  for old, new in zip(outputs, returned, strict=True)])


def _link(node: FunctionNode, pairs: list[tuple[Tensor, Tensor]], excluded: set[int]) -> None:
    node.outputs = len(pairs)
    shapes, kinds = tuple([t.shape for _, t in pairs]), tuple([t.dtype for _, t in pairs])
    node.shape, node.dtype = (shapes[0], kinds[0]) if len(pairs) == 1 else (shapes, kinds)
    for nr, (old, new) in enumerate(pairs, 1):
        if id(old) not in excluded and new.is_floating_point():
            new._fn, new._nr = node, nr if len(pairs) > 1 else 0


def _mark_view(new: Tensor, old: Tensor, inputs: list[Tensor]) -> None:
    """An output that is a view, of an input or not, must not be written to: its gradient is the user's."""
    for x in inputs:
        if old is x or (old._base is not None and (old._base is x or old._base is x._base)):
            _show(new, x, IN_FUNCTION)
            return
    if new._base is not None:
        new._made = IN_FUNCTION


def _show(view: Tensor, x: Tensor, made: int) -> Tensor:
    """Makes `view` a view of x, that was made as core/views.py numbers it; not of a tensor of inference mode."""
    storage = view._storage = storage_of(x)
    if storage is not INFERENCE_STORAGE:
        view._base, view._made, view._seen = x if x._base is None else x._base, made, storage.version
    return view


def _save(node: FunctionNode, ctx: Context, outputs: dict[int, Tensor]) -> None:
    """What ctx.save_for_backward was given; `outputs`: what stands for a returned tensor."""
    kept = []
    for tensor in ctx._to_save:
        new = None if tensor is None else outputs.get(id(tensor), tensor)
        kept.append(None if new is None else save_output(new, node) if new._fn is node else saved(new))
    node.saved = tuple(kept)
    ctx._to_save, ctx._non_differentiable, ctx._dirty, ctx._node = (), (), (), weakref.ref(node)
