"""Nodes of the graph: one per recorded call."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from . import hooks

_LOCK = threading.Lock()

# A node gets its number after its edges, so within one graph descending sequence numbers are a topological order.
next_sequence_nr = itertools.count().__next__


class InputMetadata(NamedTuple):
    """Shape and dtype of one of the gradients that a node receives."""

    shape: tuple[int, ...] | None
    dtype: Any


class Node:
    """A recorded call: the edges along which its gradients flow, and the values that its derivative rules read.

    edges           one node (or None) per input; the gradient of input i flows into edges[i]
    nrs             None, or per input its `_nr`, the output of edges[i] that it is
    shapes          None, or per input the shape to which its gradient is summed
    mask            bit i is set if input i needs a gradient from a rule
    zero_edges      ((input number, node, nr), ...) for inputs whose derivative is declared ZERO
    shape, dtype    of the output; for several outputs tuples of them, with None for a value that is not a tensor
    """

    __slots__ = (
        "__weakref__", "dtype", "edges", "extra", "mask", "nrs", "sequence_nr", "shape", "shapes", "topological_nr",
    )  # fmt: skip

    edges: tuple[Node | None, ...]
    nrs: tuple[int, ...] | None
    shapes: tuple[tuple[int, ...] | None, ...] | None
    mask: int
    shape: Any
    dtype: Any
    extra: hooks.NodeExtra | None
    sequence_nr: int
    topological_nr: int

    zero_edges: tuple[tuple[int, Node, int], ...] = ()
    outputs: int = 1  # the number of outputs; the task's buffers hold a single gradient for 1, otherwise a list
    shows_memory = False  # whether its output may be a view of its first input
    keeps_output = True  # whether it may save one of its own outputs
    materialize = False  # True for a user's Function: not pruned behind ZERO
    input_names: tuple[str, ...] = ()
    shown: tuple[int, ...] | None = None  # the inputs that next_functions and hooks show, in this order; None: all
    adds: tuple[int, ...] = ()  # inputs whose gradient a rule can add into an existing array
    extra_type: type[hooks.NodeExtra] = hooks.NodeExtra  # the class that `extra_of` creates

    def __init__(self) -> None:
        raise TypeError("Node is the base of the graph's nodes, which operations make; it has no objects of its own")

    def name(self) -> str:
        """The class name, such as MulBackward0."""
        return type(self).__name__

    def op_name(self) -> str:
        """The name of the operation for hooks and logs."""
        return self.name()

    def saved_by_name(self) -> Sequence[tuple[str, object]]:
        """The tensors that this node saves for backward, as (name, saved tensor)."""
        return ()

    def input_name(self, i: int) -> str:
        """The name of input `i` in the declaration of the op."""
        return self.input_names[i] if len(self.input_names) == len(self.edges) else f"input {i}"

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges as ((node or None, output number), ...), with ZERO edges; those of numbers follow the others."""
        nodes = list(self.edges)
        nrs = list(self.nrs or (0,) * len(nodes))
        for i, child, nr in self.zero_edges:
            nodes[i], nrs[i] = child, nr
        return tuple((nodes[i], max(nrs[i] - 1, 0)) for i in self.shown or range(len(nodes)))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's data on this node."""
        return extra_of(self).metadata

    @property
    def _input_metadata(self) -> list[InputMetadata]:
        """Shape and dtype of each gradient that this node receives; empty for a leaf that was freed."""
        if self.shape is None:
            return []
        if self.outputs == 1:
            return [InputMetadata(self.shape, self.dtype)]
        return [InputMetadata(shape, dtype) for shape, dtype in zip(self.shape, self.dtype, strict=True)]

    def _topological_nr(self) -> int:
        """The length of the longest path from this node to a leaf; 0 for a leaf."""
        return self.topological_nr

    def _sequence_nr(self) -> int:
        """The number of this node in creation order."""
        return self.sequence_nr

    def register_hook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """Calls `fn(grad_inputs, grad_outputs)` after the node ran; a returned tuple replaces grad_inputs."""
        return hooks.add(extra_of(self).post, fn)

    def register_prehook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """Calls `fn(grad_outputs)` before the node runs; a returned tuple replaces them."""
        return hooks.add(extra_of(self).pre, fn)

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        """Computes the gradients of the inputs in `need`, on arrays; `release` frees the buffers afterwards."""
        raise NotImplementedError(self.name())

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        """Does the same on tensors and records it, for create_graph."""
        raise NotImplementedError(self.name())

    def run_adding(self, g: Any, need: int, release: bool, into: dict[int, Any]) -> tuple[Any, ...]:
        """Runs as run_raw, but adds the gradients of the inputs in `into` to its arrays and returns None for them."""
        raise NotImplementedError(self.name())

    def rules(self, need: int) -> list[str]:
        """The names of the derivative rules that a run with `need` calls, for the profiler."""
        return [f"{self.name()}.grad_{i}" for i in range(len(self.edges)) if need >> i & 1]


def has_hooks(node: Node) -> bool:
    """Whether `node` has a user's hook."""
    return node.extra is not None and node.extra.any()


def behind(roots: Iterable[Node | None]) -> list[Node]:
    """The nodes of the graph of `roots`, these among them."""
    stack = [node for node in roots if node is not None]
    seen = dict.fromkeys(stack)
    while stack:
        for child in stack.pop().edges:
            if child is not None and child not in seen:
                seen[child] = None
                stack.append(child)
    return list(seen)


def extra_of(node: Node) -> hooks.NodeExtra:
    """The rare state of `node`, created if it has none yet."""
    if node.extra is None:
        with _LOCK:  # two threads must not create two for one node
            if node.extra is None:
                node.extra = node.extra_type()
    return node.extra


def add_tensor_hook(node: Node, nr: int, hook: hooks.Hook) -> hooks.RemovableHandle:
    """Adds a hook to output `nr` (as Tensor._nr) of `node`."""
    by_output = extra_of(node).tensor
    if nr not in by_output:
        by_output[nr] = hooks.Hooks()
    return hooks.add(by_output[nr], hook)
