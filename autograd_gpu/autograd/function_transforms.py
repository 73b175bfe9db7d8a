"""Custom Functions inside of transforms: what vmap, forward mode and a level of reverse mode do with one.

Each level runs the Function as what lies below it does, and then calls the methods of the Function that it needs, with
a ctx of its own: `setup_context` runs once per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.declare.batch_rules import moved
from ..core.declare.op import RECORD
from ..core.graph.storage import version_of
from ..core.interpret.batched import Batching, batched
from ..core.interpret.duals import Forward, attach, share_with_saved_outputs
from ..core.interpret.interpreters import below, entered, in_transform
from ..core.interpret.level_tensor import zeros_like
from ..core.interpret.recorded import Recording, recorded
from ..core.saved.saved_tensor import saved_for_user
from ..core.tensor import Tensor
from ..modes import GRAD_OFF, MODES
from .context import FunctionCtx, FunctionNode
from .function_calls import FunctionMethods, as_result, rule_of


class VmapInfo(NamedTuple):
    """The first argument of a Function's vmap: the number of examples, and the `randomness` of the vmap.

    >>> ag.autograd.function_transforms.VmapInfo(batch_size=3, randomness="error").batch_size
    3
    """

    batch_size: int
    randomness: str


class TransformedFunction(FunctionMethods):
    """The calls of a Function by an interpreter; the rest of the stack is in place."""

    _node_class: type[FunctionNode]

    @classmethod
    def _call(cls, args: tuple[Any, ...], below: bool = True) -> tuple[Any, FunctionCtx]:
        """Runs the Function as what is innermost sees it; returns its outputs and its ctx."""
        raise NotImplementedError

    @classmethod
    def _set_up(cls, args: tuple[Any, ...], output: Any) -> tuple[FunctionNode, FunctionCtx]:
        """Calls setup_context with a new ctx; returns its node, which is not linked, and the ctx."""
        node = cls._node_class(args)
        ctx, bits = FunctionCtx(node), MODES.bits
        try:
            MODES.bits = bits | GRAD_OFF
            cls.setup_context(ctx, args, output)
        finally:
            MODES.bits = MODES.bits & ~GRAD_OFF | bits & GRAD_OFF
        node.constants = constants_of(node, output if isinstance(output, tuple) else (output,))
        return node, ctx

    @classmethod
    def _call_forward(cls, level: Forward, args: tuple[Any, ...], tangents: Sequence[Any]) -> tuple[Any, FunctionCtx]:
        """Runs the Function, and its jvp on the tangents of its arguments."""
        output, ctx = cls._call(args)
        if _has_setup_context(cls) and (level.is_transform or MODES.stack):
            _, ctx = cls._set_up(args, output)
        node, full = ctx._node(), tangents
        if node.materialize_grads:
            full = [zeros_like(x) if t is None and _is_floating(x) else t for x, t in zip(args, tangents, strict=True)]
        versions = [_version(t) for t in tangents]
        ctx._in_jvp = True
        try:
            ts = cls.jvp(ctx, *full)
        finally:
            ctx._in_jvp, ctx._for_forward = False, ()
        outputs = output if isinstance(output, tuple) else (output,)
        ts = tuple(map(as_result, ts if isinstance(ts, tuple) else (ts,)))
        if len(ts) != len(outputs):
            raise RuntimeError("Function's jvp returned an invalid number of forward gradients (expected "
                               f"{len(outputs)} but got {len(ts)}): {cls.__name__}.jvp returns one per output, None "
                               "for one without a derivative")
        for i, (out, t) in enumerate(zip(outputs, ts, strict=True)):
            if t is not None:
                _check_tangent(cls, i, t, None if i in node.constants or not _is_floating(out) else out)
                if not level.is_transform:
                    _check_shared(out, t, args, tangents, versions)
                attach(out, level, t)
        share_with_saved_outputs(outputs)
        return output, ctx

    @classmethod
    def _call_recorded(cls, level: Recording, args: tuple[Any, ...], recording: bool) -> tuple[Any, FunctionCtx | None]:
        """Runs the Function below a level of reverse mode, and makes its node at that level."""
        values = tuple(map(level.value, args))
        output, ctx = cls._call(values)
        linked = tuple([x if isinstance(x, Tensor) and level.value(x) is not x else v
                        for x, v in zip(args, values, strict=True)])
        if not recording or not any(x is not v and x.requires_grad for x, v in zip(linked, values, strict=True)):
            return output, ctx
        node, ctx = cls._set_up(values, output)
        node.requiring = tuple([x is not v and x.requires_grad for x, v in zip(linked, values, strict=True)])
        node.connect(tuple([x if needed else _constant(v) for x, v, needed in
                            zip(linked, values, node.requiring, strict=True)]))
        outputs = output if isinstance(output, tuple) else (output,)
        node.describe(outputs)
        dirty = {id(t) for t in node.dirty}
        node.saved = tuple([None if t is None else saved_for_user(t) for t in node.to_save])
        node.to_save = node.non_differentiable = node.dirty = ()
        made = []
        for i, out in enumerate(outputs):
            nr = i + 1 if len(outputs) > 1 else 0
            if not _is_floating(out) or i in node.constants:
                made.append(out)
            elif id(out) in dirty:
                x = next(x for x, v in zip(args, values, strict=True) if v is out)
                x._fn, x._nr = node, nr
                made.append(x)
            else:
                made.append(recorded(level, out, node, nr))
        return (tuple(made) if isinstance(output, tuple) else made[0]), ctx

    @classmethod
    def _call_batched(cls, level: Batching, args: tuple[Any, ...]) -> tuple[Any, FunctionCtx | None]:
        """Runs the Function on all examples: by its own `vmap`, or by its methods on batches."""
        values: tuple[Any, ...] = _in_leaves(level.value, args)
        in_dims: tuple[Any, ...] = _in_leaves(lambda x: 0 if level.holds(x) else None, args)
        if not _holds(in_dims):
            return cls._call(args)
        own = cls.vmap is not FunctionMethods.vmap
        if own and cls.generate_vmap_rule:
            raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an "
                               "overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
                               "overridden vmap staticmethod to avoid ambiguity.")
        if cls.generate_vmap_rule:
            flags = tuple([dim == 0 for dim in in_dims])
            if any(_holds(dim) and not flag for dim, flag in zip(in_dims, flags, strict=True)):
                raise RuntimeError(f"{cls.__name__}: generate_vmap_rule=True takes batched tensors only as arguments, "
                                   "not in a tuple, list or dict; pass them so, or define the vmap staticmethod")
            output = _on_batches(cls).apply(*values, Batch(level.n, level.randomness, flags))
            dims: Any = tuple(0 for _ in output) if isinstance(output, tuple) else 0
        elif own:
            output, dims = _pair(cls.vmap(VmapInfo(level.n, level.randomness), in_dims, *values))
        else:
            raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
                               "override and implement the vmap staticmethod or set generate_vmap_rule=True.")
        if not isinstance(output, tuple):
            return _lifted_along(level, as_result(output), dims), None
        return tuple([_lifted_along(level, as_result(out), dim) for out, dim in zip(output, dims, strict=True)]), None


def refuse_without_setup_context(cls: type[FunctionMethods]) -> None:
    """RuntimeError for a Function whose forward takes ctx, inside of a transform."""
    if in_transform():
        raise RuntimeError("In order to use an autograd.Function with function transforms (vmap, grad, jvp, jacrev, "
                           f"...), it must override the setup_context staticmethod. {cls.__name__}.forward takes ctx: "
                           "split it into forward(*args) and setup_context(ctx, inputs, output).")


def constants_of(node: FunctionNode, outputs: Sequence[Any]) -> tuple[int, ...]:
    """The places of the outputs that were given to mark_non_differentiable."""
    marked = {id(t) for t in node.non_differentiable}
    return tuple([i for i, out in enumerate(outputs) if id(out) in marked])


def _has_setup_context(cls: type[FunctionMethods]) -> bool:
    return cls.setup_context is not FunctionMethods.setup_context


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _constant(x: Any) -> Any:
    """x without a place in the graph of this level, of which its own is none."""
    return x.detach() if isinstance(x, Tensor) else x


def _check_tangent(cls: type[FunctionMethods], i: int, t: Any, out: Tensor | None) -> None:
    """Checks what jvp returned for output `i`, which is `out`, or None if it is not differentiable."""
    if out is None:
        raise RuntimeError(f"Function's jvp returned a gradient at position {i}, but the corresponding forward output "
                           "is not a differentiable Tensor. You should return None at that position instead.")
    if not isinstance(t, Tensor):
        raise TypeError(f"expected Variable or None (got {type(t).__name__}) for grad output {i}: {cls.__name__}.jvp "
                        "returns tensors")
    if t.shape != out.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original "
                           f"Tensor, this is not supported. Tensor is of size {list(out.shape)} while the given "
                           f"forward gradient is of size {list(t.shape)}: {cls.__name__}.jvp returned it at index {i}.")


def _check_shared(
    out: Tensor, t: Tensor, args: Sequence[Any], tangents: Sequence[Any], versions: Sequence[int | None]
) -> None:
    """RuntimeError if `out` shares memory with an argument, and its tangent not with that of the argument.

    Otherwise a write to one of them would reach the memory of the other, and not its tangent. versions: those of the
    tangents before jvp, which has to write to the tangent of an argument that forward wrote to.
    """
    for x, tangent, version in zip(args, tangents, versions, strict=True):
        if tangent is None:
            continue
        if out is x and version is not None and _version(t) == version:
            raise RuntimeError("An inplace custom Function is not modifying the forward mode gradients inplace. If the "
                               "forward is modifying an input inplace, then the jvp function must modify the "
                               "corresponding gradient inplace; after a write to its array it calls "
                               "graph.increment_version.")
        if out is x and t is not tangent:
            raise RuntimeError("An inplace custom Function is not returning the forward mode gradients as-is. If the "
                               "forward is modifying an input inplace, then the jvp function must modify the gradient "
                               "inplace and return it as-is.")
        if out is not x and out._base is not None and (out._base is x or out._base is x._base):
            _check_shown(t, tangent)


def _version(t: Tensor | None) -> int | None:
    """The version of a tangent; None without one, and for inference tensors, which have none."""
    return None if t is None or t.is_inference() else version_of(t)


def _check_shown(t: Tensor, tangent: Tensor) -> None:
    """RuntimeError unless t, the tangent of a view of an argument, is a view of the argument's tangent."""
    if t._base is None:
        raise RuntimeError("A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
                           "returning a view.")
    if t._base is not (tangent if tangent._base is None else tangent._base):
        what = "given grad input" if tangent._base is None else "same base as the given grad input"
        raise RuntimeError(f"A custom Function is returning a view but the jvp is not returning a view of the {what}.")


def _in_leaves(function: Any, x: Any) -> Any:
    """Applies a function to what tuples, lists and dicts contain."""
    if type(x) in (tuple, list):
        return type(x)([_in_leaves(function, item) for item in x])
    return {key: _in_leaves(function, item) for key, item in x.items()} if type(x) is dict else function(x)


def _holds(in_dims: Any) -> bool:
    """Whether a dimension is among `in_dims`, which may be nested."""
    if isinstance(in_dims, (tuple, list)):
        return any(map(_holds, in_dims))
    return any(map(_holds, in_dims.values())) if isinstance(in_dims, dict) else in_dims is not None


def _pair(returned: Any) -> tuple[Any, Any]:
    """What a Function's vmap returned: (output, out_dims), with a dimension per output of several."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        got = f"{len(returned)} returns" if isinstance(returned, tuple) else f"a {type(returned)}"
        raise RuntimeError("Expected the vmap staticmethod to have two returns, an output and out_dims with pytree "
                           f"structure compatible with the output. Got {got} instead")
    output, dims = returned
    if isinstance(output, tuple) and not isinstance(dims, tuple):
        dims = (dims,) * len(output)
    if isinstance(dims, tuple) and (not isinstance(output, tuple) or len(dims) != len(output)):
        raise RuntimeError("The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
                           f"tuple. Expected out_dims={dims} to be compatible with the structure of `output`, which is "
                           f"{f'a tuple of {len(output)}' if isinstance(output, tuple) else 'one result'}.")
    return output, dims


def _lifted_along(level: Batching, out: Any, dim: int | None) -> Any:
    """An output of a Function's vmap as a tensor of the level; None for one that is the same in all examples."""
    if dim is None or not isinstance(out, Tensor):
        return out
    return batched(level, moved(RECORD, out, dim % out.ndim, 0))


class Batch(NamedTuple):
    """The last argument of a Function on batches: `flags` says which of the others have a batch dimension."""

    n: int
    randomness: str
    flags: tuple[bool, ...]

    def enter(self) -> Any:
        """Context manager: a level of vmap for the methods of the Function."""
        return entered(Batching(self.n, self.randomness))


def _on_batches(cls: Any) -> Any:
    """The Function that runs the methods of `cls` on whole batches, under a level of vmap; made once for each class.

    The gradient of an argument without a batch dimension is summed over the examples.
    """
    form = cls.__dict__.get("_batched_form")
    if form is None:
        form = cls._batched_form = _make_on_batches(cls)
    return form


def _make_on_batches(cls: Any) -> Any:
    class OnBatches(cls):
        vjp = FunctionMethods.vjp

        @staticmethod
        def forward(*args: Any) -> Any:
            *values, batch = args
            with batch.enter() as level:
                output = _each(as_result, cls.forward(*_lifted(level, values, batch.flags)))
                with below(level):
                    return _each(level.whole, output)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            *values, batch = inputs
            with batch.enter() as level:
                lifted_output = _each(lambda out: batched(level, out) if isinstance(out, Tensor) else out, output)
                node, own = cls._set_up(tuple(_lifted(level, values, batch.flags)), lifted_output)
                for save, tensors in ((ctx.save_for_backward, node.to_save), (ctx.save_for_forward, own._for_forward)):
                    save(*[level.value(t) for t in tensors])
                ctx.batch, ctx.shapes = batch, [getattr(x, "shape", None) for x in _lifted(level, values, batch.flags)]
                ctx.has_batch = [tuple([level.holds(t) for t in group])
                                 for group in (node.to_save, own._for_forward)]
                ctx.own = dict(node.attributes)
                ctx.set_materialize_grads(node.materialize_grads)
                outputs = output if isinstance(output, tuple) else (output,)
                ctx.mark_non_differentiable(*[outputs[i] for i in node.constants])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with ctx.batch.enter() as level:
                own = _own_ctx(cls, ctx, level, 0)
                results = rule_of(cls)(own, *_lifted(level, grads, [True] * len(grads)))
                results = tuple(map(as_result, results if isinstance(results, tuple) else (results,)))
                results = own._node().counted(results, len(ctx.shapes))
                reduced = [_reduced(g, shape) for g, shape in zip(results, ctx.shapes, strict=True)]
                with below(level):
                    whole = [None if g is None else level.whole(g) for g in reduced]
                    return (*[g if g is None or flag else g.sum(0)
                              for g, flag in zip(whole, ctx.batch.flags, strict=True)], None)

        @staticmethod
        def jvp(ctx: Any, *arguments: Any) -> Any:
            *tangents, _ = arguments
            with ctx.batch.enter() as level:
                pushed = cls.jvp(_own_ctx(cls, ctx, level, 1), *_lifted(level, tangents, ctx.batch.flags))
                with below(level):
                    return _each(lambda t: None if t is None else level.whole(as_result(t)), pushed)

    OnBatches.__name__ = OnBatches.__qualname__ = cls.__name__  # in errors
    OnBatches._node_class.__name__ = cls._node_class.__name__
    return OnBatches


def _reduced(g: Any, shape: tuple[int, ...] | None) -> Any:
    """The gradient of an argument, summed to its shape if it broadcasts from there."""
    if g is None or shape is None or g.shape == shape or g.ndim < len(shape):
        return g
    trailing = zip(shape, g.shape[g.ndim - len(shape) :], strict=True)
    return RECORD.sum_to(g, shape) if all(want in (1, got) for want, got in trailing) else g


def _lifted(level: Batching, values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [batched(level, x) if flag and isinstance(x, Tensor) else x for x, flag in zip(values, flags, strict=True)]


def _each(function: Any, values: Any) -> Any:
    return tuple(map(function, values)) if isinstance(values, tuple) else function(values)


def _own_ctx(cls: Any, ctx: Any, level: Batching, which: int) -> FunctionCtx:
    """The ctx of `cls` inside of a level, from that of the Function on batches; `which`: 0 for backward, 1 for jvp."""
    node = cls._node_class(())
    own = FunctionCtx(node)
    node.requiring = tuple(ctx.needs_input_grad[:-1])
    own._for_forward, own._in_jvp = tuple(_lifted(level, ctx.saved_tensors, ctx.has_batch[which])), True
    for name, value in ctx.own.items():
        setattr(own, name, value)
    return own
