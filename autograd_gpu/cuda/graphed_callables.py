"""make_graphed_callables: differentiable functions whose forward and backward are replays of CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import pytrees
from ..autograd.backward import grad
from ..autograd.function import Function
from ..backend.cuda import capture, runtime
from ..core.tensor import Tensor, wrap
from ..modes import enable_grad, is_grad_enabled
from .graphed_step import WARMUP, copied
from .graphs import CUDAGraph, graph

Tensors = Sequence[Any]  # of tensors, and None where there is no gradient


class Replay:
    """Work on tensors in fixed places, captured; called with other numbers for them it replays it."""

    def __init__(self, work: Callable[[], Tensors], inputs: Tensors, stream: Any, pool: Any) -> None:
        self.inputs, self.graph, self._pool = inputs, CUDAGraph(), pool
        with graph(self.graph, pool, stream):
            self.results = list(work())

    def __call__(self, values: Tensors) -> list[Any]:
        """Copies of the results for other inputs."""
        stream, empty = runtime.current.stream(), runtime.cupy().empty
        self._pool.order(stream)
        for static, value in zip(self.inputs, values, strict=True):
            if static is not None and value is not None and static.array is not value.array:
                copied(value.array, static.array, stream)
        self.graph.replay()
        return [
            None if result is None else wrap(copied(result.array, empty(result.shape, result.array.dtype), stream))
            for result in self.results
        ]


class Graphed:
    """A function of tensors, its backward and the backward of that: three graphs, the last two made when needed.

    They share the captured tape, and so the memory of what it saved: a backward belongs to the forward before it.
    """

    def __init__(self, function: Callable[..., Any], inputs: list[Tensor], leaves: list[Tensor], pool: Any) -> None:
        self.leaves, self.stream, self.pool = leaves, runtime.cupy().cuda.Stream(non_blocking=True), pool
        self.inputs = [wrap(x.array.copy())._set_requires_grad(x.requires_grad) for x in inputs]
        self.function, self.forwards = function, 0
        self.backwards: dict[bool, Replay] = {}
        self.again: Replay | None = None

    def warm_up(self, count: int) -> None:
        """Runs forward and backward `count` times, and captures the forward."""
        for _ in range(count):
            self._gradients(self._forward(), None, create_graph=False)
        self.forward = Replay(self._forward, self.inputs, self.stream, self.pool)

    def _forward(self) -> list[Any]:
        with enable_grad():
            results, self.spec = pytrees.flatten(self.function(*self.inputs))
        return results

    @property
    def differentiable(self) -> list[Tensor]:
        """What the results have gradients for."""
        return [x for x in (*self.inputs, *self.leaves) if x.requires_grad]

    def _gradients(self, results: Tensors, cotangents: Any, create_graph: bool) -> list[Any]:
        outs = [(r, i) for i, r in enumerate(results) if r.requires_grad]
        if not outs:
            return [None] * len(self.differentiable)
        gs = None if cotangents is None else [cotangents[i] for _, i in outs]
        if gs is None:
            gs = [wrap(runtime.cupy().ones(r.shape, r.array.dtype)) for r, _ in outs]
        with enable_grad():
            return list(grad([r for r, _ in outs], self.differentiable, gs, retain_graph=True,
                             create_graph=create_graph, allow_unused=True))

    def backward(self, cotangents: Tensors, create_graph: bool) -> list[Any]:
        """The gradients of `differentiable`, by a replay."""
        if create_graph not in self.backwards:
            xp = runtime.cupy()
            static = [wrap(xp.ones(r.shape, r.array.dtype))._set_requires_grad(r.requires_grad and create_graph)
                      for r in self.forward.results]

            def work() -> list[Any]:
                return self._gradients(self.forward.results, static, create_graph)

            work()
            self.backwards[create_graph] = Replay(work, static, self.stream, self.pool)
        return self.backwards[create_graph](cotangents)

    def backward_again(self, cotangents: Tensors) -> list[Any]:
        """The gradients of `differentiable` and of the cotangents of the backward, by a replay."""
        if self.again is None:
            first = self.backwards[True]
            outs = [g for g in first.results if g is not None and g.requires_grad]
            xp, inputs = runtime.cupy(), [*self.differentiable, *first.inputs]
            static = [None if g is None or not g.requires_grad else wrap(xp.ones(g.shape, g.array.dtype))
                      for g in first.results]
            needed = [x for x in inputs if x.requires_grad]

            def work() -> list[Any]:
                cotangents = [h for h in static if h is not None]
                grads = iter(grad(outs, needed, cotangents, retain_graph=True, allow_unused=True))
                return [next(grads) if x.requires_grad else None for x in inputs]

            work()
            self.again = Replay(work, static, self.stream, self.pool)
        return self.again(cotangents)

    def check(self, number: int) -> None:
        """RuntimeError if the forward was replayed again since the one with this number."""
        if number != self.forwards:
            raise RuntimeError("backward through a graphed callable that was called again since: its saved tensors lie "
                               "in the memory of the graph; call backward before the next call, or make two of it")


class _Forward(Function):
    """Inputs and leaves -> results."""

    @staticmethod
    def forward(ctx: Any, owner: Graphed, *tensors: Tensor) -> tuple[Tensor, ...]:
        owner.forwards += 1
        ctx.owner, ctx.number = owner, owner.forwards
        ctx.save_for_backward(*tensors)
        results = owner.forward(tensors[: len(owner.inputs)])
        ctx.mark_non_differentiable(*[
            ours for ours, result in zip(results, owner.forward.results, strict=True) if not result.requires_grad
        ])  # fmt: skip
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        tensors, owner = ctx.saved_tensors, ctx.owner
        grads = iter(_Backward.apply(owner, ctx.number, is_grad_enabled(), len(cotangents), *cotangents, *tensors))
        return None, *[next(grads) if x.requires_grad else None for x in (*owner.inputs, *owner.leaves)]


class _Backward(Function):
    """Cotangents, inputs and leaves -> gradients; the last two are arguments for what depends on them."""

    @staticmethod
    def forward(ctx: Any, owner: Graphed, number: int, again: bool, count: int, *tensors: Tensor) -> tuple[Any, ...]:
        owner.check(number)
        ctx.owner, ctx.number, ctx.count = owner, number, count
        return tuple(owner.backward(tensors[:count], again))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        owner = ctx.owner
        owner.check(ctx.number)
        if is_grad_enabled():
            raise RuntimeError("a graphed callable is differentiable twice; the third derivative needs the callable "
                               "itself")
        results, count = owner.backward_again(cotangents), len(owner.differentiable)
        grads = iter(results[:count])
        of_tensors = [next(grads) if x.requires_grad else None for x in (*owner.inputs, *owner.leaves)]
        return None, None, None, None, *results[count:], *of_tensors


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = WARMUP, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """Functions or modules whose calls, and the backward through them, are replays of CUDA graphs.

    `sample_args` are the arguments of a call, tensors on the device, or for a tuple of callables a tuple of such
    tuples; later calls need those shapes. The result is differentiable twice. A call's backward must run before the
    next call, or RuntimeError. A module is returned with its `forward` replaced. RuntimeError for an input or parameter
    that no result depends on, unless `allow_unused_input`.

    >>> if ag.cuda.is_available():
    ...     layer = ag.nn.Linear(3, 2, device="cuda")
    ...     x = ag.ones(4, 3, device="cuda")
    ...     layer = ag.cuda.make_graphed_callables(layer, (x,))
    ...     layer(x).sum().backward()
    """
    runtime.count_devices()
    if not isinstance(callables, tuple):
        return make_graphed_callables((callables,), (sample_args,), num_warmup_iters, allow_unused_input, pool)[0]
    shared = capture.GraphPool() if pool is None else pool
    return tuple([
        _graphed(function, args, num_warmup_iters, allow_unused_input, shared)
        for function, args in zip(callables, sample_args, strict=True)
    ])  # fmt: skip


def _graphed(function: Any, args: Sequence[Any], warmup: int, unused: bool, pool: Any) -> Any:
    module = function if hasattr(function, "parameters") else None
    leaves = [] if module is None else [p for p in module.parameters() if p.requires_grad]
    if not all(isinstance(x, Tensor) and x.is_cuda for x in args):
        raise TypeError("make_graphed_callables: sample_args must be tensors on the CUDA device")
    inner = function if module is None else module.forward
    owner = Graphed(inner, list(args), leaves, pool)
    owner.warm_up(warmup)
    if not unused and None in owner.backward(owner.forward.results, create_graph=False):
        raise RuntimeError("make_graphed_callables: no result depends on one of the inputs or parameters that require "
                           "grad; if that is intended, set allow_unused_input=True")

    def graphed(*inputs: Tensor) -> Any:
        for x, static in zip(inputs, owner.inputs, strict=True):
            if x.shape != static.shape or x.dtype != static.dtype:
                raise RuntimeError(f"the graphed callable was made for inputs of shape {list(static.shape)} and dtype "
                                   f"{static.dtype}, but got {list(x.shape)} and {x.dtype}")
        return owner.spec.unflatten(_Forward.apply(owner, *inputs, *leaves))

    if module is None:
        return graphed
    module.forward = graphed
    return module
