"""Reverse mode: vjp, grad and grad_and_value.

Inside of another transform a level of reverse mode is an interpreter (core/interpret/recorded.py). Where there is no
other transform it is the plain graph, so hooks, checkpoints and generated code work as anywhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import backend
from ..core.engine.execute import execute
from ..core.graph.leaf import AccumulateGrad
from ..core.graph.node import Node
from ..core.interpret.interpreters import below, entered
from ..core.interpret.level_tensor import zeros_like
from ..core.interpret.recorded import Recorded, Recording, savable
from ..core.tensor import Tensor, wrap
from ..modes import GRAD_OFF, INFERENCE, MODES, enable_grad, inference_mode
from ..pytrees import reordered, tree_map, unflatten
from .pytrees import outputs, points, tensors, with_aux

Gradients = list[Tensor | None]


class GraphLevel:
    """A level of reverse mode with nothing but arrays below it: the plain graph."""

    def __init__(self) -> None:
        self.outer = not MODES.bits & (GRAD_OFF | INFERENCE)  # whether what is outside of this level records
        self.points: list[Tensor] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        with enable_grad():
            yield

    def lift(self, x: Tensor) -> Tensor:
        """Makes a point to differentiate by: a new tensor, so that x used elsewhere is a constant."""
        point = x.view_as(x) if self.outer and x.requires_grad else savable(x).detach().requires_grad_()
        self.points.append(point)
        return point

    def lowered(self, x: Any) -> Any:
        """A result as what is outside sees it: without the history that this level added."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return x
        return x if self._reaches_outside([x]) else x.detach()

    def pull(self, outs: Sequence[Tensor], cotangents: Sequence[Tensor], keep: bool) -> Gradients:
        """The gradients of the points; recorded only if the result depends on what is outside of this level."""
        pairs = [(out, g) for out, g in zip(outs, cotangents, strict=True) if out.requires_grad]
        if not pairs:
            return [None] * len(self.points)
        linked = any(g.requires_grad for _, g in pairs) or self._reaches_outside([out for out, _ in pairs])
        create_graph = linked and not MODES.bits & (GRAD_OFF | INFERENCE)
        roots = [(out._node, out._nr, g) for out, g in pairs]
        captures = [(x._node, x._nr, x._array) for x in self.points]
        return execute(roots, captures, False, keep or create_graph, create_graph)  # type: ignore[arg-type]

    def _reaches_outside(self, outs: Sequence[Tensor]) -> bool:
        """Whether the graph of `outs` has a leaf that is not a point of this level."""
        if not self.outer:
            return False
        mine = {x._fn for x in self.points}
        stack: list[Node | None] = [out._node for out in outs]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node is None or (node in mine and type(node) is AccumulateGrad):
                continue
            if type(node) is AccumulateGrad:
                return True
            for child in (*node.edges, *(child for _, child, _ in node.zero_edges)):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return False


class NestedLevel:
    """A level of reverse mode inside of other transforms: an interpreter."""

    def __init__(self) -> None:
        self.level, self.points = Recording(), list[Recorded]()

    @contextmanager
    def on(self) -> Iterator[None]:
        with entered(self.level), inference_mode(False):  # which records, too
            yield

    def lift(self, x: Tensor) -> Tensor:
        with below(self.level):
            point = self.level.lift(x)
        self.points.append(point)
        return point

    def lowered(self, x: Any) -> Any:
        return self.level.value(x)

    def pull(self, outs: Sequence[Tensor], cotangents: Sequence[Tensor], keep: bool) -> Gradients:
        pairs = [(out, g) for out, g in zip(outs, cotangents, strict=True)
                 if self.level.value(out) is not out and out._fn is not None]
        if not pairs:
            return [None] * len(self.points)
        with below(self.level):
            roots = [(out._fn, out._nr, g) for out, g in pairs]
            captures = [(x._fn, x._nr, x._array) for x in self.points]
            create_graph = not MODES.bits & GRAD_OFF
            return execute(roots, captures, False, keep, create_graph, on_tensors=True)  # type: ignore[arg-type]


def new_level() -> GraphLevel | NestedLevel:
    """The level for where this thread is. In inference mode the plain graph records nothing."""
    nested = MODES.bits & INFERENCE or any(level.nests_reverse for level in MODES.stack)
    return NestedLevel() if nested else GraphLevel()


def pulled(level: GraphLevel | NestedLevel, outs: Sequence[Tensor], cotangents: Sequence[Tensor], keep: bool) -> Any:
    """The gradients of the points of a level; zeros for a point that the outputs do not depend on."""
    grads = level.pull(outs, cotangents, keep)
    return [zeros_like(x) if g is None else g for g, x in zip(grads, level.points, strict=True)]


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), vjp_fn): vjp_fn(cotangents) gives the vector-Jacobian products, a tuple like the primals.

    func: takes pytrees of floating-point tensors, and returns a pytree of them; with `has_aux` it returns a tuple
    (output, aux), and so the result is (output, vjp_fn, aux). cotangents: like the output. vjp_fn may be called several
    times. A primal that the output does not depend on gets zeros.

    >>> output, vjp_fn = ag.func.vjp(ag.sin, ag.zeros(2))
    >>> vjp_fn(ag.tensor([1.0, 2.0]))
    (tensor([1., 2.]),)
    """
    return vjp_of(func, primals, has_aux, "vjp(f, *primals)")


def vjp_of(func: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, api: str) -> Any:
    """`vjp`, with the name of the caller for messages."""
    level = new_level()
    leaves, spec = points(primals)
    with level.on():
        output, aux = with_aux(func(*unflatten(spec, [level.lift(x) for x in leaves])), api, has_aux)
        outs, out_spec = outputs(output, api)

    def vjp_fn(cotangents: Any, *more: Any) -> Any:
        tree = (cotangents, *more) if more else cotangents
        grads, given_spec = tensors(tree, f"{api}: expected cotangents to contain")
        if given_spec != out_spec and not (grads := reordered(tree, out_spec)):
            raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree structure of outputs "
                               f"to the function. cotangents: {given_spec}, primal output: {out_spec}")
        for g, out in zip(grads, outs, strict=True):
            if g.shape != out.shape:
                raise RuntimeError(f"{api}: a cotangent of shape {list(g.shape)} was given for an output of shape "
                                   f"{list(out.shape)}")
        return unflatten(spec, pulled(level, outs, grads, keep=True))

    value = unflatten(out_spec, [level.lowered(out) for out in outs])
    return (value, vjp_fn, tree_map(level.lowered, aux)) if has_aux else (value, vjp_fn)


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Makes a function that computes the gradient of `func`, which returns a tensor of no dimensions.

    argnums: the positional arguments to differentiate by, pytrees of tensors; a tuple gives a tuple of gradients.
    has_aux: func returns (output, aux), and the new function returns (gradient, aux).

    >>> ag.func.grad(ag.sin)(ag.tensor(0.0))
    tensor(1.)
    >>> ag.func.grad(ag.func.grad(ag.sin))(ag.tensor(0.0))
    tensor(-0.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Makes a function that computes (gradient, value) of `func`; with `has_aux` (gradient, (value, aux)).

    Arguments as in `grad`.

    >>> ag.func.grad_and_value(lambda x: (x * x).sum())(ag.ones(2))
    (tensor([2., 2.]), tensor(2.))
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        level, api = new_level(), "grad_and_value(f)(*args)"
        picked = picked_arguments(args, argnums)
        leaves, spec = points(picked)
        with level.on():
            lifted = unflatten(spec, [level.lift(x) for x in leaves])
            output = func(*with_arguments(args, argnums, lifted), **kwargs)
            out, aux = with_aux(output, api, has_aux)
            if not isinstance(out, Tensor):
                raise RuntimeError(f"{api}: Expected f(*args) to return a Tensor, got {type(out)}")
            if out.ndim:
                raise RuntimeError(f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with {out.ndim} "
                                   "dims. Maybe you wanted to use the vjp or jacrev APIs instead?")
            one = wrap(backend.make(out.device, "ones", (), out.dtype))
        value, aux = level.lowered(out), tree_map(level.lowered, aux)  # before the buffers of the graph are freed
        grads = unflatten(spec, pulled(level, [out], [one], keep=False))
        return grads, (value, aux) if has_aux else value

    return gradient


def picked_arguments(args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> Any:
    """The arguments by which to differentiate: one, or a tuple of them."""
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        return args[_place(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    places = [_place(argnum, len(args)) for argnum in argnums]
    if not places:
        raise RuntimeError("argnums must be non-empty")
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple([args[place] for place in places])


def with_arguments(args: tuple[Any, ...], argnums: int | tuple[int, ...], values: Any) -> list[Any]:
    """The arguments, with those by which to differentiate replaced."""
    replaced = list(args)
    if isinstance(argnums, int):
        replaced[argnums] = values
    else:
        for argnum, value in zip(argnums, values, strict=True):
            replaced[argnum] = value
    return replaced


def _place(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count
