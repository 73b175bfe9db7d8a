"""Nodes of the graph: one per recorded call, and AccumulateGrad at every leaf."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from . import hooks
from .storage import before_write, bump_version

if TYPE_CHECKING:
    from ..saved.saved_tensor import SavedTensor
    from ..tensor import Tensor

# Drawn when the edges exist, so within one graph a descending sequence number is a topological order.
next_sequence_nr = itertools.count().__next__


class InputMetadata(NamedTuple):
    """What a node knows of one of the gradients that it gets."""

    shape: tuple[int, ...] | None
    dtype: Any


class Node:
    """A recorded call: where its gradients go, and what its derivative rules read.

    edges           one node (or None) per input; the gradient of input i flows into edges[i]
    nrs             None, or per input the `_nr` of the output that it was
    shapes          None, or per input the shape that its gradient is summed to
    mask            bit i set: input i wants a gradient by a rule
    zero_edges      ((input number, node, nr), ...) of inputs whose derivative is declared ZERO
    shape, dtype    of the output; of several outputs, tuples of them, with None for a value that is no tensor
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
    outputs: int = 1  # how many; 1 is stored bare in the task's buffers, more as a list
    shows_memory = False  # whether its output may be a view of its first input
    keeps_output = True  # whether it may save one of its own outputs
    materialize = False  # True for a user's Function: not pruned behind ZERO
    input_names: tuple[str, ...] = ()
    shown: tuple[int, ...] | None = None  # the inputs that next_functions and hooks show, in this order; None: all
    adds: tuple[int, ...] = ()  # inputs whose gradient a rule can add into an existing array

    def __init__(self) -> None:
        raise TypeError("Node is the base of the graph's nodes, which operations make; it has no objects of its own")

    def name(self) -> str:
        """The class name, such as MulBackward0."""
        return type(self).__name__

    def op_name(self) -> str:
        """What hooks and logs call the operation."""
        return self.name()

    def saved_by_name(self) -> list[tuple[str, SavedTensor]]:
        """(name, SavedTensor) of everything that this node keeps for backward."""
        return []

    def keep_extras(self) -> None:
        """What else a forward left for backward becomes saved tensors."""

    def input_name(self, i: int) -> str:
        """What input `i` is called where the op is declared."""
        return self.input_names[i] if len(self.input_names) == len(self.edges) else f"input {i}"

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges as ((node or None, output number), ...), ZERO ones included; of numbers behind those of tensors."""
        nodes = list(self.edges)
        nrs = list(self.nrs or (0,) * len(nodes))
        for i, child, nr in self.zero_edges:
            nodes[i], nrs[i] = child, nr
        return tuple((nodes[i], max(nrs[i] - 1, 0)) for i in self.shown or range(len(nodes)))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return hooks.extra_of(self).metadata

    @property
    def _input_metadata(self) -> list[InputMetadata]:
        """Shape and dtype of each gradient that arrives here; nothing for a leaf that is gone."""
        if self.shape is None:
            return []
        if self.outputs == 1:
            return [InputMetadata(self.shape, self.dtype)]
        return [InputMetadata(shape, dtype) for shape, dtype in zip(self.shape, self.dtype, strict=True)]

    def _topological_nr(self) -> int:
        """The longest path from here to a leaf; a leaf has 0."""
        return self.topological_nr

    def _sequence_nr(self) -> int:
        """The number of this node in the order of creation."""
        return self.sequence_nr

    def register_hook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """Calls `fn(grad_inputs, grad_outputs)` after the node ran; a returned tuple replaces grad_inputs."""
        return hooks.add(hooks.extra_of(self).post, fn)

    def register_prehook(self, fn: hooks.Hook) -> hooks.RemovableHandle:
        """Calls `fn(grad_outputs)` before the node runs; a returned tuple replaces them."""
        return hooks.add(hooks.extra_of(self).pre, fn)

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        """The gradients of the inputs in `need`, on arrays; `release` frees the buffers afterwards."""
        raise NotImplementedError(self.name())

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        """The same on tensors, recording: for create_graph."""
        raise NotImplementedError(self.name())

    def run_adding(self, g: Any, need: int, release: bool, into: dict[int, Any]) -> tuple[Any, ...]:
        """run_raw, but the gradients of the inputs in `into` are added to its arrays, and None in the result."""
        raise NotImplementedError(self.name())

    def rules(self, need: int) -> list[str]:
        """Names of the derivative rules that a run with `need` calls, for the profiler."""
        return [f"{self.name()}.grad_{i}" for i in range(len(self.edges)) if need >> i & 1]


class AccumulateGrad(Node):
    """The node of a leaf that requires grad: adds what arrives to the leaf's `.grad`.

    It holds the leaf weakly: the leaf owns it.
    """

    __slots__ = ("_lock", "_ref")

    edges = ()
    nrs = shapes = None
    mask = topological_nr = 0
    sequence_nr = sys.maxsize  # runs as soon as its contributions are complete

    def __init__(self, leaf: Tensor) -> None:
        self._ref = weakref.ref(leaf)
        self._lock = threading.Lock()
        self.extra = None

    @property
    def variable(self) -> Tensor | None:
        """The leaf, None if it is gone."""
        return self._ref()

    @property
    def shape(self) -> Any:
        leaf = self._ref()
        return None if leaf is None else leaf.shape

    @property
    def dtype(self) -> Any:
        leaf = self._ref()
        return None if leaf is None else leaf.dtype

    def addable_grad(self) -> Tensor | None:
        """The leaf's `.grad` if a derivative rule may add into its memory: on CUDA, where that saves a launch."""
        leaf = self._ref()
        if leaf is None or leaf._grad is None:
            return None
        grad = leaf._grad
        return grad if grad._fn is None and grad.dtype == leaf.dtype and grad.is_cuda else None

    def living(self) -> Tensor | None:
        """The leaf. If it is gone and left post-accumulate hooks: another with its memory, and the `.grad` of such."""
        with self._lock:
            leaf, extra = self._ref(), self.extra
            if extra is None or extra.leaf is None:
                return leaf
            if leaf is None:
                leaf = extra.leaf.detach()
                leaf._fn, leaf._grad = self, extra.leaf._grad
                self._ref, extra.stands_in = weakref.ref(leaf), True
            elif leaf._array is not extra.leaf._array:  # given other memory since
                extra.leaf = leaf.detach()
            return leaf

    def standstill(self) -> threading.Lock:
        """A lock: while it is held no other backward adds to the leaf's `.grad`."""
        return self._lock

    def accumulate(self, leaf: Tensor, g: Tensor, recording: bool) -> None:
        """leaf.grad += g. `g` is the caller's to give away; recorded sums are out of place."""
        with self._lock:
            grad = leaf._grad
            if grad is None:
                leaf._grad = g
            elif recording or grad._fn is not None or grad._array.dtype != g._array.dtype:
                leaf._grad = grad + g
            else:
                array = grad._array
                if array.shape != g._array.shape:
                    raise RuntimeError(f"a leaf's gradient of shape {list(g.shape)} cannot be added to its .grad of "
                                       f"shape {list(array.shape)}; set .grad to None where the leaf's shape changes")
                before_write([grad])
                array += g._array
                bump_version(grad)
