"""AccumulateGrad: the node of a leaf, which receives its gradient."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from . import hooks, journals
from .node import Node, extra_of
from .storage import before_write, bump_version
from .tensor_base import TensorBase


class LeafExtra(hooks.NodeExtra):
    """The rare state of an AccumulateGrad."""

    __slots__ = ("leaf", "stands_in")

    def __init__(self) -> None:
        super().__init__()
        self.leaf: TensorBase | None = None  # alias of a leaf with post-accumulate hooks, used after the leaf is freed
        self.stands_in = False  # whether `leaf` has replaced the leaf


class AccumulateGrad(Node):
    """The node of a leaf that requires grad: adds the incoming gradient to the leaf's `.grad`.

    It references the leaf weakly: the leaf owns the node.
    """

    __slots__ = ("_lock", "_ref")

    extra: LeafExtra | None
    extra_type = LeafExtra
    edges = ()
    nrs = shapes = None
    mask = topological_nr = 0
    sequence_nr = sys.maxsize  # runs as soon as its contributions are complete

    def __init__(self, leaf: TensorBase) -> None:
        self._ref = weakref.ref(leaf)
        self._lock = threading.Lock()
        self.extra = None

    @property
    def variable(self) -> TensorBase | None:
        """The leaf, or None if it was freed."""
        return self._ref()

    @property
    def shape(self) -> Any:
        leaf = self._ref()
        return None if leaf is None else leaf.shape

    @property
    def dtype(self) -> Any:
        leaf = self._ref()
        return None if leaf is None else leaf.dtype

    def addable_grad(self) -> TensorBase | None:
        """The leaf's `.grad` if a derivative rule may add into its memory: only on CUDA, where this saves a launch."""
        leaf = self._ref()
        if leaf is None or leaf._grad is None:
            return None
        grad = leaf._grad
        return grad if grad._fn is None and grad.dtype == leaf.dtype and grad.is_cuda else None

    def living(self) -> TensorBase | None:
        """The leaf. If it was freed and has post-accumulate hooks: a new leaf with the same memory and `.grad`."""
        with self._lock:
            leaf, extra = self._ref(), self.extra
            if extra is None or extra.leaf is None:
                return leaf
            if leaf is None:
                leaf = extra.leaf.detach()
                leaf._fn, leaf._grad = self, extra.leaf._grad
                self._ref, extra.stands_in = weakref.ref(leaf), True
            elif leaf._array is not extra.leaf._array:  # the leaf got other memory since
                extra.leaf = leaf.detach()
            return leaf

    def standstill(self) -> threading.Lock:
        """The lock that keeps other backward calls from adding to the leaf's `.grad`."""
        return self._lock

    def accumulate(self, leaf: TensorBase, g: TensorBase, recording: bool) -> None:
        """Adds `g` to leaf.grad, and may take over `g` as leaf.grad. Recorded sums are out of place."""
        with self._lock:
            grad = leaf._grad
            if grad is None:
                total = g
            elif recording or grad._fn is not None or grad._array.dtype != g._array.dtype:
                total = grad + g  # before the journal is told: what comes between that and the write is none of it
            else:
                if journals.OPEN:
                    journals.note(leaf, adds=True)
                array = grad._array
                if array.shape != g._array.shape:
                    raise RuntimeError(f"a leaf's gradient of shape {list(g.shape)} cannot be added to its .grad of "
                                       f"shape {list(array.shape)}; set .grad to None where the leaf's shape changes")
                before_write([grad])
                array += g._array
                bump_version(grad)
                return
            if journals.OPEN:
                journals.note(leaf, adds=True)
            leaf._grad = total


def add_leaf_hook(node: AccumulateGrad, leaf: TensorBase, hook: hooks.Hook) -> hooks.RemovableHandle:
    """Adds a post-accumulate hook to `leaf`, whose AccumulateGrad is `node`."""
    extra = extra_of(node)
    assert isinstance(extra, LeafExtra)
    extra.leaf = leaf.detach()
    return hooks.add(extra.post_accumulate, hook)
