"""Applies the saved-tensor hooks of a thread to all tensors that its calls save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...modes import MODES, SAVING
from ..graph.leaf import AccumulateGrad
from ..graph.node import Node, next_sequence_nr
from ..graph.storage import Storage, storage_of
from ..graph.tensor_base import TensorBase
from ..tensor import Parameter, Tensor
from .saved_tensor import SavedOutput, SavedTensor, SavingNode, saved_for_user


class SaveInfo(NamedTuple):
    """The second argument of a pack hook with `with_info=True`.

    op: name of the op, such as "mul", or of the Function; name: name of the tensor in the derivative, such as "weight"
    or "out", for a Function "saved_tensors[0]"; is_leaf, is_parameter: properties of the saved tensor, or of the leaf
    that it is a view of; storage: identity of the memory, shared by views, weakly referenceable; version: number of
    writes to the memory; node_seq: `grad_fn._sequence_nr()` of the node that saves.

    >>> def pack(t, info):
    ...     print(info.op, info.name, info.is_leaf)
    ...     return t
    >>> with ag.autograd.graph.saved_tensors_hooks(pack, lambda t: t, with_info=True):
    ...     y = ag.ones(2, requires_grad=True).exp()
    exp out False
    """

    op: str
    name: str
    is_leaf: bool
    is_parameter: bool
    storage: Storage
    version: int
    node_seq: int


class EnoughSaved(BaseException):
    """Raised by a pack hook to stop recording the call that saves: its in-place writes stay, without a node."""


class Pair(NamedTuple):
    """A pair of hooks for all tensors saved while the pair is on."""

    pack: Callable[..., Any]
    unpack: Callable[[Any], Any]
    with_info: bool


Withheld = tuple[SavedOutput, Node, str]


def push(pair: Pair) -> None:
    """Turns on a pair of hooks; RuntimeError if saved-tensor hooks are disabled."""
    if MODES.saving_refused is not None:
        raise RuntimeError(MODES.saving_refused)
    MODES.saving = (*MODES.saving, pair)
    MODES.bits |= SAVING


def pop() -> None:
    MODES.saving = MODES.saving[:-1]
    if not MODES.saving:
        MODES.bits &= ~SAVING


def hand_over(node: SavingNode, exempt: Sequence[Tensor]) -> None:
    """Gives the saved tensors of a new node to the innermost pair of hooks, except for those in `exempt`."""
    node.keep_extras()
    withheld = MODES.withheld
    for name, kept in node.saved_by_name():
        tensor = kept.tensor
        if tensor is None or any(tensor is other for other in exempt):
            continue
        if withheld is not None and type(kept) is SavedOutput:
            withheld.append((kept, node, name))
        else:
            give(kept, node, name)


def withholding(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[Withheld]]:
    """Runs `function`; returns its result and the saved outputs of its nodes, which the caller passes to `give`.

    The caller does so when the outputs are in their final memory.
    """
    before, MODES.withheld = MODES.withheld, []
    try:
        return function(*args, **kwargs), MODES.withheld
    finally:
        MODES.withheld = before


def give(kept: SavedTensor, node: Node, name: str) -> None:
    """Gives one saved tensor of `node` to the innermost pair of hooks."""
    _pack(kept, node.op_name(), name, node.sequence_nr)


def keep(tensor: Tensor, op: str, name: str) -> SavedTensor:
    """Keeps a tensor for an owner that is not a node, and gives it to the innermost pair of hooks."""
    kept = saved_for_user(tensor)
    if MODES.bits & SAVING:
        _pack(kept, op, name, next_sequence_nr())
    return kept


def _pack(kept: SavedTensor, op: str, name: str, node_seq: int) -> None:
    pair, tensor = MODES.saving[-1], kept.tensor
    assert tensor is not None
    if not pair.with_info:
        kept.hand_to(pair.pack, pair.unpack)
        return
    leaf = tensor if kept.of_leaf() else _leaf_behind(tensor)
    parameter = isinstance(leaf, Parameter)
    info = SaveInfo(op, name, leaf is not None, parameter, storage_of(tensor), kept.version, node_seq)
    kept.hand_to(pair.pack, pair.unpack, info)


def _leaf_behind(view: Tensor) -> TensorBase | None:
    """The leaf that a saved view is a view of, or None."""
    node = view._fn
    while node is not None and node.shows_memory:
        node = node.edges[0]
    leaf = node.variable if isinstance(node, AccumulateGrad) else None
    return leaf if leaf is not None and leaf._storage is view._storage else None
