"""Rewrites the history of tensors after in-place operations, on views, too.

    1. x.op_(...) runs op out of place on the old value of x and writes the result to x's memory: the version increases.
    2. If x is not a view, the result's node becomes x's node.
    3. If x is a view, its base changed: the base's new node is a CopySlices, the old base with x's elements replaced.
    4. A view whose storage has a newer version than the view's last check gets a new node when its node is next read:
       an AsStridedBackward0 of the current base. Until then its `_fn` is stale.

Note [Stale views]
`Tensor._fn` is the raw slot. Generated code tests `x._base is not None and x._seen != x._storage.version` before it
reads the slot; for a tensor that is not a view this costs one None test. All other code reads `x._node`, a property
with the same test.
"""

from __future__ import annotations

import weakref
from types import NoneType
from typing import Any

from ...backend import may_share_memory
from ...backend.arrays import strides
from ...backend.arrays.strides import StridedGeometry
from ..declare.op import RAW, RECORD
from ..graph.leaf import AccumulateGrad
from ..graph.node import Node, extra_of, next_sequence_nr
from ..graph.storage import (
    IN_FUNCTION,
    IN_INFERENCE,
    IN_INFERENCE_NO_GRAD,
    NO_GRAD,
    OF_SUCH_A_VIEW,
    ONE_OF_SEVERAL,
    FollowingStorage,
    Storage,
)
from ..graph.tensor_base import TensorBase
from .anomaly import note

Edge = tuple[Node | None, int]  # a node and the `_nr` of one of its outputs


class BaseHistory:
    """The node of a base and the geometry of its memory, as its views need them. It keeps no memory alive."""

    __slots__ = ("dtype", "edge", "geometry", "start")

    def __init__(self, x: TensorBase) -> None:
        self.edge: Edge = x._fn, x._nr
        array = x._layout()
        self.dtype, self.start = array.dtype, strides.address(array)
        self.geometry = strides.geometry_of(array, self.start)


# The history and version of a base before it got other memory: views that were stale then refer to that history.
_FORMER_BASES: weakref.WeakKeyDictionary[Storage, tuple[BaseHistory, int]] = weakref.WeakKeyDictionary()


class HistoryNode(Node):
    """A node that was not created by a call of an op."""

    __slots__ = ()

    def _link(self, like: Any, *children: Edge) -> None:
        self.shape, self.dtype = like.shape, like.dtype
        self.edges = tuple([node for node, _ in children])
        self.nrs = tuple([nr for _, nr in children]) if any(nr for _, nr in children) else None
        self.shapes = self.extra = None
        self.mask = sum([1 << i for i, node in enumerate(self.edges) if node is not None])
        self.topological_nr = 1 + max([0, *(node.topological_nr for node in self.edges if node is not None)])
        self.sequence_nr = next_sequence_nr()
        note(self)

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        return self._run(RAW, g, need)

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        return self._run(RECORD, g, need)

    def _run(self, F: Any, g: Any, need: int) -> tuple[Any, ...]:
        raise NotImplementedError


class ViewNode(HistoryNode):
    """A node with the geometries of a view and of its base, both relative to the address of the base."""

    __slots__ = ("base_geometry", "geometry")

    base_geometry: StridedGeometry
    geometry: StridedGeometry


class CopySlices(ViewNode):
    """The node of a base after a write to one of its views: `base` with the view's elements replaced by `values`."""

    __slots__ = ()
    input_names = ("base", "values")

    def __init__(self, base: TensorBase, view: Any, values: Edge) -> None:
        array = base._layout()
        self._link(array, (base._fn, base._nr), values)
        start = strides.address(array)
        self.base_geometry, self.geometry = strides.geometry_of(array, start), strides.geometry_of(view, start)

    def _run(self, F: Any, g: Any, need: int) -> tuple[Any, ...]:
        return (F.erase(g, self.base_geometry, self.geometry) if need & 1 else None,
                F.restride(g, self.base_geometry, self.geometry) if need & 2 else None)


class AsStridedBackward0(ViewNode):
    """The node of a view, as a strided view of its base."""

    __slots__ = ()
    shows_memory = True
    input_names = ("self",)

    def __init__(self, history: BaseHistory, view: Any) -> None:
        self._link(view, history.edge)
        self.base_geometry, self.geometry = history.geometry, strides.geometry_of(view, history.start)

    def _run(self, F: Any, g: Any, need: int) -> tuple[Any, ...]:
        return (F.restride(g, self.geometry, self.base_geometry),)


class CopyBackward0(HistoryNode):
    """The node of a tensor after `src`, broadcast, was copied into it: the old value has zero gradients."""

    __slots__ = ("zero_edges",)
    input_names = ("self", "src")

    def __init__(self, x: TensorBase, src: TensorBase | None) -> None:
        self._link(x._array, (None, 0), (None, 0) if src is None else (src._fn, src._nr))
        if src is not None and src._array.shape != x._array.shape:
            self.shapes = (None, src._array.shape)
        self.zero_edges = ()
        if x._fn is not None and x._base is None:  # the history of a view's old value is that of its base
            self.zero_edges = ((0, x._fn, x._nr),)
            self.topological_nr = max(self.topological_nr, x._fn.topological_nr + 1)

    def _run(self, F: Any, g: Any, need: int) -> tuple[Any, ...]:
        return None, g


def refresh(view: TensorBase) -> None:
    """Gives a stale view a new node, from its base's current history (step 4)."""
    base, storage = view._base, view._storage
    assert base is not None
    assert storage is not None
    version, history = storage.version, None
    if not no_longer_view(view):
        history = BaseHistory(base)
    elif storage in _FORMER_BASES and view._seen < _FORMER_BASES[storage][1]:
        history = _FORMER_BASES[storage][0]
    same_dtype = history is not None and history.dtype is view._array.dtype
    if history is not None and same_dtype and (history.edge[0] is not None or _has_history(view)):
        if view._made:
            raise inplace_error(view, "its base or another view of its base has been")
        set_gradient_edge(view, AsStridedBackward0(history, view._array), 0)
    view._seen = version  # last: until then other threads see a stale view and refresh it, too


def _has_history(x: TensorBase) -> bool:
    return type(x._fn) not in (NoneType, AccumulateGrad)


def no_longer_view(view: TensorBase) -> bool:
    """Whether a view and its base no longer share memory: `.data` was set, or a module moved to another device."""
    base = view._base
    return base is not None and view._array.size > 0 and not may_share_memory(view._array, base._array)


def refresh_if_stale(x: TensorBase) -> None:
    """Refreshes x if it is a stale view. Required before a write, since a write changes what a stale view refers to."""
    if x._base is not None and x._seen != x._storage.version:  # type: ignore[union-attr]
        refresh(x)


def node_of(x: TensorBase) -> Node | None:
    """The current node of x, as `Tensor._node`: refreshes a stale view first."""
    refresh_if_stale(x)
    return x._fn


def set_data(x: TensorBase, value: TensorBase) -> None:
    """Gives x the memory of `value`; x keeps its history and its version."""
    refresh_if_stale(x)
    if x.is_inference() or value.is_inference():
        x._storage = value._storage
    elif x._storage is not None:  # x needs another Storage: memory hooks identify the old memory by the old one
        if x._base is None:
            _FORMER_BASES[x._storage] = BaseHistory(x), x._storage.version
        x._storage = FollowingStorage(x._storage, 0)
    x._base = None  # a view has its own memory from now on
    x._array = value._array


def set_gradient_edge(x: TensorBase, node: Node, nr: int) -> None:
    """Makes output `nr` of `node` the grad_fn of x. `retain_grad` moves to it; tensor hooks stay on the old node."""
    old = x._fn
    if old is not None and old.extra is not None:
        retained = old.extra.retained.get(x._nr)
        if retained is not None and retained() is x:
            extra_of(node).retained[nr] = old.extra.retained.pop(x._nr)
    x._fn, x._nr = node, nr


def rebase_history(x: TensorBase, node: Node | None, nr: int) -> None:
    """Records that x's memory now holds output `nr` of `node`, or constants (steps 2, 3); after the version bump."""
    if no_longer_view(x):
        x._base = None
    base = x._base
    if base is not None:
        set_gradient_edge(base, CopySlices(base, x._array, (node, nr)), 0)
        x._seen = -1  # x may have been refreshed since the version increased
    elif node is not None:
        set_gradient_edge(x, node, nr)


def overwrite(x: TensorBase, src: TensorBase | None) -> None:
    """Records that x's memory was overwritten with `src`, broadcast, or with constants, if either is in a graph.

    The caller has refreshed both tensors before the write.
    """
    constant = src is None or src._fn is None
    if constant and x._fn is None:
        return
    rebase_history(x, None if constant and x._base is not None else CopyBackward0(x, src), 0)


def check_inplace(name: str, x: TensorBase) -> None:
    """Raises RuntimeError if an in-place operation on x cannot be recorded: on a leaf, on some views."""
    base = x._base
    if base is not None:
        if x._made:  # before `_node` is read, which raises another error for a stale view
            raise inplace_error(x, "is being")
        if not _has_history(base) and (base._fn is not None or node_of(x) is not None):
            raise leaf_error(name, "a view of a leaf Variable")
        if base._array.dtype is not x._array.dtype and not no_longer_view(x):
            raise RuntimeError(f"{name}: this view shows memory of dtype {base.dtype} as {x.dtype}, and gradients do "
                               "not flow through that; write to a clone() of it")
    if type(node_of(x)) is AccumulateGrad:
        raise leaf_error(name, "a leaf Variable")


def leaf_error(name: str, what: str) -> RuntimeError:
    """Makes the error for a write to `what`, a leaf that requires grad or a view of one."""
    return RuntimeError(f"{what} that requires grad is being used in an in-place operation; wrap {name} in "
                        "ag.no_grad(), or work on a clone() of the leaf")


def inplace_error(view: TensorBase, what: str) -> RuntimeError:
    """Makes the error for a view whose history cannot be rewritten because of its origin; `what` is e.g. "is being"."""
    made, base = view._made & ~OF_SUCH_A_VIEW, view._base
    in_mode = made in (NO_GRAD, IN_INFERENCE, IN_INFERENCE_NO_GRAD)
    mode, block, now = _MODES[made != NO_GRAD if in_mode else False]
    origin = "This" if view._fn is None else f"Output {max(view._nr - 1, 0)} of {view._fn.name()}"
    if in_mode or view._fn is None:
        of_view = in_mode and view._made & OF_SUCH_A_VIEW and base is not None and base._fn is not None
        such = f"{origin} is a view of a view which" if of_view else "A view"
        text = f"{such} was created in {mode} mode and {what} modified inplace {now}. "
    else:
        text = f"{origin} is a view and {what} modified inplace. "
    if in_mode:
        text += _AMBIGUOUS.format(block)
    return RuntimeError(text + {ONE_OF_SEVERAL: _ONE_OF_SEVERAL, IN_FUNCTION: _IN_FUNCTION}.get(made, ""))


_MODES = (("no_grad", "no_grad", "with grad mode enabled"), ("inference", "inference_mode", "in normal mode"))
_AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the {} block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked)."
)
_ONE_OF_SEVERAL = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_IN_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
    "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
)
