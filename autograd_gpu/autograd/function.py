"""Function: an operation with a derivative written by the user."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..core.graph.leaf import AccumulateGrad
from ..core.graph.storage import IN_FUNCTION, INFERENCE_STORAGE, ONE_OF_SEVERAL, bump_version, storage_of
from ..core.history.anomaly import note
from ..core.history.rebase import check_inplace, rebase_history
from ..core.interpret.interpreters import innermost
from ..core.saved.saved_tensor import save_output, saved_for_user
from ..core.saved.saved_tensor_hooks import hand_over
from ..core.tensor import Tensor, alias
from ..modes import GRAD_OFF, MODES, SAVING, no_grad
from .context import FunctionCtx, FunctionNode
from .function_calls import as_result, by_place
from .function_transforms import TransformedFunction, constants_of, refuse_without_setup_context


class Function(TransformedFunction):
    """Base class of operations with a backward of their own.

    Define `forward(ctx, *args)` and `backward(ctx, *grad_outputs)` as static methods, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`, and call `apply`. backward, or its alias `vjp`, returns one gradient or None
    per argument of forward; `ctx.needs_input_grad` says which are needed. Both may return arrays, which become tensors.

    For forward mode define `jvp(ctx, *tangents)`, which returns one tangent or None per output; `ctx.save_for_forward`
    saves tensors for it. For vmap set `generate_vmap_rule = True`, if all methods consist of operations, or define
    `vmap(info, in_dims, *args)`, which returns (output, out_dims). Inside of function transforms (`ag.func`)
    forward must not take ctx.

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

    >>> class Square(ag.autograd.Function):
    ...     generate_vmap_rule = True
    ...     @staticmethod
    ...     def forward(x):
    ...         return x * x
    ...     @staticmethod
    ...     def setup_context(ctx, inputs, output):
    ...         ctx.save_for_forward(*inputs)
    ...     @staticmethod
    ...     def jvp(ctx, t):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * t
    >>> ag.func.jacfwd(Square.apply)(ag.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """

    _node_class: type[FunctionNode]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        body = {"function": cls, "__module__": cls.__module__}
        cls._node_class = type(f"{cls.__name__}Backward", (FunctionNode,), body)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records a node that runs backward. Keyword arguments are bound to forward's parameters."""
        separate = cls.setup_context is not Function.setup_context
        if kwargs or separate:
            args = by_place(cls, args, kwargs, separate)
        if MODES.stack:
            if not separate:
                refuse_without_setup_context(cls)
            return innermost("function", cls, args)[0]
        return cls._call(args)[0]

    @classmethod
    def _call(cls, args: tuple[Any, ...], below: bool = True) -> tuple[Any, FunctionCtx]:
        """Runs the Function as what is innermost sees it, or with `below` False itself; returns its outputs and ctx."""
        if MODES.stack and below:
            result: tuple[Any, FunctionCtx] = innermost("function", cls, args)
            return result
        separate = cls.setup_context is not Function.setup_context
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
        if node.non_differentiable:
            node.constants = constants_of(node, outputs)
        _check_dirty(node, args, outputs)
        outputs = _record(node, args, outputs) if recording else _unrecorded(node, args, outputs)
        node.to_save = node.non_differentiable = node.dirty = ()
        return (tuple(outputs) if isinstance(output, tuple) else outputs[0]), ctx


def _check_dirty(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """What mark_dirty asks for: inputs, that are returned, and no leaves."""
    for t in node.dirty:
        bump_version(t)
        if not any(t is a for a in args):
            warnings.warn("ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
                          "mutated should be passed to ctx.mark_dirty().", UserWarning, stacklevel=3)
        if not any(t is o for o in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
        hidden = t._base is not None and t._made and t._base._fn is not None  # a view that may not be rewritten
        if not MODES.bits & GRAD_OFF and (hidden or any(node.requiring)):
            if type(t._fn) is AccumulateGrad and t._base is None:
                raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation. Wrap "
                                   f"the call of {node.op_name()} in ag.no_grad(), or give it a clone() of the leaf.")
            check_inplace("ctx.mark_dirty", t)


def _unrecorded(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a call that is not recorded; an input returned unchanged becomes a new tensor without grad."""
    inputs, dirty, outs = {id(a) for a in args}, {id(t) for t in node.dirty}, []
    for o in outputs:
        if isinstance(o, Tensor) and id(o) in inputs:
            x = o
            if x.requires_grad:
                o = alias(x)
            elif id(x) not in dirty:
                o = _show(alias(x), x, IN_FUNCTION)
        elif isinstance(o, Tensor) and o.requires_grad:  # forward recorded, by enable_grad
            o = alias(o)
        elif isinstance(o, Tensor) and o._base is not None:
            o._made = IN_FUNCTION
        outs.append(o)
    return tuple(outs)


def _record(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a recorded call, linked to the node."""
    linked = [a for a in args if isinstance(a, Tensor)]
    constant, inputs = {id(t) for t in node.non_differentiable}, {id(a) for a in linked}
    dirty = {id(t) for t in node.dirty} - constant
    # An input returned unchanged becomes an alias, since the caller's tensor keeps its own history. So does an input
    # that was written to, until its history is rewritten below.
    returned = [alias(o) if isinstance(o, Tensor) and (id(o) in inputs or o._fn is not None) else o for o in outputs]
    pairs = [(old, new) for old, new in zip(outputs, returned, strict=True) if isinstance(new, Tensor)]
    note(node)
    _link(node, outputs, returned, constant)
    _save(node, {id(old): new for old, new in pairs if id(old) in dirty or id(old) not in inputs})
    for old, new in pairs:
        if id(old) in dirty:
            rebase_history(old, node, new._nr)
        elif id(old) not in constant & inputs:  # an input marked as not differentiable is returned detached
            shown = linked if old._base is not None or id(old) in inputs else []
            _mark_view(new, old, shown, IN_FUNCTION if len(pairs) == 1 else ONE_OF_SEVERAL)
    if MODES.bits & SAVING:  # last, so that written inputs have their history if a hook raises
        hand_over(node, ())
    return tuple([old if isinstance(old, Tensor) and id(old) in dirty else new
                  for old, new in zip(outputs, returned, strict=True)])


def _link(node: FunctionNode, outputs: tuple[Any, ...], returned: list[Any], excluded: set[int]) -> None:
    """Links the outputs to the node by number; an output that is not a tensor has a number, too, but no shape."""
    node.describe(returned)
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
    """Returns the first `count` tensors with a node that raises when differentiated, as a function of all."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *tensors: Tensor) -> Any:
        return tuple([t.detach() for t in tensors[:count]])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves nothing."""

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
        tensors = [r for r in results if isinstance(r, Tensor)]
        sources = [t for t in (*gs, *ctx.saved_tensors) if isinstance(t, Tensor)]
        if not tensors or not any(s._node is not None for s in sources):
            return result
        marked = iter(_NotTwice.apply(len(tensors), *tensors, *sources))
        results = tuple([next(marked) if isinstance(r, Tensor) else r for r in results])
        return results if isinstance(result, tuple) else results[0]

    return wrapped
